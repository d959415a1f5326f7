//! Documents in the operator's folder. Reads a file again if its modification time or size has changed.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use openskill_text::pages::index::{Rarities, TermCounts};
use openskill_text::pages::question::Question;
use rustix::fs::{Mode, OFlags};
use tokio::sync::Mutex;

use super::page::{Collection, Hit, Page};
use super::problem::ResearchProblem;
use super::read::{PageKind, Reader};
use crate::paths::{self, PathRefusal};
use crate::stop::StopSignal;
use crate::walk::{Walk, WalkItem, globs};

/// The maximum number of files, the maximum size of a file, and the maximum total size of all texts in bytes.
const MAX_FILES: usize = 20_000;
const MAX_FILE_BYTES: u64 = 8 << 20;
const MAX_BYTES: usize = 256 << 20;

/// The minimum interval between checks for changes.
const REFRESH_EVERY: Duration = Duration::from_secs(2);

/// A folder with an index of its documents.
pub(super) struct FolderSource {
    path: PathBuf,
    index: Mutex<FolderIndex>,
}

#[derive(Default)]
struct FolderIndex {
    refreshed_at: Option<Instant>,
    files: HashMap<PathBuf, File>,
    pages: Collection,
    warning: Option<String>,
}

/// A document, or the reason why it could not be read.
struct File {
    version: Version,
    page: Result<(Arc<Page>, Arc<TermCounts>), ResearchProblem>,
}

/// The modification time and the size of a file.
type Version = (SystemTime, u64);

/// The files found in the folder, with their versions.
struct FileList {
    root: Arc<OwnedFd>,
    files: Vec<(PathBuf, Version)>,
    is_complete: bool,
}

impl FolderSource {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, index: Mutex::default() }
    }

    /// Returns the documents that contain words of a query, and a warning if some could not be read.
    ///
    /// # Errors
    /// The folder can't be read.
    pub(super) async fn search(
        &self,
        query: &str,
        reader: &Reader<'_>,
    ) -> Result<(Vec<Hit>, Option<String>), ResearchProblem> {
        let locked = tokio::time::timeout(reader.budget.remaining(), self.index.lock()).await;
        let mut index = locked.map_err(|_| ResearchProblem::Budget("time"))?;
        if index.refreshed_at.is_none_or(|it| it.elapsed() >= REFRESH_EVERY) {
            self.refresh(&mut index, reader).await?;
        }
        Ok((index.pages.find(query), index.warning.clone()))
    }

    /// Returns how rare the words of a question are in the folder.
    pub(super) async fn rarities(&self, question: &Question) -> Rarities {
        self.index.lock().await.pages.rarities(question)
    }

    async fn refresh(&self, index: &mut FolderIndex, reader: &Reader<'_>) -> Result<(), ResearchProblem> {
        let path = self.path.clone();
        let (stop, _stop_on_drop) = StopSignal::at(reader.budget.ends);
        let listed = reader.slot.run_blocking(move || list(&path, &stop));
        let listed =
            listed.await.map_err(|_| ResearchProblem::Folder("the folder could not be listed".to_owned()))??;
        let mut before = std::mem::take(&mut index.files);
        let is_same = before.len() == listed.files.len()
            && listed.files.iter().all(|(path, version)| before.get(path).is_some_and(|it| it.version == *version));
        if is_same {
            index.files = before;
            index.refreshed_at = Some(Instant::now());
            return Ok(());
        }
        for (path, version) in &listed.files {
            let known = before.remove(path).filter(|it| it.version == *version);
            let file = match known {
                Some(file) => file,
                None if reader.budget.remaining().is_zero() => break,
                None => match read(&listed.root, path, reader).await {
                    // The file is not at fault, so the next call tries again.
                    Err(ResearchProblem::Budget(_)) => break,
                    page => File { version: *version, page },
                },
            };
            index.files.insert(path.clone(), file);
        }
        let is_complete = listed.is_complete && index.files.len() == listed.files.len();
        index.refreshed_at = is_complete.then(Instant::now);
        index.gather().await;
        index.warning = if is_complete {
            index.unread()
        } else {
            Some(format!("only a part of the folder has been read so far: {} documents", index.pages.len()))
        };
        Ok(())
    }
}

