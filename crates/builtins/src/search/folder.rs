//! Searches many files on several threads. Results are counted in path order, so the answer does not depend on the
//! number of threads.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

use super::answer::{SearchResults, SearchedFile};
use super::file::{Files, Query};
use crate::ordered::InFileOrder;
use crate::paths::{PathRefusal, open};
use crate::skipped::SkippedFile;
use crate::stop::StopSignal;
use crate::walk::{Walk, WalkItem};

/// A folder search in progress.
struct FolderSearch<'a> {
    query: &'a Query,
    root: BorrowedFd<'a>,
    shown: &'a (dyn Fn(&Path) -> String + Sync),
    stop: &'a StopSignal,
    files: Mutex<Pending>,
    answer: Mutex<InFileOrder<SearchResults>>,
}

/// The files that are still to be searched.
struct Pending {
    walk: Walk,
    /// The number of the next file.
    next: usize,
}

/// Searches the files of a walk on this thread and on `helpers` additional threads.
pub(super) fn search(
    query: &Query,
    root: BorrowedFd<'_>,
    walk: Walk,
    shown: impl Fn(&Path) -> String + Sync,
    stop: &StopSignal,
    helpers: usize,
) -> SearchResults {
    let files = Mutex::new(Pending { walk, next: 0 });
    let answer = Mutex::new(InFileOrder::new(SearchResults::new(query.most)));
    let folder = FolderSearch { query, root, shown: &shown, stop, files, answer };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            let builder = std::thread::Builder::new().name("search".to_owned());
            // If no thread can be started, this thread does all the work.
            let _ = builder.spawn_scoped(scope, || folder.work());
        }
        folder.work();
    });
    let walk = folder.files.into_inner().walk;
    let mut answer = folder.answer.into_inner().answer;
    if !walk.is_complete() {
        answer.cut("too_many_files");
    }
    answer
}

impl FolderSearch<'_> {
    fn work(&self) {
        let mut files = Files::new(self.query);
        while let Some((number, step)) = self.take() {
            let found = self.search(&mut files, step);
            lock(&self.answer).put(number, found);
        }
    }

    /// Takes the next file and its number.
    fn take(&self) -> Option<(usize, WalkItem)> {
        let mut files = lock(&self.files);
        let number = files.next;
        if self.stop.is_due() || lock(&self.answer).is_full_before(number) {
            return None;
        }
        let step = files.walk.next()?;
        files.next += 1;
        Some((number, step))
    }

    fn search(&self, files: &mut Files<'_>, step: WalkItem) -> SearchedFile {
        let left = |path: PathBuf, refused: PathRefusal| {
            let (path, reason, message) = ((self.shown)(&path), refused.word(), refused.to_string());
            SearchedFile::from_skipped(SkippedFile { path, reason, message })
        };
        match step {
            WalkItem::Skipped(path, refused) => left(path, refused),
            WalkItem::File(path) => match open(self.root, &path) {
                Ok(file) => files.search(file, (self.shown)(&path), self.stop),
                Err(refused) => left(path, refused),
            },
        }
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock()
}
