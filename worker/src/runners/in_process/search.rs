//! `search_file_content`: a regular expression in one file or a folder, with the crates that `rg` is made of.
//!
//! - [`arguments`]: what a caller asks for; [`mod@file`]: one file; [`mod@line`]: what is shown of a line
//! - [`folder`]: many files, on as many threads as are free, in the order of their paths
//! - [`answer`]: what is returned, and its bounds

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError};
use tokio::sync::Semaphore;

use super::host::{Host, Report, spare};
use super::ordered::Grows as _;
use super::place::{Kind, Place, Refused, look, open};
use super::stop::{Stop, stopped};
use super::walk::{Walk, globs};
use crate::runner::Invocation;

mod answer;
mod arguments;
mod file;
mod folder;
mod line;

use answer::Answer;
use arguments::Arguments;
use file::{Files, Query};

/// A search that is ready to run.
struct Search {
    root: Arc<OwnedFd>,
    place: Place,
    path: PathBuf,
    arguments: Arguments,
    query: Query,
    stop: Stop,
    helpers: Arc<Semaphore>,
}

/// Runs the function. Reading happens on blocking threads, which hold the call's slot until they have ended.
///
/// # Errors
/// The arguments are invalid, or the file or folder cannot be opened.
pub(super) async fn run(host: Host, invocation: Invocation) -> Result<Report, SkillError> {
    let arguments = Arguments::read(&invocation.input)?;
    let query = Query::new(&arguments)?;
    let (root, place) = host.root(&invocation.manifest)?;
    let path = place.below("file_path", &arguments.file_path)?;
    let (stop, _stop_on_drop) = Stop::at(invocation.deadline);
    let slot = invocation.slot;
    let search = Search { root: Arc::new(root), place, path, arguments, query, stop, helpers: host.helpers };
    let work = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        search.run()
    });
    work.await.unwrap_or_else(|_| Err(SkillError::new(ErrorCode::Internal, "the search panicked")))
}

impl Search {
    fn run(self) -> Result<Report, SkillError> {
        let refused = |refused: Refused| refused.error("file_path", &self.arguments.file_path);
        let answer = match look(self.root.as_fd(), &self.path).map_err(refused)? {
            Kind::File => {
                let mut answer = Answer::new(self.query.most);
                let opened = open(self.root.as_fd(), &self.path).map_err(refused)?;
                answer.add(Files::new(&self.query).search(opened, self.place.shown(&self.path), &self.stop));
                answer
            }
            Kind::Folder => {
                let globs = globs(&self.path, &self.arguments.globs())?;
                let walk = Walk::new(Arc::clone(&self.root), &self.path, globs).map_err(refused)?;
                self.folder(walk)
            }
        };
        if self.stop.is_due() { Err(stopped()) } else { answer.report() }
    }

    fn folder(&self, walk: Walk) -> Answer {
        let helpers = spare(&self.helpers, usize::MAX);
        let shown = |path: &Path| self.place.shown(path);
        folder::search(&self.query, (self.root.as_fd(), walk), shown, &self.stop, helpers.len())
    }
}

#[cfg(test)]
mod tests;
