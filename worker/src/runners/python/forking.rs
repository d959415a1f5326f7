//! `isolation: fork`: the fork servers of a skill, as many as its load needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use super::fork;
use super::freshness::changed_since;
use super::settings::{Cold, FORK, WarmSettings, program_arguments};
use crate::environment::{self, path_text};
use crate::process::forkserver::ForkServer;
use crate::process::forkserver::Forked;
use crate::process::forkserver::MOST_CALLS;
use crate::process::jail::plan::Plan;
use crate::process::protocol::ColdImport;
use crate::process::protocol::Command;
use crate::process::protocol::ProcessLimits;
use crate::runner::{Invocation, RawOutput};
use crate::runners::once::{check_start, input_parts, output, unfinished};

/// Children that wait for a call: at least, and when there is much to do.
const LEAST_IDLE: usize = 2;
const MOST_IDLE: usize = 8;

/// At this many calls on a fork server, another one is started, if there is a core for it.
const CROWDED: usize = 4;

/// Room for a call id; the fork server's program has the same limit.
const CALL_ID_BYTES: usize = 128;

/// While none is ready and one has been getting ready for this long, calls get fresh interpreters.
const SLOW_START: Duration = Duration::from_secs(2);

/// How often a warm-up looks whether a fork server is ready.
const LOOK: Duration = Duration::from_millis(10);

/// How often a call is tried on another fork server, if it was not started, before it gets an interpreter of its own.
const TRIES: usize = 3;

/// After so many fork servers in a row that started no call, the skill's calls get fresh interpreters for this long.
const MOST_FAILURES: u32 = 3;
const BREAK: Duration = Duration::from_secs(30);

/// The fork servers of one skill.
pub(super) struct Forking {
    command: Command,
    script: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    servers: Vec<Server>,
    /// How many in a row ended before they started a call.
    failures: u32,
    broken_until: Option<Instant>,
    /// Why the last call got a fresh interpreter, if it did.
    last: Option<Cold>,
}

struct Server {
    server: Arc<ForkServer>,
    started: SystemTime,
}

impl Forking {
    /// `fresh` is how a fresh interpreter would run the script, with what is the same for all its calls. `fixed` is a folder
    /// whose files do not change. `jailed`: a call can't send signals to its fork server, where the kernel has a way to forbid it.
    pub(super) fn new(fresh: &Command, script: &Path, fixed: Option<&Path>, jailed: bool) -> Self {
        let command = server_command(fresh, script, fixed, jailed);
        Self { command, script: script.to_owned(), state: Mutex::default() }
    }

    /// Starts a fork server, if there is none, and waits until it is ready or has ended.
    pub(super) async fn warm_up(&self, settings: &WarmSettings) {
        let started = self.pick(settings);
        if let Ok(server) = &started {
            while server.is_open() && !server.is_ready() {
                tokio::time::sleep(LOOK).await;
            }
        }
        let is_ready = started.as_ref().is_ok_and(|server| server.is_ready());
        lock(&self.state).last = started.err().or_else(|| (!is_ready).then_some(Cold::Failed));
    }

    /// Runs a call, if there is a fork server for it. Otherwise it was not started. `processes` is the limit on all of its user.
    pub(super) async fn run(
        &self,
        settings: &WarmSettings,
        invocation: &Invocation,
        processes: u64,
    ) -> Result<RawOutput, Cold> {
        let ran = self.try_servers(settings, invocation, processes).await;
        lock(&self.state).last = ran.as_ref().err().copied();
        ran
    }

    async fn try_servers(
        &self,
        settings: &WarmSettings,
        invocation: &Invocation,
        processes: u64,
    ) -> Result<RawOutput, Cold> {
        let env: BTreeMap<_, _> = environment::of_call(invocation).collect();
        let Invocation { input, events, slot, .. } = invocation;
        for _ in 0..TRIES {
            let server = self.pick(settings)?;
            match server.run((&env, processes), &input_parts(input), events, slot.clone()).await {
                Forked::Ran(ran) => {
                    lock(&self.state).failures = 0;
                    return Ok(ran.map_or_else(|error| unfinished(&error), output));
                }
                Forked::NotStarted => {
                    settings.counts.failures.inc(FORK);
                    self.note_failure();
                }
            }
        }
        Err(Cold::Failed)
    }

