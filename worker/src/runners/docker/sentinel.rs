//! The sentinel: a small process that outlives its worker for as long as it takes to remove the worker's containers.
//!
//! Containers are the engine's children, not the worker's: a worker that is killed leaves them running. So with its first
//! container a worker starts `openskill sentinel`, the same binary, and holds a pipe to it. When the pipe closes without
//! a word, the worker is dead, whatever killed it, and the sentinel removes every container with the worker's label.
//!
//! Under `openskill up` the sentinel of a dead worker comes to `up`, which ends orphans: but not a sentinel, for
//! [`SPARED_FOR`]. What a sentinel can't do, because it was killed as well, the sweep of the next worker does.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::setsid;
use serde::{Deserialize, Serialize};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};

use super::containers::{list, remove};
use super::engine::Engine;
use super::owner::{INSTANCE, Owner};
use crate::process::launch::Launcher;
pub use crate::process::strays::{SENTINEL as ARGUMENT, SPARED_FOR};

/// What the worker says at its end, when nothing is left to do.
const DONE: &str = "done";

/// The most a worker has to say.
const MAX_ORDERS: u64 = 64 * 1024;

/// Between two looks.
const STEP: Duration = Duration::from_millis(100);

/// How long after the worker's death a container may still show up that was being made then. Not counted from the last one
/// found: to remove that takes as long again.
const SHOWN_BY: Duration = Duration::from_secs(1);

/// How many looks in a row have to find nothing then: an engine that took long to remove may also have taken long to make.
const CLEAR: u32 = 2;

/// How long a sentinel may take to exit once it was dismissed.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a sentinel has to know. Through the pipe, so that nothing of it shows in the process list.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    host: String,
    instance: String,
}

/// The worker's side of it.
pub(super) struct Sentinel {
    launcher: Launcher,
    post: Mutex<Option<Post>>,
}

struct Post {
    child: Child,
    pid: u32,
    /// Open for as long as this process lives.
    pipe: OwnedFd,
}

impl Sentinel {
    pub(super) fn new(launcher: Launcher) -> Self {
        Self { launcher, post: Mutex::default() }
    }

    /// Sees to it that one is there.
    pub(super) fn ensure(&self, engine: &Engine, owner: &Owner) -> std::io::Result<()> {
        let mut post = self.post();
        match post.as_mut().map(|it| it.child.try_wait()) {
            Some(Ok(None)) => return Ok(()),
            Some(_) => tracing::warn!("the sentinel was killed and is started again"),
            None => {}
        }
        if let Some(ended) = post.take() {
            self.launcher.ended(ended.pid);
        }
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        let orders = Orders { host: engine.host().to_owned(), instance: owner.instance.clone() };
        // Less than a pipe holds, so that this never waits.
        let mut pipe = std::fs::File::from(ours);
        writeln!(pipe, "{}", serde_json::to_string(&orders)?)?;
        let child = self.launcher.start_as(ARGUMENT, Stdio::from(theirs))?;
        let pid = child.id().unwrap_or_default();
        *post = Some(Post { child, pid, pipe: OwnedFd::from(pipe) });
        Ok(())
    }

    /// Tells it that nothing is left, and waits for its end.
    pub(super) async fn dismiss(&self) {
        let Some(Post { mut child, pid, pipe }) = self.post().take() else { return };
        let _ = std::fs::File::from(pipe).write_all(DONE.as_bytes());
        if tokio::time::timeout(PATIENCE, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
        self.launcher.ended(pid);
    }

    /// Lets it do what is left to do.
    pub(super) fn leave(&self) {
        drop(self.post().take());
    }

    fn post(&self) -> MutexGuard<'_, Option<Post>> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the sentinel: `openskill sentinel`, with the worker's pipe as standard input.
pub fn main() -> ExitCode {
    // The terminal's signals are for the worker, which ends its containers in order.
    let _ = setsid();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let _entered = runtime.enter();
    // Whoever ends all processes of a group or a folder means the worker: its containers are to be removed all the same.
    let deaf_to = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
    let _deaf = deaf_to.map(signal);
    let mut said = String::new();
    let read = std::io::stdin().take(MAX_ORDERS).read_to_string(&mut said);
    let Some((orders, rest)) = read.ok().and_then(|_| said.split_once('\n')) else { return ExitCode::FAILURE };
    let Ok(orders) = serde_json::from_str::<Orders>(orders) else { return ExitCode::FAILURE };
    if rest != DONE {
        runtime.block_on(remove_all(&orders));
    }
    ExitCode::SUCCESS
}

async fn remove_all(Orders { host, instance }: &Orders) {
    let engine = Engine::new(host);
    let label = format!("{INSTANCE}={instance}");
    let begun = Instant::now();
    let mut clear = 0;
    while clear < CLEAR && begun.elapsed() < SPARED_FOR {
        let all_shown = begun.elapsed() >= SHOWN_BY;
        let found = match engine.client() {
            Ok(client) => list(&client, &label).await.map(|found| (client, found)),
            Err(error) => Err(error),
        };
        match found {
            Ok((client, found)) => {
                clear = if found.is_empty() && all_shown { clear + 1 } else { 0 };
                join_all(found.iter().map(|(name, _)| remove(&client, name))).await;
            }
            Err(_) => clear = 0,
        }
        tokio::time::sleep(STEP).await;
    }
}
