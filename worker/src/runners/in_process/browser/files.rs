//! Pictures and documents of pages: written beneath the allowed root, and handed over as artifacts.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_proto::v1::SkillError;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::instance::Browser;
use super::problem::Problem;
use super::tabs::{Tab, Transfer};
use crate::events::EventSink;
use crate::manifest::Manifest;
use crate::runners::in_process::host::Host;

/// How long a picture or a document may take.
const DRAWN: Duration = Duration::from_secs(30);

/// How many names are tried for a file.
const MOST_NAMES: usize = 1000;

/// Where files of a call go.
pub(super) struct Files<'a> {
    pub(super) host: &'a Host,
    pub(super) manifest: &'a Manifest,
    pub(super) events: &'a EventSink,
}

impl Files<'_> {
    /// Writes a new file beneath the allowed root, and hands it over as an artifact. Another file is never changed: the name
    /// gets a number then. Gives the path, as callers can pass it on.
    ///
    /// # Errors
    /// The name leads elsewhere, or the file can't be made.
    pub(super) async fn save(
        &self,
        name: &str,
        (media_type, extension): (&str, &str),
        data: Vec<u8>,
    ) -> Result<String, SkillError> {
        let (root, place) = self.host.root(self.manifest)?;
        let mut below = place.below("filename", name)?;
        if below.extension().is_none_or(|it| !it.eq_ignore_ascii_case(extension)) {
            below.as_mut_os_string().push(format!(".{extension}"));
        }
        let (wanted, content) = (below.clone(), data.clone());
        let written = tokio::task::spawn_blocking(move || write_new(&root, &wanted, &content)).await;
        let written = written.unwrap_or(Err(Errno::IO));
        let below = written.map_err(|errno| {
            let message = format!("filename: '{}' can't be written: {errno}", super::wording::line(name, 100));
            SkillError::from(Problem::Files(message))
        })?;
        let file_name = below.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        self.events.artifact(&file_name, media_type, data).await;
        Ok(place.shown(&below))
    }
}

/// Writes a file that was not there. Gives its path.
fn write_new(root: &impl std::os::fd::AsFd, wanted: &Path, data: &[u8]) -> Result<PathBuf, Errno> {
    for number in 1..=MOST_NAMES {
        let path = numbered(wanted, number);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(root.as_fd(), &path, flags, Mode::from_raw_mode(0o644), beneath) {
            Ok(file) => {
                let written = std::fs::File::from(file).write_all(data);
                return written.map(|()| path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

/// `page.png`, `page-2.png`, ...
fn numbered(path: &Path, number: usize) -> PathBuf {
    let (Some(stem), Some(extension)) = (path.file_stem(), path.extension()) else { return path.to_owned() };
    if number == 1 {
        return path.to_owned();
    }
    path.with_file_name(format!("{}-{number}.{}", stem.to_string_lossy(), extension.to_string_lossy()))
}

/// A picture of what a tab shows, as PNG.
///
/// # Errors
/// The page does not answer.
pub(super) async fn picture(browser: &Browser, tab: &Tab) -> Result<Vec<u8>, Problem> {
    let params = json!({"format": "png", "captureBeyondViewport": false, "optimizeForSpeed": true});
    drawn(browser, tab, "Page.captureScreenshot", params).await
}

/// The page of a tab as a PDF document.
///
/// # Errors
/// As [`picture`].
pub(super) async fn document(browser: &Browser, tab: &Tab) -> Result<Vec<u8>, Problem> {
    drawn(browser, tab, "Page.printToPDF", json!({"printBackground": true, "preferCSSPageSize": true})).await
}

async fn drawn(browser: &Browser, tab: &Tab, method: &str, params: Value) -> Result<Vec<u8>, Problem> {
    let drawn = browser.client.call(Some(&tab.session), method, &params, DRAWN).await?;
    let data = drawn["data"].as_str().unwrap_or_default();
    STANDARD.decode(data).map_err(|_| Problem::Script("its picture is unusable".to_owned()))
}

/// Hands over the files that were downloaded since the last call. Gives what became of each.
pub(super) async fn downloads(browser: &Browser, events: &EventSink, most_bytes: u64) -> Vec<Value> {
    let mut ended: Vec<_> = {
        let mut tabs = browser.state.tabs();
        let new = tabs.downloads.iter_mut().filter(|(_, it)| it.state != Transfer::Running && !it.is_told);
        new.map(|(id, it)| {
            it.is_told = true;
            (id.clone(), it.clone())
        })
        .collect()
    };
    let running =
        browser.state.tabs().downloads.values().filter(|it| it.state == Transfer::Running).cloned().collect::<Vec<_>>();
    let mut told = Vec::new();
    for (id, download) in ended.drain(..) {
        let outcome = match download.state {
            Transfer::TooLarge => format!("cancelled: it is over {} MiB", most_bytes >> 20),
            Transfer::Done => match read(browser, &id, most_bytes).await {
                Some(data) => {
                    events.artifact(&download.name, "application/octet-stream", data).await;
                    "downloaded; it is an artifact of this call".to_owned()
                }
                None => "downloaded, and can't be read".to_owned(),
            },
            Transfer::Failed | Transfer::Running => "it failed or was cancelled".to_owned(),
        };
        told.push(super::news::download(&download.name, download.bytes, &outcome));
    }
    told.extend(running.iter().map(|it| super::news::download(&it.name, it.bytes, "still running")));
    told
}

async fn read(browser: &Browser, id: &str, most_bytes: u64) -> Option<Vec<u8>> {
    let file = browser.downloaded(id).await?;
    let read = tokio::task::spawn_blocking(move || {
        let mut data = Vec::new();
        std::fs::File::from(file).take(most_bytes).read_to_end(&mut data).ok().map(|_| data)
    });
    read.await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_stays_as_it_is() {
        let folder = std::env::temp_dir().join(format!("openskill-browser-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let root = std::fs::File::open(&folder).unwrap();
        std::fs::write(folder.join("a.png"), "mine").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link.png")).unwrap();
        assert_eq!(write_new(&root, Path::new("a.png"), b"x").unwrap(), Path::new("a-2.png"));
        assert_eq!(write_new(&root, Path::new("a.png"), b"y").unwrap(), Path::new("a-3.png"));
        assert_eq!(write_new(&root, Path::new("link.png"), b"z").unwrap(), Path::new("link-2.png"));
        assert!(write_new(&root, Path::new("no/a.png"), b"z").is_err());
        assert!(write_new(&root, Path::new("../a.png"), b"z").is_err());
        assert_eq!(std::fs::read(folder.join("a.png")).unwrap(), b"mine");
        assert_eq!(std::fs::read(folder.join("a-2.png")).unwrap(), b"x");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
