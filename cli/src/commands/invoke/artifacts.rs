//! Lists a call's artifacts, and writes them to a directory.
//!
//! Artifact names come from the skill, so they are reduced to plain file names. Existing files are never overwritten.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{Artifact, ReadArtifactRequest};
use openskill_telemetry::log::text::is_hidden;

use super::progress::short;
use crate::channel::Channel;
use crate::commands::client;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::{pluralize, print_err};

/// The maximum length of a file name, in bytes. It leaves room for a numeric suffix within the limit of file
/// systems.
const MAX_NAME_BYTES: usize = 200;

/// The maximum numeric suffix that is tried for an existing name.
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
        let size = pluralize(artifact.size_bytes, "byte");
        print_err(&format!("artifact: {name} ({media_type}, {size}){written}\n"));
    }
    Ok(())
}

/// Writes one artifact to a new file. Removes the file on failure.
async fn save(
    artifact: &Artifact,
    directory: &Path,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(directory).map_err(write_failure(directory))?;
    let (mut file, path) = create(directory, &file_name(&artifact.name))?;
    let written = match &artifact.content {
        Some(Content::Data(data)) => file.write_all(data).map_err(write_failure(&path)),
        Some(Content::Handle(handle)) => download(handle, &mut file, &path, settings, client).await,
        None => {
            let reason = format!("sent the artifact '{}' without content", artifact.name);
            Err(Failure::gateway(&settings.base_url, reason))
        }
    };
    if written.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    written.map(|()| path)
}

/// Downloads an artifact in ranges.
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
        let range = client.read_artifact(request).await.map_err(client::into_failure(settings))?.into_inner();
        file.write_all(&range.data).map_err(write_failure(path))?;
        offset += range.data.len() as u64;
        if offset >= range.size_bytes {
            return Ok(());
        }
        if range.data.is_empty() {
            let reason = format!("sent only {offset} of the {} bytes of an artifact", range.size_bytes);
            return Err(Failure::gateway(&settings.base_url, reason));
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
            Err(error) => return Err(write_failure(&path)(error)),
        }
    }
    Err(write_failure(&directory.join(name))(ErrorKind::AlreadyExists.into()))
}

/// Returns the last component of a name, without hidden characters and leading dots.
fn file_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut plain: String = last.chars().filter(|it| !is_hidden(*it)).collect();
    plain = plain.trim().trim_start_matches('.').to_owned();
    plain.truncate(plain.floor_char_boundary(MAX_NAME_BYTES));
    if plain.is_empty() { "artifact".to_owned() } else { plain }
}

fn write_failure(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
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
