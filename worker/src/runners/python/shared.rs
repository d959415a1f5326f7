//! `isolation: shared`: a few interpreters that serve one call after another. For scripts that are trusted and pure.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use openskill_proto::limits::{MAX_EVENT_BYTES, MAX_OUTPUT_BYTES, MAX_STDERR_BYTES};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use super::House;
use super::freshness::changed_since;
use crate::admission::Slot;
use crate::environment::{self, path_text};
use crate::events::EventSink;
use crate::process::once::failure;
use crate::process::{Command, Exit, LaunchError, ProcessLimits, RunError, Running, drain_to_log};
use crate::runner::{Invocation, RawOutput};

/// The program of an interpreter.
const PROGRAM: &str = include_str!("shared.py");

/// An interpreter goes after so many calls, and gives back what they made it keep.
const MOST_CALLS: u64 = 100_000;

/// The interpreters of one skill, all alike.
pub(super) struct Shared {
    command: Command,
    script: PathBuf,
    idle: Mutex<Vec<Interpreter>>,
    /// Counted up when those that are out must not come back.
    generation: AtomicU64,
    /// One for each interpreter there may be. None until the first call says how many.
    places: std::sync::OnceLock<Semaphore>,
}

/// An interpreter between two calls.
struct Interpreter {
    stream: StdUnixStream,
    /// The place of the call it has, which is free when nothing of the interpreter is left, should the call be dropped.
    place: Arc<Mutex<Option<Slot>>>,
    _running: Running<Arc<Mutex<Option<Slot>>>>,
    started: SystemTime,
    last_used: Instant,
    calls: u64,
    generation: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ended {
        status: i32,
        stdout: usize,
        stderr: usize,
        /// Processes that the script left running.
        left: u32,
    },
}

impl Shared {
    /// `fresh` is how a fresh interpreter would run the script, with what is the same for all its calls.
    pub(super) fn new(fresh: &Command, script: &Path) -> Self {
        let settings = json!({"script": path_text(script), "stderr_bytes": MAX_STDERR_BYTES});
        let mut env = fresh.env.clone();
        env.insert("OPENSKILL_SHARED".to_owned(), settings.to_string());
        // The time of all calls together; a single one has its deadline.
        let limits = ProcessLimits { cpu_seconds: u64::MAX, ..fresh.limits };
        let command = Command { args: super::program_arguments(), env, limits, ..fresh.clone() };
        let places = std::sync::OnceLock::new();
        Self { command, script: script.to_owned(), idle: Mutex::default(), generation: AtomicU64::new(0), places }
    }

    /// Runs a call when an interpreter is free. None: it was not started.
    pub(super) async fn run(&self, house: &House, invocation: &Invocation) -> Option<RawOutput> {
        let places = self.places.get_or_init(|| Semaphore::new(house.most));
        let _place = places.acquire().await.ok()?;
        let mut interpreter = self.take(house)?;
        *lock(&interpreter.place) = Some(invocation.slot.clone());
        // Dropped from here on, by whatever, the interpreter goes with the call.
        let ran = interpreter.call(invocation).await;
        match ran {
            Ok(output) => {
                // One with processes of its script goes, and they with it; the call's place is free after that.
                if matches!(output, RawOutput::Process { leftovers: 0, .. }) {
                    *lock(&interpreter.place) = None;
                    self.give_back(interpreter);
                }
                Some(output)
            }
            // It had ended while it was idle: the script never had the word.
            Err(RunError::NotStarted { .. }) => None,
            Err(error) => Some(RawOutput::Failed(failure(&error))),
        }
    }

    fn take(&self, house: &House) -> Option<Interpreter> {
        loop {
            let Some(interpreter) = lock(&self.idle).pop() else { break };
            if !changed_since(interpreter.started, [self.script.as_path()].into_iter()) {
                return Some(interpreter);
            }
        }
        let _runtime = house.runtime.enter();
        match Interpreter::start(house, &self.command, self.generation.load(Ordering::Acquire)) {
            Ok(interpreter) => Some(interpreter),
            Err(error) => {
                tracing::warn!(%error, "a shared interpreter could not be started");
                None
            }
        }
    }