impl FolderIndex {
    /// Describes how many documents could not be read, and why the first one failed. `None` if all were read.
    fn unread(&self) -> Option<String> {
        let mut unread: Vec<_> =
            self.files.iter().filter_map(|(path, it)| Some((path, it.page.as_ref().err()?))).collect();
        unread.sort_by_key(|it| it.0);
        let (path, problem) = unread.first()?;
        let (count, path) = (unread.len(), path.display());
        Some(format!("unreadable documents in the folder: {count}, such as {path}: {problem}"))
    }

    /// Indexes the documents in path order, on a blocking thread.
    async fn gather(&mut self) {
        let mut pages: Vec<_> =
            self.files.iter().filter_map(|(path, it)| Some((path, it.page.clone().ok()?))).collect();
        pages.sort_by_key(|it| it.0);
        let pages: Vec<_> = pages.into_iter().map(|it| it.1).collect();
        let gathered = tokio::task::spawn_blocking(move || {
            let mut collection = Collection::default();
            for (page, counts) in pages {
                if collection.bytes < MAX_BYTES {
                    collection.add(page, &counts);
                }
            }
            collection
        });
        self.pages = gathered.await.unwrap_or_default();
    }
}

/// Lists the documents below a folder, except for hidden files, links and ignored files.
fn list(path: &Path, stop: &StopSignal) -> Result<FileList, ResearchProblem> {
    let failed = |error: &dyn std::fmt::Display| ResearchProblem::Folder(format!("the folder cannot be read: {error}"));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = Arc::new(rustix::fs::open(path, flags, Mode::empty()).map_err(|it| failed(&it))?);
    let all = globs(Path::new(""), "").map_err(|it| failed(&it.message))?;
    let mut walk = Walk::new(Arc::clone(&root), Path::new(""), all).map_err(|it| failed(&it))?;
    let mut files = Vec::new();
    while !stop.is_due() && files.len() < MAX_FILES {
        match walk.next() {
            Some(WalkItem::File(path)) if PageKind::from_path(&path.to_string_lossy()).is_some() => {
                let Ok(file) = paths::open(root.as_fd(), &path) else { continue };
                let Ok(found) = file.metadata() else { continue };
                let changed = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                if found.len() <= MAX_FILE_BYTES {
                    files.push((path, (changed, found.len())));
                }
            }
            Some(_) => {}
            None => return Ok(FileList { root, files, is_complete: walk.is_complete }),
        }
    }
    Ok(FileList { root, files, is_complete: false })
}

async fn read(
    root: &Arc<OwnedFd>,
    path: &Path,
    reader: &Reader<'_>,
) -> Result<(Arc<Page>, Arc<TermCounts>), ResearchProblem> {
    let shown = path.to_string_lossy().into_owned();
    let kind = PageKind::from_path(&shown).ok_or_else(|| ResearchProblem::Kind(shown.clone()))?;
    let (root, own) = (Arc::clone(root), path.to_owned());
    let bytes = reader.slot.run_blocking(move || {
        let unreadable = |it: PathRefusal| ResearchProblem::Folder(it.to_string());
        let file = paths::open(root.as_fd(), &own).map_err(unreadable)?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_FILE_BYTES).read_to_end(&mut bytes);
        read.map(|_| bytes).map_err(|it| ResearchProblem::Folder(it.to_string()))
    });
    let bytes = bytes.await.map_err(|_| ResearchProblem::Folder("a file could not be read".to_owned()))??;
    let (document, counts) = reader.text(kind, String::new(), bytes).await?;
    let title = if document.title.is_empty() && document.headings.is_empty() {
        path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    } else {
        document.name()
    };
    let page = Page { url: format!("folder:/{shown}"), title, fetched_at: SystemTime::now(), document };
    Ok((Arc::new(page), Arc::new(counts)))
}
