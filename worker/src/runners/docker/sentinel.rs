//! The sentinel: a small process that outlives its worker until it has removed the worker's containers.
//!
//! Containers are children of the engine, so they outlive a worker that is killed. Therefore a worker starts
//! `openskill sentinel`, the same binary, with its first container, and holds a pipe to it. When the pipe closes
//! without a message, the worker is dead for whatever reason, and the sentinel removes all containers with the
//! worker's label.
//!
//! Under `openskill up`, `up` inherits the sentinel of a dead worker. It kills orphans, but spares a sentinel for
//! [`SPARED_FOR`]. If the sentinel was killed as well, the sweep of the next worker does its work.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use bollard::errors::Error;
use futures_util::future::join_all;
use openskill_sandbox::launch::Launcher;
use parking_lot::Mutex;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::setsid;
use serde::{Deserialize, Serialize};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};

use super::engine::{Engine, list, remove};
use super::owner::{ContainerOwner, INSTANCE};
pub use openskill_sandbox::strays::{SENTINEL as ARGUMENT, SPARED_FOR};

/// The message of a worker that exits with nothing left to remove.
const DONE: &str = "done";

/// The maximum length of a worker's message, in bytes.
const MAX_ORDERS: u64 = 64 * 1024;

/// The pause between two checks.
const STEP: Duration = Duration::from_millis(100);

/// How long after the worker's death a container may still appear that was being created. The time does not
/// restart when a container is found, because removing it takes as long again.
const SHOWN_BY: Duration = Duration::from_secs(1);

/// How many consecutive checks must then find nothing. An engine that removes slowly may also create slowly.
const CLEAR: u32 = 2;

/// The timeout for a sentinel to exit after it was dismissed.
const PATIENCE: Duration = Duration::from_secs(1);

/// The sentinel's configuration. Sent through the pipe, so that process listings do not show it.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    host: String,
    instance: String,
}

/// The worker's side of the sentinel.
pub(super) struct Sentinel {
    launcher: Launcher,
    post: Mutex<Option<Post>>,
}

struct Post {
    child: Child,
    pid: u32,
    /// Stays open while this process lives.
    pipe: OwnedFd,
}

impl Sentinel {
    pub(super) fn new(launcher: Launcher) -> Self {
        Self { launcher, post: Mutex::default() }
    }

    /// Starts a sentinel, unless one is running.
    pub(super) fn ensure(&self, engine: &Engine, owner: &ContainerOwner) -> std::io::Result<()> {
        let mut post = self.post.lock();
        match post.as_mut().map(|it| it.child.try_wait()) {
            Some(Ok(None)) => return Ok(()),
            Some(_) => tracing::warn!(
                "the process that removes leftover containers (sentinel) has ended; starting another one"
            ),
            None => {}
        }
        if let Some(ended) = post.take() {
            self.launcher.forget(ended.pid);
        }
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        let orders = Orders { host: engine.host.clone(), instance: owner.instance.clone() };
        // The message fits into a pipe's buffer, so this never blocks.
        let mut pipe = std::fs::File::from(ours);
        writeln!(pipe, "{}", serde_json::to_string(&orders)?)?;
        let child = self.launcher.start_as(ARGUMENT, Stdio::from(theirs))?;
        let pid = child.id().unwrap_or_default();
        *post = Some(Post { child, pid, pipe: OwnedFd::from(pipe) });
        Ok(())
    }

    /// Tells the sentinel that nothing is left to do, and waits until it exits.
    pub(super) async fn dismiss(&self) {
        let Some(Post { mut child, pid, pipe }) = self.post.lock().take() else { return };
        let _ = std::fs::File::from(pipe).write_all(DONE.as_bytes());
        if tokio::time::timeout(PATIENCE, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
        self.launcher.forget(pid);
    }

    /// Closes the pipe, so that the sentinel removes the remaining containers.
    pub(super) fn leave(&self) {
        drop(self.post.lock().take());
    }
}

/// Runs the sentinel: `openskill sentinel`, with the worker's pipe as standard input.
pub fn main() -> ExitCode {
    // Only the worker reacts to the terminal's signals. It ends its containers in order.
    let _ = setsid();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let _entered = runtime.enter();
    // Signals to a process group or cgroup are meant for the worker. Its containers must be removed anyway.
    let deaf_to = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
    let _deaf = deaf_to.map(signal);
    let mut said = String::new();
    let read = std::io::stdin().take(MAX_ORDERS).read_to_string(&mut said);
    let Some((orders, rest)) = read.ok().and_then(|_| said.split_once('\n')) else { return ExitCode::FAILURE };
    let Ok(orders) = serde_json::from_str::<Orders>(orders) else { return ExitCode::FAILURE };
    if rest != DONE {
        runtime.block_on(remove_all(orders));
    }
    ExitCode::SUCCESS
}

async fn remove_all(Orders { host, instance }: Orders) {
    let label = format!("{INSTANCE}={instance}");
    let engine = Engine { host };
    let begun = Instant::now();
    let mut clear = 0;
    while clear < CLEAR && begun.elapsed() < SPARED_FOR {
        let all_shown = begun.elapsed() >= SHOWN_BY;
        clear = match remove_found(&engine, &label).await {
            Ok(0) if all_shown => clear + 1,
            _ => 0,
        };
        tokio::time::sleep(STEP).await;
    }
}

/// Removes the containers with this label. Returns how many it found.
async fn remove_found(engine: &Engine, label: &str) -> Result<usize, Error> {
    let client = engine.client()?;
    let found = list(&client, label).await?;
    join_all(found.iter().map(|(name, _)| remove(&client, name))).await;
    Ok(found.len())
}
