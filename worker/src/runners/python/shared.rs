//! Implements `isolation: shared`: a few interpreters serve one call after another, for trusted and pure scripts.
//!
//! ```text
//! run ──> pool ──calls──> queue ──> interpreter
//!   └────── end ─── attend <──answers───┘
//! ```
//!
//! - [`pool`]: assigns calls to interpreters, and handles the end of an interpreter
//! - [`queue`]: calls that interpreters have not begun
//! - [`mod@attend`]: the task that starts an interpreter and reads its [`output`]
//! - [`message`]: the encoding of a call

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openskill_proto::limits::{MAX_OUTPUT_BYTES, MAX_STDERR_BYTES};
use openskill_sandbox::given_secrets::GivenSecrets;
use openskill_sandbox::jail::plan::Plan;
use openskill_sandbox::launch::{LaunchError, Launcher, SupervisedRun};
use openskill_sandbox::plain_file;
use openskill_sandbox::protocol::{Command, ProcessLimits};
use openskill_sandbox::run::{RunError, drain_to_log};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::json;
use tokio::sync::Semaphore;

use super::settings::{SHARED, WarmSettings, program_arguments};
use crate::environment::{self, path_text};
use crate::events::EventSink;
use crate::runner::{Invocation, RawOutput};
use crate::runners::once::output_of_error;
use crate::schedule::Slot;

mod attend;
mod interpreter;
mod message;
mod output;
mod pool;
mod queue;
#[cfg(test)]
mod tests;

use attend::attend;
use interpreter::{CallEnd, Connected, Process, Slots};
use message::CallMessage;
use pool::Pool;
use queue::Queue;

/// The source of the program that an interpreter runs.
const PROGRAM: &str = concat!(include_str!("script.py"), include_str!("shared.py"));

/// The maximum number of calls per interpreter: the running one, and a few more, so that it need not wait for the
/// next one.
const DEPTH: usize = 4;

/// A call that waited behind another for this long may move to an idle interpreter.
const PATIENCE: Duration = Duration::from_millis(2);

/// The interval between checks of a call that is first in its queue, because it may move behind another one.
const PATIENCE_OF_FIRST: Duration = Duration::from_millis(100);

/// The interpreters of one skill, which are interchangeable.
pub(super) struct SharedPool {
    pool: Arc<Pool>,
    /// One permit for each call that the interpreters may have.
    permits: Semaphore,
}

impl SharedPool {
    /// `fresh`: the command that runs the script in a fresh interpreter, with the parts that all its calls share.
    /// `function`: the function that calls run, if they do not run the script itself.
    pub(super) fn new(settings: &WarmSettings, fresh: Command, script: &Path, function: Option<&str>) -> Self {
        let program = json!({
            "script": path_text(script),
            "function": function,
            "stderr_bytes": MAX_STDERR_BYTES,
            "output_bytes": MAX_OUTPUT_BYTES,
            "names": environment::CALL_VARIABLES,
            "filtered": fresh.jail.as_ref().is_some_and(Plan::filters_calls),
        });
        let mut env = fresh.env;
        env.insert("OPENSKILL_SHARED".to_owned(), program.to_string());
        // The CPU time includes all calls. A single call is limited by its deadline.
        let limits = ProcessLimits { cpu_seconds: u64::MAX, ..fresh.limits };
        let command = Arc::new(Command { args: program_arguments(), env, limits, ..fresh });
        let (launcher, runtime) = (settings.launcher.clone(), settings.runtime.clone());
        let (counts, file) = (Arc::clone(&settings.counts), Arc::<Path>::from(script));
        let connect = Box::new(move || {
            let connected = connect(&launcher, &runtime, &command, &file);
            if connected.is_ok() { &counts.starts } else { &counts.failures }.inc(SHARED);
            connected
        });
        let permits = Semaphore::new(settings.most * DEPTH);
        Self { pool: Pool::new(connect, attend, script.to_owned(), settings.most), permits }
    }

    /// Waits for capacity and runs the call. Returns `None` if it was not started.
    pub(super) async fn run(&self, invocation: &Invocation) -> Option<RawOutput> {
        let _permit = self.permits.acquire().await.ok()?;
        let message = CallMessage::from_invocation(invocation)?;
        // From here on, dropping this future ends the interpreter if it has begun the call.
        match run(&self.pool, message, &invocation.slot, &invocation.events).await {
            CallEnd::Ran(output) => Some(output),
            CallEnd::Failed(error) => Some(output_of_error(&error)),
            CallEnd::NotStarted => None,
        }
    }

    /// Ends interpreters that are idle, or whose script changed.
    pub(super) fn maintain(&self, settings: &WarmSettings) {
        self.pool.maintain(settings.idle);
    }

    /// Returns the number of interpreters.
    pub(super) fn interpreters(&self) -> usize {
        self.pool.len()
    }

    /// Ends all interpreters, each after its last call.
    pub(super) fn retire(&self) {
        self.pool.retire();
    }
}

async fn run(pool: &Arc<Pool>, message: CallMessage, slot: &Slot, events: &EventSink) -> CallEnd {
    let queued = pool.put(message, slot.clone(), events.clone());
    let mut watched = CancelOnDrop { pool, number: queued.number, over: false };
    let mut end = queued.end;
    let mut is_behind = queued.behind;
    loop {
        // A call waits microseconds behind another, unless that one is slow. A first call may move behind another
        // if its interpreter ends before beginning it.
        let patience = if is_behind { PATIENCE } else { PATIENCE_OF_FIRST };
        match tokio::time::timeout(patience, &mut end).await {
            Ok(end) => return watched.over(end.ok()),
            Err(_) => is_behind = pool.rebalance(queued.number),
        }
    }
}

/// Cancels a call when dropped, unless it has ended.
struct CancelOnDrop<'a> {
    pool: &'a Arc<Pool>,
    number: u64,
    over: bool,
}

impl CancelOnDrop<'_> {
    fn over(&mut self, end: Option<CallEnd>) -> CallEnd {
        self.over = true;
        end.unwrap_or(CallEnd::Failed(RunError::Launch(LaunchError::Lost)))
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.pool.drop_call(self.number);
        }
    }
}

/// A process that is dropped on the runtime that lives as long as the worker.
struct OnRuntime {
    running: Option<SupervisedRun<Slots>>,
    runtime: tokio::runtime::Handle,
}

impl Drop for OnRuntime {
    fn drop(&mut self) {
        let _runtime = self.runtime.enter();
        self.running = None;
    }
}

/// Returns the descriptors of a new interpreter, and a closure that starts its process.
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
        // If the script were a pipe, opening it would block the interpreter and its calls.
        plain_file::check_start(&script).map_err(std::io::Error::other)?;
        let _runtime = runtime.enter();
        let (running, stderr) = launcher.launch_host(&command, PROGRAM.as_bytes(), calls, Some(theirs), guard)?;
        tokio::spawn(drain_to_log(stderr, noted));
        Ok(Box::new(OnRuntime { running: Some(running), runtime: runtime.clone() }) as Process)
    };
    Ok(Connected { queue, answers, launch: Box::new(launch), slots, given_secrets })
}
