//! `isolation: shared`: a few interpreters that serve one call after another, for scripts that are trusted and pure.
//!
//! ```text
//! run ──> pool ──calls──> queue ──> interpreter
//!   └────── end ─── attend <──answers───┘
//! ```
//!
//! - [`pool`]: which interpreter has which call, and what happens to calls when an interpreter ends
//! - [`queue`]: calls that no interpreter has begun
//! - [`mod@attend`]: the task that starts an interpreter and reads its [`answers`]
//! - [`message`]: a call as it is sent

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openskill_proto::limits::{MAX_OUTPUT_BYTES, MAX_STDERR_BYTES};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::json;
use tokio::sync::Semaphore;

use super::settings::{SHARED, WarmSettings, program_arguments};
use crate::environment::{self, path_text};
use crate::events::EventSink;
use crate::plain_file;
use crate::process::given_secrets::GivenSecrets;
use crate::process::jail::plan::Plan;
use crate::process::launch::LaunchError;
use crate::process::launch::Launcher;
use crate::process::launch::Running;
use crate::process::protocol::Command;
use crate::process::protocol::ProcessLimits;
use crate::process::run::RunError;
use crate::process::run::drain_to_log;
use crate::runner::{Invocation, RawOutput};
use crate::runners::once::unfinished;
use crate::schedule::Slot;

mod answers;
mod attend;
mod interpreter;
mod message;
mod pool;
mod queue;
#[cfg(test)]
mod tests;

use attend::attend;
use interpreter::{Connected, End, Process, Slots};
use message::Message;
use pool::Pool;
use queue::Queue;

/// The program of an interpreter.
const PROGRAM: &str = concat!(include_str!("script.py"), include_str!("shared.py"));

/// Calls an interpreter may have: one that it runs, and a few so that it need not wait for the next.
const DEPTH: usize = 4;

/// After waiting behind another call for this long, a call may move to an idle interpreter.
const PATIENCE: Duration = Duration::from_millis(2);

/// How often a call that is first in its queue is checked: it may come to be behind another.
const PATIENCE_OF_FIRST: Duration = Duration::from_millis(100);

/// The interpreters of one skill, all alike.
pub(super) struct Shared {
    pool: Arc<Pool>,
    /// One for each call that interpreters may have.
    permits: Semaphore,
}

impl Shared {
    /// `fresh` is how a fresh interpreter would run the script, with what is the same for all its calls.
    pub(super) fn new(settings: &WarmSettings, fresh: &Command, script: &Path) -> Self {
        let program = json!({
            "script": path_text(script),
            "stderr_bytes": MAX_STDERR_BYTES,
            "output_bytes": MAX_OUTPUT_BYTES,
            "names": environment::OF_CALL,
            "filtered": fresh.jail.as_ref().is_some_and(Plan::filters_calls),
        });
        let mut env = fresh.env.clone();
        env.insert("OPENSKILL_SHARED".to_owned(), program.to_string());
        // The time of all calls together; a single one has its deadline.
        let limits = ProcessLimits { cpu_seconds: u64::MAX, ..fresh.limits };
        let command = Command { args: program_arguments(), env, limits, ..fresh.clone() };
        let (launcher, runtime) = (settings.launcher.clone(), settings.runtime.clone());
        let command = Arc::new(command);
        let file: Arc<Path> = script.into();
        let counts = Arc::clone(&settings.counts);
        let connect = Box::new(move || {
            let connected = connect(&launcher, &runtime, &command, &file);
            if connected.is_ok() { &counts.starts } else { &counts.failures }.inc(SHARED);
            connected
        });
        let permits = Semaphore::new(settings.most * DEPTH);
        Self { pool: Pool::new(connect, attend, script.to_owned(), settings.most), permits }
    }

    /// Runs a call when an interpreter can have it. None: it was not started.
    pub(super) async fn run(&self, invocation: &Invocation) -> Option<RawOutput> {
        let _permit = self.permits.acquire().await.ok()?;
        let message = Message::of(invocation)?;
        // If this is dropped from here on, the interpreter ends with the call, if it has begun it.
        match run(&self.pool, message, &invocation.slot, &invocation.events).await {
            End::Ran(output) => Some(output),
            End::Failed(error) => Some(unfinished(&error)),
            End::NotStarted => None,
        }
    }

    /// Ends interpreters that are idle, or whose script changed.
    pub(super) fn tend(&self, settings: &WarmSettings) {
        self.pool.tend(settings.idle);
    }

    /// How many interpreters there are.
    pub(super) fn interpreters(&self) -> usize {
        self.pool.len()
    }

    /// Ends all of them, each after its calls.
    pub(super) fn retire(&self) {
        self.pool.retire();
    }
}

async fn run(pool: &Arc<Pool>, message: Message, slot: &Slot, events: &EventSink) -> End {
    let queued = pool.put(message, slot.clone(), events.clone());
    let mut watched = Watched { pool, number: queued.number, over: false };
    let mut end = queued.end;
    let mut is_behind = queued.behind;
    loop {
        // A call waits microseconds behind another, unless that one is slow. The first may come to be behind another if its
        // interpreter ends before beginning it.
        let patience = if is_behind { PATIENCE } else { PATIENCE_OF_FIRST };
        match tokio::time::timeout(patience, &mut end).await {
            Ok(end) => return watched.over(end.ok()),
            Err(_) => is_behind = pool.rebalance(queued.number),
        }
    }
}

/// A call that somebody waits for. Dropped before its end, it is cancelled.
struct Watched<'a> {
    pool: &'a Arc<Pool>,
    number: u64,
    over: bool,
}

impl Watched<'_> {
    fn over(&mut self, end: Option<End>) -> End {
        self.over = true;
        end.unwrap_or(End::Failed(RunError::Launch(LaunchError::Lost)))
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.pool.drop_call(self.number);
        }
    }
}

/// A process that ends on the runtime that lives as long as the worker.
struct OnRuntime {
    running: Option<Running<Slots>>,
    runtime: tokio::runtime::Handle,
}

impl Drop for OnRuntime {
    fn drop(&mut self) {
        let _runtime = self.runtime.enter();
        self.running = None;
    }
}

/// The descriptors of a new interpreter, and what starts its process.
fn connect(
    launcher: &Launcher,
    runtime: &tokio::runtime::Handle,
    command: &Arc<Command>,
    script: &Arc<Path>,
) -> std::io::Result<Connected> {
    let (queue, calls) = Queue::new()?;
    let (answers, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    let (slots, given_secrets) = (Slots::default(), GivenSecrets::default());
    let (launcher, runtime, command, script, guard, noted) = (
        launcher.clone(),
        runtime.clone(),
        Arc::clone(command),
        Arc::clone(script),
        Arc::clone(&slots),
        given_secrets.clone(),
    );
    let launch = move || {
        // It would wait to open it, and its calls with it.
        plain_file::check_start(&script).map_err(std::io::Error::other)?;
        let _runtime = runtime.enter();
        let descriptors = (calls, Some(theirs));
        let (running, stderr) = launcher.launch_host(&command, PROGRAM.as_bytes(), descriptors, guard)?;
        tokio::spawn(drain_to_log(stderr, noted));
        Ok(Box::new(OnRuntime { running: Some(running), runtime: runtime.clone() }) as Process)
    };
    Ok(Connected { queue, answers, launch: Box::new(launch), slots, given_secrets })
}
