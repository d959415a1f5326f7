//! `search_file_content`: searches a file or a folder for a regular expression, with the crates that `rg` uses.
//!
//! - [`arguments`]: the arguments of a call; [`mod@file`]: searches one file; [`mod@line`]: the visible part of a line
//! - [`folder`]: searches many files on all free threads, with results in path order
//! - [`answer`]: the result and its limits

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError};
use tokio::sync::Semaphore;

use super::host::{FunctionOutput, Host, spare};
use super::ordered::BoundedAnswer as _;
use super::paths::{PathKind, PathRefusal, PathView, kind_at, open};
use super::stop::{StopSignal, stopped_error};
use super::walk::{Walk, globs};
use crate::call::Invocation;

mod answer;
mod arguments;
mod file;
mod folder;
mod line;

use answer::SearchResults;
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
    let slot = invocation.slot;
    let search = Search { root: Arc::new(root), paths, path, arguments, query, stop, helpers: host.helpers };
    let work = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        search.run()
    });
    work.await.unwrap_or_else(|_| Err(SkillError::new(ErrorCode::Internal, "the search panicked")))
}

impl Search {
    fn run(self) -> Result<FunctionOutput, SkillError> {
        let refused = |refused: PathRefusal| refused.error("file_path", &self.arguments.file_path);
        let answer = match kind_at(self.root.as_fd(), &self.path).map_err(refused)? {
            PathKind::File => {
                let mut answer = SearchResults::new(self.query.most);
                let opened = open(self.root.as_fd(), &self.path).map_err(refused)?;
                answer.add(Files::new(&self.query).search(opened, self.paths.display_path(&self.path), &self.stop));
                answer
            }
            PathKind::Folder => {
                let globs = globs(&self.path, &self.arguments.globs())?;
                let walk = Walk::new(Arc::clone(&self.root), &self.path, globs).map_err(refused)?;
                self.folder(walk)
            }
        };
        if self.stop.is_due() { Err(stopped_error()) } else { answer.report() }
    }

    fn folder(&self, walk: Walk) -> SearchResults {
        let helpers = spare(&self.helpers, usize::MAX);
        let shown = |path: &Path| self.paths.display_path(path);
        folder::search(&self.query, self.root.as_fd(), walk, shown, &self.stop, helpers.len())
    }
}

#[cfg(test)]
mod tests;
