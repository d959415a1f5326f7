//! Searches many files on several threads. The answer does not depend on their number: files count in the order of their paths.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::answer::{Answer, Found};
use super::file::{Files, Query};
use crate::runners::in_process::left::Left;
use crate::runners::in_process::ordered::Ordered;
use crate::runners::in_process::place::{Refused, open};
use crate::runners::in_process::stop::Stop;
use crate::runners::in_process::walk::{Step, Walk};

/// A folder that is being searched.
struct Folder<'a> {
    query: &'a Query,
    root: BorrowedFd<'a>,
    shown: &'a (dyn Fn(&Path) -> String + Sync),
    stop: &'a Stop,
    files: Mutex<Pending>,
    answer: Mutex<Ordered<Answer>>,
}

/// The files that are still to be searched.
struct Pending {
    walk: Walk,
    /// The number of the next one.
    next: usize,
}

/// Searches the files of a walk on this thread and `helpers` more.
pub(super) fn search(
    query: &Query,
    (root, walk): (BorrowedFd<'_>, Walk),
    shown: impl Fn(&Path) -> String + Sync,
    stop: &Stop,
    helpers: usize,
) -> Answer {
    let files = Mutex::new(Pending { walk, next: 0 });
    let answer = Mutex::new(Ordered::new(Answer::new(query.most)));
    let folder = Folder { query, root, shown: &shown, stop, files, answer };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            let builder = std::thread::Builder::new().name("search".to_owned());
            // Without another thread, this one does it all.
            let _ = builder.spawn_scoped(scope, || folder.work());
        }
        folder.work();
    });
    let walk = folder.files.into_inner().unwrap_or_else(PoisonError::into_inner).walk;
    let mut answer = folder.answer.into_inner().unwrap_or_else(PoisonError::into_inner).answer;
    if !walk.is_complete() {
        answer.cut("too_many_files");
    }
    answer
}

impl Folder<'_> {
    fn work(&self) {
        let mut files = Files::new(self.query);
        while let Some((number, step)) = self.take() {
            let found = self.search(&mut files, step);
            lock(&self.answer).put(number, found);
        }
    }

    /// The next file, and its number.
    fn take(&self) -> Option<(usize, Step)> {
        let mut files = lock(&self.files);
        let number = files.next;
        if self.stop.is_due() || lock(&self.answer).is_full_before(number) {
            return None;
        }
        let step = files.walk.next()?;
        files.next += 1;
        Some((number, step))
    }

    fn search(&self, files: &mut Files<'_>, step: Step) -> Found {
        let left = |path: PathBuf, refused: Refused| {
            let (path, reason, message) = ((self.shown)(&path), refused.word(), refused.to_string());
            Found::unopened(Left { path, reason, message })
        };
        match step {
            Step::Left(path, refused) => left(path, refused),
            Step::File(path) => match open(self.root, &path) {
                Ok(file) => files.search(file, (self.shown)(&path), self.stop),
                Err(refused) => left(path, refused),
            },
        }
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
