//! Documents in a folder of the operator's. Files that changed are read anew, by their times and sizes.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use openskill_research::index::Counts;
use openskill_research::question::Question;
use openskill_research::rarity::Rarities;
use rustix::fs::{Mode, OFlags};
use tokio::sync::Mutex;

use super::budget::Budget;
use super::collection::Collection;
use super::extract::Kind;
use super::page::{Hit, Page};
use super::problem::Problem;
use super::read::Reader;
use crate::runners::in_process::place::{self, Refused};
use crate::runners::in_process::stop::Stop;
use crate::runners::in_process::walk::{Step, Walk, globs};

/// The most files, the largest one, and the text of all together.
const MAX_FILES: usize = 20_000;
const MAX_FILE_BYTES: u64 = 8 << 20;
const MAX_BYTES: usize = 256 << 20;

/// How often the folder is looked through for changes.
const LOOK: Duration = Duration::from_secs(2);

/// The folder, and what was read of it.
pub(super) struct Folder {
    path: PathBuf,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    looked: Option<Instant>,
    files: HashMap<PathBuf, File>,
    pages: Collection,
    warning: Option<String>,
}

/// A file that was read, or why it was not.
struct File {
    version: Version,
    page: Result<(Arc<Page>, Arc<Counts>), Problem>,
}

/// When it was changed, and its size.
type Version = (SystemTime, u64);

/// The files that there are.
struct Listed {
    root: Arc<OwnedFd>,
    files: Vec<(PathBuf, Version)>,
    is_complete: bool,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, kept: Mutex::default() }
    }

    /// The documents that have words of a query, and a warning if some were not read.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) async fn search(
        &self,
        query: &str,
        reader: &Reader,
        budget: &Budget,
    ) -> Result<(Vec<Hit>, Option<String>), Problem> {
        let held = tokio::time::timeout(budget.left(), self.kept.lock()).await;
        let mut kept = held.map_err(|_| Problem::Budget("time"))?;
        if kept.looked.is_none_or(|it| it.elapsed() >= LOOK) {
            self.refresh(&mut kept, reader, budget).await?;
        }
        Ok((kept.pages.find(query), kept.warning.clone()))
    }

    /// How rare words are in the folder.
    pub(super) async fn rarities(&self, question: &Question) -> Rarities {
        self.kept.lock().await.pages.rarities(question)
    }

    async fn refresh(&self, kept: &mut Kept, reader: &Reader, budget: &Budget) -> Result<(), Problem> {
        let (path, slot, ends) = (self.path.clone(), reader.slot.clone(), budget.ends());
        let (stop, _stop_on_drop) = Stop::at(ends);
        let listed = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            list(&path, &stop)
        });
        let listed = listed.await.map_err(|_| Problem::Folder("the folder could not be listed".to_owned()))??;
        let before = std::mem::take(&mut kept.files);
        let is_same = before.len() == listed.files.len()
            && listed.files.iter().all(|(path, version)| before.get(path).is_some_and(|it| it.version == *version));
        if is_same {
            kept.files = before;
            kept.looked = Some(Instant::now());
            return Ok(());
        }
        let mut before = before;
        for (path, version) in &listed.files {
            let known = before.remove(path).filter(|it| it.version == *version);
            let file = match known {
                Some(file) => file,
                None if budget.left().is_zero() => break,
                None => match read(&listed.root, path, reader, budget).await {
                    // The file is not at fault: the next call reads it.
                    Err(Problem::Budget(_)) => break,
                    page => File { version: *version, page },
                },
            };
            kept.files.insert(path.clone(), file);
        }
        let is_complete = listed.is_complete && kept.files.len() == listed.files.len();
        kept.looked = is_complete.then(Instant::now);
        kept.gather().await;
        kept.warning = if is_complete {
            kept.unread()
        } else {
            Some(format!("the folder is read in part so far, {} documents", kept.pages.len()))
        };
        Ok(())
    }
}

impl Kept {
    /// How many documents could not be read, and why the first of them.
    fn unread(&self) -> Option<String> {
        let mut unread: Vec<_> =
            self.files.iter().filter_map(|(path, it)| Some((path, it.page.as_ref().err()?))).collect();
        unread.sort_by_key(|it| it.0);
        let (path, problem) = unread.first()?;
        let (count, path) = (unread.len(), path.display());
        Some(format!("documents of the folder that could not be read: {count}, such as {path}: {problem}"))
    }

    /// Indexes the documents, in the order of their paths, on a blocking thread.
    async fn gather(&mut self) {
        let mut pages: Vec<_> =
            self.files.iter().filter_map(|(path, it)| Some((path, it.page.clone().ok()?))).collect();
        pages.sort_by_key(|it| it.0);
        let pages: Vec<_> = pages.into_iter().map(|it| it.1).collect();
        let gathered = tokio::task::spawn_blocking(move || {
            let mut collection = Collection::default();
            for (page, counts) in pages {
                if collection.bytes() < MAX_BYTES {
                    collection.add(page, &counts);
                }
            }
            collection
        });
        self.pages = gathered.await.unwrap_or_default();
    }
}

/// The documents below a folder: without hidden ones, links, and those that ignore files name.
fn list(path: &Path, stop: &Stop) -> Result<Listed, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::Folder(format!("the folder cannot be read: {error}"));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = Arc::new(rustix::fs::open(path, flags, Mode::empty()).map_err(|it| failed(&it))?);
    let all = globs(Path::new(""), &[]).map_err(|it| failed(&it.message))?;
    let mut walk = Walk::new(Arc::clone(&root), Path::new(""), all).map_err(|it| failed(&it))?;
    let mut files = Vec::new();
    while !stop.is_due() && files.len() < MAX_FILES {
        match walk.next() {
            Some(Step::File(path)) if Kind::of_path(&path.to_string_lossy()).is_some() => {
                let Ok(file) = place::open(root.as_fd(), &path) else { continue };
                let Ok(found) = file.metadata() else { continue };
                let changed = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                if found.len() <= MAX_FILE_BYTES {
                    files.push((path, (changed, found.len())));
                }
            }
            Some(_) => {}
            None => return Ok(Listed { root, files, is_complete: walk.is_complete() }),
        }
    }
    Ok(Listed { root, files, is_complete: false })
}

async fn read(
    root: &Arc<OwnedFd>,
    path: &Path,
    reader: &Reader,
    budget: &Budget,
) -> Result<(Arc<Page>, Arc<Counts>), Problem> {
    let shown = path.to_string_lossy().into_owned();
    let kind = Kind::of_path(&shown).ok_or_else(|| Problem::Kind(shown.clone()))?;
    let (root, own, slot) = (Arc::clone(root), path.to_owned(), reader.slot.clone());
    let bytes = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        let unreadable = |it: Refused| Problem::Folder(it.to_string());
        let file = place::open(root.as_fd(), &own).map_err(unreadable)?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_FILE_BYTES).read_to_end(&mut bytes);
        read.map(|_| bytes).map_err(|it| Problem::Folder(it.to_string()))
    });
    let bytes = bytes.await.map_err(|_| Problem::Folder("a file could not be read".to_owned()))??;
    let (document, counts) = reader.text(kind, String::new(), bytes, budget).await?;
    let title = if document.title.is_empty() && document.headings.is_empty() {
        path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    } else {
        document.name()
    };
    let page = Page { url: format!("folder:/{shown}"), title, fetched_at: SystemTime::now(), document };
    Ok((Arc::new(page), Arc::new(counts)))
}