    /// The fork server for the next call: the one with the fewest, or a new one if all are crowded.
    fn pick(&self, settings: &WarmSettings) -> Result<Arc<ForkServer>, Cold> {
        let mut state = lock(&self.state);
        if state.broken_until.is_some_and(|until| Instant::now() < until) {
            return Err(Cold::Paused);
        }
        state.drop_stale(&self.script);
        let waits = |it: &&Server| it.started.elapsed().is_ok_and(|since| since > SLOW_START);
        if !state.servers.iter().any(|it| it.server.is_ready()) && state.servers.iter().any(|it| waits(&it)) {
            // Its imports are slow: a fresh interpreter is quicker than waiting for it.
            return Err(Cold::Starting);
        }
        // One that is ready first, then the one with the fewest calls.
        let best = state.servers.iter().min_by_key(|it| (!it.server.is_ready(), it.server.in_flight()));
        if let Some(best) = best {
            let calls = best.server.in_flight();
            if calls < CROWDED || (state.servers.len() >= settings.most && calls < MOST_CALLS) {
                return Ok(Arc::clone(&best.server));
            }
        }
        // A fresh interpreter cannot open it either: the call is told why.
        check_start("script", &self.script).map_err(|_| Cold::Failed)?;
        let started = SystemTime::now();
        let _runtime = settings.runtime.enter();
        match ForkServer::start(&settings.launcher, &self.command, fork::of_scripts().as_bytes()) {
            Ok(server) => {
                settings.counts.starts.inc(FORK);
                state.servers.push(Server { server: Arc::clone(&server), started });
                Ok(server)
            }
            Err(error) => {
                settings.counts.failures.inc(FORK);
                if openskill_log::admits("a fork server was not started") {
                    tracing::warn!(%error, "a fork server could not be started");
                }
                Err(Cold::Failed)
            }
        }
    }

    /// A fork server ended before it started a call.
    fn note_failure(&self) {
        let mut state = lock(&self.state);
        state.failures += 1;
        if state.failures >= MOST_FAILURES {
            let script = self.script.file_name().unwrap_or_default().to_string_lossy();
            tracing::warn!(%script, "the fork servers of this script start no calls: its calls get fresh interpreters for 30 s");
            state.failures = 0;
            state.broken_until = Some(Instant::now() + BREAK);
        }
    }

    /// Whether to build it again: its break after failures is over, and the interpreter or its paths may have changed.
    pub(super) fn needs_rebuild(&self) -> bool {
        lock(&self.state).broken_until.is_some_and(|until| Instant::now() >= until)
    }

    /// Why the last call got a fresh interpreter, if it did.
    pub(super) fn last_cold(&self) -> Option<Cold> {
        lock(&self.state).last
    }

    /// The imports that each call runs again, as far as is known.
    pub(super) fn cold_imports(&self) -> Vec<ColdImport> {
        lock(&self.state).servers.first().map(|it| it.server.cold_imports()).unwrap_or_default()
    }

    /// How many fork servers there are.
    pub(super) fn servers(&self) -> usize {
        lock(&self.state).servers.len()
    }

    /// Retires fork servers that are idle, or whose script or imports changed.
    pub(super) fn tend(&self, settings: &WarmSettings) {
        let mut state = lock(&self.state);
        state.drop_stale(&self.script);
        let changed = |it: &Server| changed_since(it.started, it.server.files().iter().map(PathBuf::as_path));
        state.servers.retain(|it| {
            let kept = it.server.idle_for() < settings.idle && !changed(it);
            if !kept {
                it.server.retire();
            }
            kept
        });
    }

    /// Takes no more calls. The fork servers, which end after their last one.
    pub(super) fn retire(&self) -> Vec<Arc<ForkServer>> {
        let servers: Vec<_> = lock(&self.state).servers.drain(..).map(|it| it.server).collect();
        servers.iter().for_each(|it| it.retire());
        servers
    }
}

impl State {
    /// Drops those that have ended, and those that have an older script.
    fn drop_stale(&mut self, script: &Path) {
        self.servers.retain(|it| {
            let fresh = !changed_since(it.started, [script].into_iter());
            if !fresh {
                it.server.retire();
            }
            fresh && it.server.is_open()
        });
    }
}

/// How a script's fork server is started.
fn server_command(fresh: &Command, script: &Path, fixed: Option<&Path>, jailed: bool) -> Command {
    let args = program_arguments();
    let program = path_text(&fresh.program);
    let argv: Vec<&str> = std::iter::once(program.as_str()).chain(args.iter().map(String::as_str)).collect();
    let mut env = fresh.env.clone();
    let settings = json!({
        "script": path_text(script),
        "skip": [],
        "fixed": fixed.map(path_text),
        "argv": argv,
        "least_idle": LEAST_IDLE,
        "most_idle": MOST_IDLE,
        "most": MOST_CALLS + MOST_IDLE,
        "cpu_seconds": fresh.limits.cpu_seconds,
        "jailed": jailed,
        "writable": fresh.jail.as_ref().and_then(Plan::writable).map(|paths| {
            paths.map(|path| path_text(path)).collect::<Vec<_>>()
        }),
    });
    // Room for the id of the call a child will have, so that the system shows whose process it is.
    env.insert("OPENSKILL_CALL_ID".to_owned(), "-".repeat(CALL_ID_BYTES));
    env.insert("OPENSKILL_FORKSERVER".to_owned(), settings.to_string());
    // Limits of each call, which its process sets itself: the server's own time and children are those of all calls.
    let limits = ProcessLimits { cpu_seconds: u64::MAX, processes: u64::MAX, ..fresh.limits };
    Command { args, env, limits, forks: true, ..fresh.clone() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
