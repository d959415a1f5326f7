//! Lists a call's artifacts, and writes them to a directory.
//!
//! Their names come from the skill: they are reduced to plain file names, and no existing file is overwritten.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use openskill_log::text::is_hidden;
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{Artifact, ReadArtifactRequest};

use super::progress::short;
use crate::channel::Channel;
use crate::commands::client;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::{complain, counted};

/// The longest file name, in bytes: room for a numeric suffix within the limit of file systems.
const MAX_NAME_BYTES: usize = 200;

/// How many numeric suffixes are tried for a name that exists.
const MAX_SUFFIX: u32 = 9999;

/// Prints a line for each artifact to stderr. With `directory`, writes them there.
pub(super) async fn list(
    directory: Option<&Path>,
    artifacts: &[Artifact],
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
) -> Result<(), Failure> {
    for artifact in artifacts {
        let written = match directory {
            Some(directory) => format!(" -> {}", save(artifact, directory, settings, client).await?.display()),
            None => String::new(),
        };
        let (name, media_type) = (file_name(&artifact.name), short(&artifact.media_type));
        let size = counted(artifact.size_bytes, "byte");
        complain(&format!("artifact: {name} ({media_type}, {size}){written}\n"));
    }
    Ok(())
}

/// Writes one artifact to a new file, and removes the file if that fails.
async fn save(
    artifact: &Artifact,
    directory: &Path,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let (mut file, path) = create(directory, &file_name(&artifact.name))?;
    let written = match &artifact.content {
        Some(Content::Data(data)) => file.write_all(data).map_err(failed(&path)),
        Some(Content::Handle(handle)) => download(handle, &mut file, &path, settings, client).await,
        None => Err(Failure::Gateway {
            url: settings.base_url.clone(),
            reason: format!("sent the artifact '{}' without content", artifact.name),
        }),
    };
    if written.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    written.map(|()| path)
}

/// Reads an artifact range by range.
async fn download(
    handle: &str,
    file: &mut File,
    path: &Path,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
) -> Result<(), Failure> {
    let mut offset = 0;
    loop {
        let request = ReadArtifactRequest { handle: handle.to_owned(), offset, length: 0 };
        let range = client.read_artifact(request).await.map_err(client::refused(settings))?.into_inner();
        file.write_all(&range.data).map_err(failed(path))?;
        offset += range.data.len() as u64;
        if offset >= range.size_bytes {
            return Ok(());
        }
        if range.data.is_empty() {
            let reason = format!("sent only {offset} of the {} bytes of an artifact", range.size_bytes);
            return Err(Failure::Gateway { url: settings.base_url.clone(), reason });
        }
    }
}

/// Creates a new file with this name, or with a numeric suffix if it exists.
fn create(directory: &Path, name: &str) -> Result<(File, PathBuf), Failure> {
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
        _ => (name, String::new()),
    };
    for number in 0..=MAX_SUFFIX {
        let suffix = if number == 0 { String::new() } else { format!("-{number}") };
        let path = directory.join(format!("{stem}{suffix}{extension}"));
        // Exclusive creation follows no symbolic link and never opens an existing file.
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&path)(error)),
        }
    }
    Err(failed(&directory.join(name))(ErrorKind::AlreadyExists.into()))
}

/// The last component of a name, without hidden characters and leading dots.
fn file_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut plain: String = last.chars().filter(|it| !is_hidden(*it)).collect();
    plain = plain.trim().trim_start_matches('.').to_owned();
    plain.truncate(plain.floor_char_boundary(MAX_NAME_BYTES));
    if plain.is_empty() { "artifact".to_owned() } else { plain }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    Failure::system(format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_plain_file_name() {
        for (name, expected) in [
            ("plot.png", "plot.png"),
            ("../../etc/passwd", "passwd"),
            ("/etc/cron.d/job", "job"),
            ("a\\b\\c.txt", "c.txt"),
            ("..", "artifact"),
            ("", "artifact"),
            ("folder/", "artifact"),
            (".bashrc", "bashrc"),
            ("gnp.\u{202e}exe\u{200b}", "gnp.exe"),
            ("two\nlines\u{1b}[2J.txt", "twolines[2J.txt"),
        ] {
            assert_eq!(file_name(name), expected, "{name:?}");
        }
        assert_eq!(file_name(&"é".repeat(300)).len(), MAX_NAME_BYTES);
    }

    #[test]
    fn an_existing_file_is_kept_and_a_symbolic_link_is_not_followed() {
        let directory = std::env::temp_dir().join(format!("openskill-artifacts-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("a.tar.gz"), "old").unwrap();
        std::os::unix::fs::symlink(directory.join("elsewhere"), directory.join("a.tar-1.gz")).unwrap();
        let (mut file, path) = create(&directory, "a.tar.gz").unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(path, directory.join("a.tar-2.gz"));
        assert_eq!(std::fs::read_to_string(directory.join("a.tar.gz")).unwrap(), "old");
        assert!(!directory.join("elsewhere").exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
