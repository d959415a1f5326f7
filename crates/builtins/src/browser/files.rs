//! Screenshots, PDF documents and downloads: saves them below the allowed root, and returns them as artifacts.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_proto::v1::SkillError;
use openskill_text::pages::document::clip;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, openat2, unlinkat};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::instance::Browser;
use super::problem::Problem;
use super::tabs::{Tab, Transfer};
use crate::call::Invocation;
use crate::host::Host;
use crate::pdf::PdfReader;

/// The time limit for a screenshot or a PDF document.
const DRAWN: Duration = Duration::from_secs(30);

/// The maximum size of a PDF document, and the size of a read chunk, in bytes.
const MOST_OF_DOCUMENT: usize = 32 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// The maximum amount of text from PDF files in an answer, in bytes.
const MAX_TEXT_BYTES: usize = 32 << 10;

/// The maximum number of file names to try before giving up.
const MOST_NAMES: usize = 1000;

/// The context for saving files: the host and the call.
pub(super) struct Files<'a> {
    pub(super) host: &'a Host,
    pub(super) invocation: &'a Invocation,
}

impl Files<'_> {
    /// Saves a new file below the allowed root, and returns it as an artifact. Never overwrites a file: if the
    /// name is taken, appends a number. Returns the path in the form that callers use.
    ///
    /// # Errors
    /// The name leads outside the root, or the file can't be created.
    pub(super) async fn save(
        &self,
        name: &str,
        (media_type, extension): (&str, &str),
        data: Vec<u8>,
    ) -> Result<String, SkillError> {
        let (root, paths) = self.invocation.skill.open_root()?;
        let mut below = paths.below("filename", name)?;
        if below.extension().is_none_or(|it| !it.eq_ignore_ascii_case(extension)) {
            below.as_mut_os_string().push(format!(".{extension}"));
        }
        let (wanted, content) = (below.clone(), data.clone());
        let written = tokio::task::spawn_blocking(move || write_new(&root, &wanted, &content)).await;
        let written = written.unwrap_or(Err(Errno::IO));
        let below = written.map_err(|errno| {
            let message = format!("filename: '{}' can't be written: {errno}", super::wording::line(name, 100));
            SkillError::from(match errno {
                Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO | Errno::NFILE | Errno::MFILE | Errno::ROFS => {
                    Problem::Exhausted(message)
                }
                _ => Problem::Files(message),
            })
        })?;
        let file_name = below.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        self.invocation.events.artifact(&file_name, media_type, data).await;
        Ok(paths.display_path(&below))
    }

    /// Adds a PDF file's text to its entry, and subtracts its size from `room`, the remaining space of the answer.
    async fn add_text(&self, data: &[u8], time: Duration, room: &mut usize, entry: &mut Value) {
        if *room == 0 {
            entry["cut"] = json!("the text is only in the artifact");
            return;
        }
        let reader = PdfReader { host: self.host.clone(), level: self.invocation.skill.level };
        match reader.read(data, self.invocation.slot.clone(), time).await {
            Ok(document) if document.text.trim().is_empty() => {
                entry["note"] = json!("the PDF file has no text: it may be scanned");
            }
            Ok(document) => {
                let whole = document.text.trim_end();
                let text = clip(whole, *room);
                *room -= text.len();
                if text.len() < whole.len() || document.is_cut {
                    entry["cut"] = json!("the rest of the text is only in the artifact");
                }
                entry["text"] = json!(text);
            }
            Err(error) => entry["note"] = json!(error.to_string()),
        }
    }
}

