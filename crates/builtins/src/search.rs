//! `search_file_content`: searches a file or a folder for a regular expression, with the crates that `rg` uses.
//!
//! - [`arguments`]: the arguments of a call; [`mod@file`]: searches one file; [`answer`]: the result and its limits

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::host::{FunctionOutput, Host, spare};
use super::list::{List, SkippedFile};
use super::paths::{PathKind, PathRefusal, PathView, kind_at, open};
use super::stop::{StopSignal, stopped_error};
use super::walk::{Walk, WalkItem, globs};
use crate::call::Invocation;

mod answer;
mod arguments;
mod file;

use answer::{Match, SearchedFile, empty_answer, report};
use arguments::SearchArguments;
use file::{Files, Query};

/// A prepared search.
struct Search {
    root: Arc<OwnedFd>,
    paths: PathView,
    path: PathBuf,
    arguments: SearchArguments,
    query: Query,
    stop: StopSignal,
    helpers: Arc<Semaphore>,
}

/// Runs the function. Blocking threads read the files and hold the call's slot until they end.
///
/// # Errors
/// The arguments are invalid, or the file or folder can't be opened.
pub(super) async fn run(host: Host, invocation: Invocation) -> Result<FunctionOutput, SkillError> {
    let arguments = SearchArguments::read(&invocation.input)?;
    let query = Query::new(&arguments)?;
    let (root, paths) = invocation.skill.open_root()?;
    let path = paths.below("file_path", &arguments.file_path)?;
    let (stop, _stop_on_drop) = StopSignal::at(invocation.deadline);
    let search = Search { root: Arc::new(root), paths, path, arguments, query, stop, helpers: host.helpers };
    let work = invocation.slot.run_blocking(move || search.run());
    work.await.unwrap_or_else(|_| Err(SkillError::new(ErrorCode::Internal, "the search panicked")))
}

impl Search {
    fn run(self) -> Result<FunctionOutput, SkillError> {
        let refused = |refused: PathRefusal| refused.error("file_path", &self.arguments.file_path);
        let answer = match kind_at(self.root.as_fd(), &self.path).map_err(refused)? {
            PathKind::File => {
                let mut answer = empty_answer(self.query.most);
                let opened = open(self.root.as_fd(), &self.path).map_err(refused)?;
                answer.put(0, Files::new(&self.query).search(opened, self.paths.display_path(&self.path), &self.stop));
                answer
            }
            PathKind::Folder => {
                let globs = globs(&self.path, &self.arguments.glob)?;
                let walk = Walk::new(Arc::clone(&self.root), &self.path, globs).map_err(refused)?;
                self.folder(walk)
            }
        };
        if self.stop.is_due() { Err(stopped_error()) } else { report(answer) }
    }

    /// Searches the files of a walk on this thread and on all free threads. Results are counted in path order, so
    /// the answer does not depend on the number of threads.
    fn folder(&self, walk: Walk) -> List<Match> {
        let helpers = spare(&self.helpers, usize::MAX);
        let files = Mutex::new(Pending { walk, next: 0 });
        let folder = FolderSearch { search: self, files, answer: Mutex::new(empty_answer(self.query.most)) };
        std::thread::scope(|scope| {
            for _ in &helpers {
                let builder = std::thread::Builder::new().name("search".to_owned());
                // If no thread can be started, this thread does all the work.
                let _ = builder.spawn_scoped(scope, || folder.work());
            }
            folder.work();
        });
        let mut answer = folder.answer.into_inner();
        if !folder.files.into_inner().walk.is_complete {
            answer.cut("too_many_files");
        }
        answer
    }
}

/// A folder search in progress.
struct FolderSearch<'a> {
    search: &'a Search,
    files: Mutex<Pending>,
    answer: Mutex<List<Match>>,
}

/// The files that are still to be searched.
struct Pending {
    walk: Walk,
    /// The number of the next file.
    next: usize,
}

impl FolderSearch<'_> {
    fn work(&self) {
        let mut files = Files::new(&self.search.query);
        while let Some((number, step)) = self.take() {
            let found = self.search(&mut files, step);
            self.answer.lock().put(number, found);
        }
    }

    /// Takes the next file and its number.
    fn take(&self) -> Option<(usize, WalkItem)> {
        let mut files = self.files.lock();
        let number = files.next;
        if self.search.stop.is_due() || self.answer.lock().is_full_before(number) {
            return None;
        }
        let step = files.walk.next()?;
        files.next += 1;
        Some((number, step))
    }

    fn search(&self, files: &mut Files<'_>, step: WalkItem) -> SearchedFile {
        let Search { root, paths, stop, .. } = self.search;
        let left = |path: &Path, refused: PathRefusal| {
            let (path, reason, message) = (paths.display_path(path), refused.word(), refused.to_string());
            SearchedFile::from_skipped(SkippedFile { path, reason, message })
        };
        match step {
            WalkItem::Skipped(path, refused) => left(&path, refused),
            WalkItem::File(path) => match open(root.as_fd(), &path) {
                Ok(file) => files.search(file, paths.display_path(&path), stop),
                Err(refused) => left(&path, refused),
            },
        }
    }
}

#[cfg(test)]
mod tests;
