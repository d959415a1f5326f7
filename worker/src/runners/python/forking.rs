//! Implements `isolation: fork`: runs as many fork servers for a skill as its load requires.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use openskill_sandbox::forkserver::{ForkRequest, ForkServer, Forked, MOST_CALLS};
use openskill_sandbox::protocol::{ColdImport, Command};
use parking_lot::Mutex;
use serde_json::json;

use super::fork;
use super::freshness::changed_since;
use super::settings::{Cold, FORK, WarmSettings};
use crate::environment::{self, path_text};
use crate::manifest::python::Python as Script;
use crate::runner::{Invocation, RawOutput};
use crate::runners::once::{check_start, input_parts, output, output_of_error};

/// The maximum number of children that wait for a call under load.
const MOST_IDLE: usize = 8;

/// When each fork server has this many calls, another one is started if a core is free.
const CROWDED: usize = 4;

/// If no fork server becomes ready within this time, calls get fresh interpreters.
const SLOW_START: Duration = Duration::from_secs(2);

/// The interval at which a warm-up checks whether a fork server is ready.
const LOOK: Duration = Duration::from_millis(10);

/// How many fork servers may fail to start a call before it gets a fresh interpreter.
const TRIES: usize = 3;

/// After this many consecutive fork servers that started no call, calls get fresh interpreters for the duration of
/// the break.
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
    servers: Vec<WarmServer>,
    /// The number of consecutive fork servers that ended before they started a call.
    failures: u32,
    broken_until: Option<Instant>,
    /// Why the last call got a fresh interpreter. `None` if a fork server ran it.
    last: Option<Cold>,
}

struct WarmServer {
    server: Arc<ForkServer>,
    started: SystemTime,
}

impl Forking {
    /// `fresh`: the command that runs the script in a fresh interpreter, with the parts that all its calls share.
    /// `fixed`: a folder whose files do not change. `jailed`: calls can't send signals to their fork server, if
    /// the kernel supports this.
    pub(super) fn new(fresh: Command, script: &Script, fixed: Option<&Path>, jailed: bool) -> Self {
        let own = [
            ("script", json!(path_text(&script.script))),
            ("function", json!(script.function)),
            ("fixed", json!(fixed.map(path_text))),
        ];
        let command = fork::server_command(fresh, MOST_IDLE, jailed, own);
        Self { command, script: script.script.clone(), state: Mutex::default() }
    }

    /// Starts a fork server if none runs, and waits until it is ready or has ended.
    pub(super) async fn warm_up(&self, settings: &WarmSettings) {
        let started = self.pick(settings);
        if let Ok(server) = &started {
            while server.is_open() && !server.is_ready() {
                tokio::time::sleep(LOOK).await;
            }
        }
        let is_ready = started.as_ref().is_ok_and(|server| server.is_ready());
        self.state.lock().last = started.err().or_else(|| (!is_ready).then_some(Cold::Failed));
    }

    /// Runs a call on a fork server, or returns why it was not started. `processes`: the limit on all processes of
    /// the call's user.
    pub(super) async fn run(
        &self,
        settings: &WarmSettings,
        invocation: &Invocation,
        processes: u64,
    ) -> Result<RawOutput, Cold> {
        let ran = self.try_servers(settings, invocation, processes).await;
        self.state.lock().last = ran.as_ref().err().copied();
        ran
    }

    async fn try_servers(
        &self,
        settings: &WarmSettings,
        invocation: &Invocation,
        processes: u64,
    ) -> Result<RawOutput, Cold> {
        let env: BTreeMap<_, _> = environment::call_variables(invocation).collect();
        let Invocation { input, events, slot, .. } = invocation;
        for _ in 0..TRIES {
            let server = self.pick(settings)?;
            let request = ForkRequest { env: &env, processes, nice: slot.nice() };
            match server.run(request, &input_parts(input), events, slot.clone()).await {
                Forked::Ran(ran) => {
                    self.state.lock().failures = 0;
                    return Ok(ran.map_or_else(|error| output_of_error(&error), output));
                }
                Forked::NotStarted => {
                    settings.counts.failures.inc(FORK);
                    self.note_failure();
                }
            }
        }
        Err(Cold::Failed)
    }

