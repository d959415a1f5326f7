//! A call of a built-in function, and what the worker gives to the function.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::Limits;
use openskill_sandbox::allowed_root::{RootError, RunRoot};
use openskill_sandbox::jail::Level;
use openskill_sandbox::sessions::key::SessionOwner;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::paths::PathView;

/// A call of a built-in function.
pub struct Invocation {
    /// The skill whose manifest names the function.
    pub skill: Skill,
    /// The arguments as a JSON object.
    pub input: Bytes,
    /// The owner of the sessions that the call uses.
    pub owner: SessionOwner,
    /// When the call is dropped.
    pub deadline: Instant,
    /// Receives the events of the call.
    pub events: Arc<dyn CallEvents>,
    /// The right to run. It is held until all processes and threads of the call have ended.
    pub slot: CallSlot,
}

/// The parts of a skill's manifest that matter to a function.
#[derive(Debug, Clone)]
pub struct Skill {
    /// The skill id.
    pub id: String,
    /// The required jail level for its processes.
    pub level: Level,
    /// The resource limits of its processes.
    pub limits: Limits,
    /// The allowed root: the only files that it may access.
    pub root: RunRoot,
}

/// Receives what a function reports while it runs.
pub trait CallEvents: Send + Sync {
    /// Reports the progress of the call, from 0 to 1.
    fn progress(&self, fraction: f64, message: String) -> BoxFuture<'_, ()>;

    /// Adds an artifact to the result.
    fn artifact<'a>(&'a self, name: &'a str, media_type: &'a str, data: Vec<u8>) -> BoxFuture<'a, ()>;

    /// Records in the call's trace how a resource of the call was started, such as new or from a spare.
    fn record_start(&self, how: &'static str);
}

/// The right to run. It is released when the last clone is dropped.
#[derive(Clone)]
pub struct CallSlot {
    /// The nice value for the processes of the call.
    pub(crate) nice: u8,
    _held: Arc<dyn Any + Send + Sync>,
}

impl CallSlot {
    /// `nice` is the nice value for the processes of the call. `held` is dropped with the last clone.
    pub fn new(nice: u8, held: impl Any + Send + Sync) -> Self {
        Self { nice, _held: Arc::new(held) }
    }

    /// Runs work on a blocking thread, which holds the slot until the work ends.
    pub(crate) fn run_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let slot = self.clone();
        tokio::task::spawn_blocking(move || {
            let _slot = slot;
            work()
        })
    }
}

/// Parses the arguments of a function.
///
/// # Errors
/// The arguments are invalid for this function. The gateway has normally validated them already.
pub(crate) fn read_arguments<T: DeserializeOwned>(input: &[u8]) -> Result<T, SkillError> {
    openskill_proto::json::read(input).map_err(|error| invalid_argument(error.to_string()))
}

/// Returns the error for an argument that is not valid.
pub(crate) fn invalid_argument(message: impl Into<String>) -> SkillError {
    SkillError::new(ErrorCode::InvalidArgument, message)
}

impl Skill {
    /// Opens the allowed root. Also returns the form of its paths for callers.
    ///
    /// # Errors
    /// The root no longer exists, or was replaced.
    pub(crate) fn open_root(&self) -> Result<(OwnedFd, PathView), SkillError> {
        let opened = self.root.open().map_err(RootError::into_error)?;
        Ok((opened, PathView::new(self.root.display_path())))
    }
}