/// Creates a new file atomically and returns its path.
fn write_new(root: &impl AsFd, wanted: &Path, data: &[u8]) -> Result<PathBuf, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let folder = wanted.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = openat2(root, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), beneath)?;
    for number in 1..=MOST_NAMES {
        let path = numbered_path(wanted, number);
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match openat2(&folder, name, flags, Mode::from_raw_mode(0o644), beneath) {
            Ok(file) => {
                let Err(error) = std::fs::File::from(file).write_all(data) else { return Ok(path) };
                let _ = unlinkat(&folder, name, AtFlags::empty());
                return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

/// Returns `page.png`, `page-2.png` and so on.
fn numbered_path(path: &Path, number: usize) -> PathBuf {
    let (Some(stem), Some(extension)) = (path.file_stem(), path.extension()) else { return path.to_owned() };
    if number == 1 {
        return path.to_owned();
    }
    path.with_file_name(format!("{}-{number}.{}", stem.to_string_lossy(), extension.to_string_lossy()))
}

/// Takes a PNG screenshot of a tab.
///
/// # Errors
/// The page does not answer.
pub(super) async fn picture(browser: &Browser, tab: &Tab) -> Result<Vec<u8>, Problem> {
    let params = json!({"format": "png", "captureBeyondViewport": false, "optimizeForSpeed": true});
    let drawn = browser.client.call(Some(&tab.session), "Page.captureScreenshot", &params, DRAWN).await?;
    decode(drawn["data"].as_str().unwrap_or_default())
}

/// Prints the page of a tab as a PDF document.
///
/// # Errors
/// The same as for [`picture`].
pub(super) async fn document(browser: &Browser, tab: &Tab) -> Result<Vec<u8>, Problem> {
    let until = Instant::now() + DRAWN;
    let params = json!({"printBackground": true, "preferCSSPageSize": true, "transferMode": "ReturnAsStream"});
    let printed = browser.client.call(Some(&tab.session), "Page.printToPDF", &params, DRAWN).await?;
    let stream = json!({"handle": printed["stream"]});
    let document = read_stream(browser, tab, &stream, until).await;
    // The stream may have been closed with its tab.
    let _ = browser.call_page(&tab.session, "IO.close", stream).await;
    document
}

/// Reads a browser stream in chunks, because a single message with the whole document could exceed the size limit.
async fn read_stream(browser: &Browser, tab: &Tab, stream: &Value, until: Instant) -> Result<Vec<u8>, Problem> {
    let mut data = Vec::new();
    loop {
        let params = json!({"handle": stream["handle"], "size": PIECE_BYTES});
        let left = until.saturating_duration_since(Instant::now());
        let piece = browser.client.call(Some(&tab.session), "IO.read", &params, left).await?;
        let text = piece["data"].as_str().unwrap_or_default();
        if piece["base64Encoded"] == true {
            data.extend(decode(text)?);
        } else {
            data.extend_from_slice(text.as_bytes());
        }
        if data.len() > MOST_OF_DOCUMENT {
            let message = format!("the page exceeds {} MiB as a document: save a smaller page", MOST_OF_DOCUMENT >> 20);
            return Err(Problem::Exhausted(message));
        }
        if piece["eof"] == true {
            return Ok(data);
        }
    }
}

fn decode(data: &str) -> Result<Vec<u8>, Problem> {
    STANDARD.decode(data).map_err(|_| Problem::Script("its picture is unusable".to_owned()))
}

/// Saves the files that were downloaded since the last call, and extracts the text of PDF files within `time`.
/// Returns one entry per file.
pub(super) async fn downloads(browser: &Browser, files: &Files<'_>, time: Duration, most_bytes: u64) -> Vec<Value> {
    let (until, mut room) = (Instant::now() + time, MAX_TEXT_BYTES);
    let (ended, running): (Vec<_>, Vec<_>) = {
        let tabs = browser.state.tabs();
        let new = tabs.downloads.iter().filter(|(_, it)| !it.is_told).map(|(id, it)| (id.clone(), it.clone()));
        new.partition(|(_, it)| it.state != Transfer::Running)
    };
    let mut entries = Vec::new();
    for (id, download) in ended {
        // Mark each file as reported separately: if the call ends while a PDF file is read, the next call returns
        // the rest.
        if let Some(it) = browser.state.tabs().downloads.get_mut(&id) {
            it.is_told = true;
        }
        let mut pdf = None;
        let outcome = match download.state {
            Transfer::TooLarge => {
                // If the download completed before it was cancelled, this deletes its file.
                let _ = browser.open_download(&id).await;
                format!("cancelled: it is over {} MiB", most_bytes >> 20)
            }
            Transfer::Done => match read(browser, &id, most_bytes).await {
                Some(data) => {
                    let is_pdf = data.starts_with(b"%PDF-");
                    let media_type = if is_pdf { "application/pdf" } else { "application/octet-stream" };
                    pdf = is_pdf.then(|| data.clone());
                    files.invocation.events.artifact(&download.name, media_type, data).await;
                    "downloaded; it is an artifact of this call".to_owned()
                }
                None => "downloaded, but can't be read".to_owned(),
            },
            Transfer::Failed | Transfer::Running => "it failed or was cancelled".to_owned(),
        };
        let mut entry = super::news::download(&download.name, download.bytes, &outcome);
        if let Some(data) = pdf {
            let left = until.saturating_duration_since(Instant::now());
            files.add_text(&data, left, &mut room, &mut entry).await;
        }
        entries.push(entry);
    }
    entries.extend(running.iter().map(|(_, it)| super::news::download(&it.name, it.bytes, "still running")));
    entries
}

async fn read(browser: &Browser, id: &str, most_bytes: u64) -> Option<Vec<u8>> {
    let file = browser.open_download(id).await?;
    let read = tokio::task::spawn_blocking(move || {
        let mut data = Vec::new();
        std::fs::File::from(file).take(most_bytes).read_to_end(&mut data).ok().map(|_| data)
    });
    read.await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use rustix::mount::{MountFlags, UnmountFlags};

    use super::*;
    use crate::require::{Need, skip};

    #[test]
    fn a_file_that_does_not_fit_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("openskill-browser-full-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mounted = rustix::mount::mount("tmpfs", &folder, "tmpfs", MountFlags::empty(), c"size=64k");
        if mounted.is_err() {
            skip(Need::Jail, "only root mounts a small file system");
            std::fs::remove_dir_all(&folder).unwrap();
            return;
        }
        let root = std::fs::File::open(&folder).unwrap();
        let (whole, part) = (vec![1; 40_000], vec![2; 400_000]);
        let outcomes = [&whole, &part, &part].map(|it| write_new(&root, Path::new("a.png"), it));
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name()).collect();
        drop(root);
        rustix::mount::unmount(&folder, UnmountFlags::DETACH).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(outcomes, [Ok(PathBuf::from("a.png")), Err(Errno::NOSPC), Err(Errno::NOSPC)]);
        assert_eq!(left, ["a.png"]);
    }

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