    fn give_back(&self, interpreter: Interpreter) {
        let wanted = interpreter.generation == self.generation.load(Ordering::Acquire);
        if wanted && interpreter.calls < MOST_CALLS {
            lock(&self.idle).push(interpreter);
        }
    }

    /// Lets go of interpreters that are idle, or whose script changed.
    pub(super) fn tend(&self, house: &House) {
        let fresh = |it: &Interpreter| {
            it.last_used.elapsed() < house.idle && !changed_since(it.started, [self.script.as_path()].into_iter())
        };
        let old: Vec<_> = lock(&self.idle).extract_if(.., |it| !fresh(it)).collect();
        drop(old);
    }

    /// Lets go of all of them; one that has a call, after it.
    pub(super) fn retire(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        let old = std::mem::take(&mut *lock(&self.idle));
        drop(old);
    }
}

impl Interpreter {
    fn start(house: &House, command: &Command, generation: u64) -> std::io::Result<Self> {
        let started = SystemTime::now();
        let (stream, theirs) = StdUnixStream::pair()?;
        stream.set_nonblocking(true)?;
        let place = Arc::new(Mutex::new(None));
        let guard = Arc::clone(&place);
        let (running, stderr) =
            house.launcher.launch_host(command, PROGRAM.as_bytes(), OwnedFd::from(theirs), guard)?;
        tokio::spawn(drain_to_log(stderr));
        let last_used = Instant::now();
        Ok(Self { stream, place, _running: running, started, last_used, calls: 0, generation })
    }

    /// One call. After an error the interpreter is of no more use.
    async fn call(&mut self, invocation: &Invocation) -> Result<RawOutput, RunError> {
        self.calls += 1;
        let env: std::collections::BTreeMap<_, _> = environment::of_call(invocation).collect();
        let parts = crate::process::once::input_parts(&invocation.input);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut head = json!({"env": env, "input": length}).to_string();
        head.push('\n');
        let lost = |_| RunError::Launch(LaunchError::Lost);
        // Registered with the runtime of this call, for as long as the call lasts.
        let stream = self.stream.try_clone().map_err(lost)?;
        let mut stream = BufReader::new(UnixStream::from_std(stream).map_err(lost)?);
        let mut request = head.into_bytes();
        parts.iter().for_each(|part| request.extend_from_slice(part));
        stream.write_all(&request).await.map_err(|_| RunError::NotStarted { errno: 0 })?;
        let answered = answer(&mut stream, &invocation.events).await?;
        self.last_used = Instant::now();
        Ok(answered)
    }
}

/// Events up to the answer, and the answer.
async fn answer(stream: &mut BufReader<UnixStream>, events: &EventSink) -> Result<RawOutput, RunError> {
    let lost = |_| RunError::Launch(LaunchError::Lost);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut *stream).take(MAX_EVENT_BYTES as u64).read_until(b'\n', &mut line).await.map_err(lost)?;
        if read == 0 || !line.ends_with(b"\n") {
            return Err(RunError::Launch(LaunchError::Lost));
        }
        match serde_json::from_slice(&line) {
            Ok(Answer::Ended { status, stdout, stderr, left }) => {
                if stdout > MAX_OUTPUT_BYTES || stderr > MAX_STDERR_BYTES {
                    return Err(RunError::OutputTooLarge);
                }
                let (mut out, mut err) = (vec![0; stdout], vec![0; stderr]);
                stream.read_exact(&mut out).await.map_err(lost)?;
                stream.read_exact(&mut err).await.map_err(lost)?;
                return Ok(RawOutput::Process { stdout: out, stderr: err, exit: Exit::Code(status), leftovers: left });
            }
            Err(_) => events.line(&line).await,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