    /// Returns the fork server with the fewest calls, or starts another if all are busy.
    fn pick(&self, settings: &WarmSettings) -> Result<Arc<ForkServer>, Cold> {
        let mut state = self.state.lock();
        if state.broken_until.is_some_and(|until| Instant::now() < until) {
            return Err(Cold::Paused);
        }
        state.drop_stale(&self.script);
        let waits = |it: &&WarmServer| it.started.elapsed().is_ok_and(|since| since > SLOW_START);
        if !state.servers.iter().any(|it| it.server.is_ready()) && state.servers.iter().any(|it| waits(&it)) {
            // Its imports are slow. A fresh interpreter is faster than waiting.
            return Err(Cold::Starting);
        }
        // Prefer ready fork servers, then the one with the fewest calls.
        let best = state.servers.iter().min_by_key(|it| (!it.server.is_ready(), it.server.in_flight()));
        if let Some(best) = best {
            let calls = best.server.in_flight();
            if calls < CROWDED || (state.servers.len() >= settings.most && calls < MOST_CALLS) {
                return Ok(Arc::clone(&best.server));
            }
        }
        // A fresh interpreter can't open the script either, and reports that error.
        check_start("script", &self.script).map_err(|_| Cold::Failed)?;
        let started = SystemTime::now();
        let _runtime = settings.runtime.enter();
        match ForkServer::start(&settings.launcher, &self.command, fork::scripts_program().as_bytes()) {
            Ok(server) => {
                settings.counts.starts.inc(FORK);
                state.servers.push(WarmServer { server: Arc::clone(&server), started });
                Ok(server)
            }
            Err(error) => {
                settings.counts.failures.inc(FORK);
                if openskill_telemetry::log::admits("a fork server was not started") {
                    tracing::warn!(%error, "a fork server could not be started");
                }
                Err(Cold::Failed)
            }
        }
    }

    /// Records that a fork server ended before it started a call.
    fn note_failure(&self) {
        let mut state = self.state.lock();
        state.failures += 1;
        if state.failures >= MOST_FAILURES {
            let script = self.script.file_name().unwrap_or_default().to_string_lossy();
            tracing::warn!(%script, "the fork servers of this script do not start calls: its calls get fresh interpreters for 30 s");
            state.failures = 0;
            state.broken_until = Some(Instant::now() + BREAK);
        }
    }

    /// Returns whether to rebuild this pool, because the pause after failures is over and the interpreter or its
    /// paths may have changed.
    pub(super) fn needs_rebuild(&self) -> bool {
        self.state.lock().broken_until.is_some_and(|until| Instant::now() >= until)
    }

    /// Returns why the last call got a fresh interpreter, or `None` if a fork server ran it.
    pub(super) fn last_cold(&self) -> Option<Cold> {
        self.state.lock().last
    }

    /// Returns the imports that each call repeats, as far as they are known.
    pub(super) fn cold_imports(&self) -> Vec<ColdImport> {
        self.state.lock().servers.first().map(|it| it.server.cold_imports()).unwrap_or_default()
    }

    /// Returns the number of fork servers.
    pub(super) fn servers(&self) -> usize {
        self.state.lock().servers.len()
    }

    /// Retires fork servers that are idle, or whose script or imports changed.
    pub(super) fn maintain(&self, settings: &WarmSettings) {
        let mut state = self.state.lock();
        state.drop_stale(&self.script);
        let changed = |it: &WarmServer| changed_since(it.started, it.server.files().iter().map(PathBuf::as_path));
        state.servers.retain(|it| {
            let kept = it.server.idle_for() < settings.idle && !changed(it);
            if !kept {
                it.server.retire();
            }
            kept
        });
    }

    /// Stops accepting calls. Returns the fork servers, which end after their last calls.
    pub(super) fn retire(&self) -> Vec<Arc<ForkServer>> {
        let servers: Vec<_> = self.state.lock().servers.drain(..).map(|it| it.server).collect();
        servers.iter().for_each(|it| it.retire());
        servers
    }
}

impl State {
    /// Removes fork servers that have ended or that loaded an older version of the script.
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
