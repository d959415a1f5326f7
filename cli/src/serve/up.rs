//! `openskill up`: a gateway in this process, and worker processes on Unix sockets that restart after an exit.
//!
//! On shutdown the gateway drains first, then the workers.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_gateway::Config;
use openskill_gateway::config::Source;
use openskill_sandbox::strays::{Strays, is_stopped};
use openskill_store::Location;
use openskill_telemetry::log::STDERR;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::args::UpArgs;
use crate::exit::Failure;
use crate::settings::names::is_credential;
use crate::settings::{McpFiles, OWN_BINARY, Origin, RawSettings, Settings, paths, project};
use crate::terminal::{pluralize, print_err, print_out, program};

mod banner;

use banner::ConnectionInfo;

/// The initial and maximum backoff before a worker restarts. It resets once a worker has run for the maximum.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// The interval between checks for stopped workers and orphans, and the number of checks after which a stopped
/// worker is killed.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
const STUCK_AFTER: u32 = 3;

/// The extra time a worker has to exit after its drain timeout. Exporting its last spans may take two seconds.
const EXIT_GRACE: Duration = Duration::from_secs(3);

pub(crate) fn run(args: &UpArgs, settings: &Settings, raw: &RawSettings, started: Instant) -> Result<(), Failure> {
    let (scheme, base_url) = (settings.tls.scheme(), settings.base_url.clone());
    let (identity, tls) = (super::gateway::identity(settings, raw)?, settings.tls.acceptor(raw)?);
    let own = Config { identity, tls, ..settings.gateway.clone() };
    let (asks_keys, asks_certificates) = (own.identity.is_some(), !raw.value("OPENSKILL_TLS_CLIENT_CA").is_empty());
    // Use an absolute path, because the user may type the command in another directory.
    let ca = match raw.value("OPENSKILL_CA") {
        "" => String::new(),
        ca => std::path::absolute(ca).map_or_else(|_| ca.to_owned(), |it| it.to_string_lossy().into_owned()),
    };
    let ready = move |address, ready| {
        let url = format!("{scheme}://{address}");
        announce(&ConnectionInfo { url, base_url, asks_keys, asks_certificates, ca }, &ready, started);
    };
    serve(args.workers, settings, raw, own, ready, async |_| std::future::pending().await)
}

/// Like [`run`], but with one worker for one client on this machine, in plain text and without authentication, until
/// `client` ends. `client` receives the gateway's address once the gateway is ready. Nothing is written to stdout.
pub(crate) fn run_for(
    settings: &Settings,
    raw: &RawSettings,
    client: impl AsyncFnOnce(SocketAddr) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (sender, receiver) = oneshot::channel();
    let ready = move |_, _| {
        // Fails if the client is gone and needs no gateway.
        let _ = sender.send(());
    };
    serve(1, settings, raw, settings.gateway.clone(), ready, async move |address| {
        let _ = receiver.await;
        client(address).await
    })
}

fn serve(
    workers_wanted: u16,
    settings: &Settings,
    raw: &RawSettings,
    mut own: Config,
    ready: impl FnOnce(SocketAddr, openskill_gateway::Ready) + Send + 'static,
    client: impl AsyncFnOnce(SocketAddr) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Report invalid settings once here instead of in each worker.
    super::worker::config(settings, raw)?;
    let metrics = worker_metrics(settings, workers_wanted)?;
    let McpFiles { secret: mcp_secret, views: mcp_views } = McpFiles::read(raw)?;
    let state = state_folder(raw);
    let agent = super::agent::setup(settings, raw, state.as_ref().map(|it| it.join("conversations.sqlite")))?;
    let is_kept_by_default = settings.recorder.store.as_ref().is_some_and(|it| it.is_default);
    if let Some(state) = state.as_ref().filter(|_| is_kept_by_default && raw.project().is_some()) {
        mention_state_of_user(state);
    }
    super::run(settings, "gateway", async move |shutdown, tracer| {
        let listeners = super::gateway::bind(settings, settings.shards.unwrap_or(1))?;
        let admin = super::gateway::bind_admin(settings)?;
        let address = listeners.first().and_then(|it| it.local_addr().ok()).unwrap_or(settings.listen);
        let folder = SocketDir::make()?;
        let sockets: Vec<PathBuf> = (1..=workers_wanted).map(|it| folder.0.join(format!("worker-{it}.sock"))).collect();
        let stop_workers = CancellationToken::new();
        // If a skill kills its worker and its supervisor, this process inherits their orphans.
        let strays = Strays::adopt().map_err(Failure::system("becoming the reaper of orphaned processes"))?;
        let strays = Arc::new(strays.for_workers());
        let sweeping = AbortOnDropHandle::new(tokio::spawn(sweep(Arc::clone(&strays))));
        let mut workers = JoinSet::new();
        for (number, socket) in sockets.iter().enumerate() {
            let mut command = command(&format!("worker-{}", number + 1), socket, settings, raw);
            if is_development(raw) {
                command.env("OPENSKILL_LOG", format!("info,{STDERR}=debug"));
            }
            if let Some(address) = metrics.get(number) {
                command.env("OPENSKILL_WORKER_METRICS_LISTEN", address.to_string());
            }
            let (drain, strays) = (settings.gateway.drain_timeout, Arc::clone(&strays));
            let restarter = WorkerRestarter { number: number + 1, drain, strays };
            workers.spawn(restarter.run(command, stop_workers.clone()));
        }
        let recorder = super::recorder_config(settings, address, state.as_ref().map(|it| it.join("traces")));
        if raw.given("OPENSKILL_TRAFFIC_FILE").is_none() {
            own.traffic_file = state.as_ref().map(|it| it.join("traffic.json"));
        }
        if own.operations.is_default {
            own.operations.store = state.map(|it| Location::File(it.join("operations.sqlite")));
        }
        let config = Config {
            workers: sockets.into_iter().map(Source::Unix).collect(),
            // No load balancer needs time to notice the shutdown, and a user may be waiting for the exit.
            lame_duck: raw.given("OPENSKILL_LAME_DUCK_MS").map_or(Duration::ZERO, |_| settings.gateway.lame_duck),
            mcp_secret,
            mcp_views,
            recorder,
            agent,
            tracer,
            ..own
        };
        let ready = move |now| ready(address, now);
        let stop = shutdown.clone();
        let running = openskill_gateway::run(config, listeners, admin, workers_wanted.into(), ready, shutdown);
        let mut running = pin!(running);
        let (ended, client) = tokio::select! {
            ended = &mut running => (ended, Ok(())),
            client = client(address) => {
                stop.cancel();
                (running.await, client)
            }
        };
        stop_workers.cancel();
        while workers.join_next().await.is_some() {}
        drop(sweeping);
        let _ = tokio::task::spawn_blocking(move || strays.sweep()).await;
        ended.map_err(Failure::system("running the gateway"))?;
        client
    })
}

/// Whether a person watches this process and chose no log level. Then the log shows what skills write to stderr.
fn is_development(raw: &RawSettings) -> bool {
    let is_chosen = |name| raw.origin(name) != Origin::Default;
    std::io::stdout().is_terminal()
        && std::io::stderr().is_terminal()
        && !is_chosen("OPENSKILL_LOG")
        && !is_chosen("OPENSKILL_DEBUG")
}

/// Returns the default directory for recorded calls, conversations and tasks: that of the project. Without a project,
/// that of the user.
pub(crate) fn state_folder(raw: &RawSettings) -> Option<PathBuf> {
    let state = paths::user_folder("XDG_STATE_HOME", ".local/state")?.join("openskill");
    Some(raw.project().map_or_else(|| state.clone(), |project| project.state_folder(&state)))
}

/// When a project gets its directory, says where calls and conversations are that were kept for the user.
fn mention_state_of_user(state: &Path) {
    let Some(user) = state.ancestors().nth(2).filter(|_| !state.exists()) else { return };
    if user.join("traces").exists() || user.join("conversations.sqlite").exists() {
        let (user, state) = (user.display(), state.display());
        print_err(&format!(
            "openskill: calls and conversations of this project are now kept in {state}; those before it had its own \
             directory are in {user}\n"
        ));
    }
}

/// Assigns each worker a metrics address: consecutive ports, starting at the configured one. With port 0, each
/// worker uses any free port.
fn worker_metrics(settings: &Settings, workers: u16) -> Result<Vec<SocketAddr>, Failure> {
    let Some(first) = settings.worker.metrics_listen else { return Ok(Vec::new()) };
    let port = |number: u16| if first.port() == 0 { Some(0) } else { first.port().checked_add(number) };
    let address = |number| port(number).map(|port| SocketAddr::new(first.ip(), port));
    (0..workers).map(address).collect::<Option<_>>().ok_or_else(|| {
        let name = "OPENSKILL_WORKER_METRICS_LISTEN";
        Failure::Usage(format!("{name}: {workers} workers need one port each, but too few ports follow {first}"))
    })
}

fn command(id: &str, socket: &Path, settings: &Settings, raw: &RawSettings) -> Command {
    let mut command = Command::new(OWN_BINARY);
    command
        .arg0("openskill")
        .args(["worker", "--exit-with-parent", &std::process::id().to_string(), "--id", id, "--listen"])
        .arg(format!("unix:{}", socket.display()))
        // Flags of `up` reach the workers through the environment.
        .envs(raw.explicit_values().filter(|(name, _)| !is_credential(name)))
        // A flag may name the project, whose `.env` the workers read themselves.
        .envs(raw.project().map(|it| (project::VARIABLE, &it.file)))
        .env("OPENSKILL_SHARDS", settings.shards.unwrap_or(1).to_string())
        .stdin(Stdio::null())
        // Ctrl-C in a terminal must signal only this process, which then drains the workers.
        .process_group(0);
    command
}

struct WorkerRestarter {
    number: usize,
    drain: Duration,
    strays: Arc<Strays>,
}

impl WorkerRestarter {
    /// Restarts the worker whenever it exits, until `stop`. Then drains it.
    async fn run(self, mut command: Command, stop: CancellationToken) {
        let mut backoff = BACKOFF.0;
        loop {
            let begun = Instant::now();
            let started = self.strays.start(|| {
                let child = command.spawn()?;
                let pid = child.id();
                Ok((child, pid))
            });
            match started {
                Ok(mut child) => {
                    let pid = child.id().unwrap_or_default();
                    tokio::select! {
                        status = exited_or_stopped(&mut child) => {
                            self.strays.forget(pid);
                            tracing::warn!(worker = self.number, status, "worker exited; restarting it");
                        }
                        () = stop.cancelled() => return end(child, self.drain + EXIT_GRACE).await,
                    }
                }
                Err(error) => tracing::error!(worker = self.number, %error, "could not start worker"),
            }
            backoff = if begun.elapsed() > BACKOFF.1 { BACKOFF.0 } else { (backoff * 2).min(BACKOFF.1) };
            tokio::select! {
                () = tokio::time::sleep(backoff) => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

/// Waits for a worker to exit. Kills a worker that stays stopped (SIGSTOP), because it neither serves calls nor
/// supervises skills.
async fn exited_or_stopped(child: &mut Child) -> String {
    let pid = child.id().unwrap_or_default();
    let mut stopped = 0;
    loop {
        tokio::select! {
            status = child.wait() => return status.map(|it| it.to_string()).unwrap_or_default(),
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
        stopped = if is_stopped(pid) { stopped + 1 } else { 0 };
        if stopped == STUCK_AFTER {
            tracing::warn!(pid, "worker is stopped; killing it");
            let _ = child.start_kill();
        }
    }
}

/// Periodically kills orphaned processes of skills whose worker was killed.
async fn sweep(strays: Arc<Strays>) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let strays = Arc::clone(&strays);
        if let Ok(found @ 1..) = tokio::task::spawn_blocking(move || strays.look()).await {
            tracing::warn!(found, "killed orphaned skill processes");
        }
    }
}

async fn end(mut child: Child, timeout: Duration) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid as i32)) {
        let _ = kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(timeout, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// A private directory for the sockets. It is removed when this process exits.
struct SocketDir(PathBuf);

impl SocketDir {
    fn make() -> Result<Self, Failure> {
        let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|it| it.is_dir());
        let base = base.unwrap_or_else(std::env::temp_dir);
        remove_stale(&base);
        let path = base.join(format!("openskill-{}", std::process::id()));
        // A killed process with the same id may have left this directory.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(Failure::system(format!("creating the directory {}", path.display())))?;
        Ok(Self(path))
    }
}

/// Removes the directories of killed processes. Directories of other users cannot be removed and remain.
fn remove_stale(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.strip_prefix("openskill-")?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn announce(info: &ConnectionInfo, ready: &openskill_gateway::Ready, started: Instant) {
    let docs = format!("{}/docs{}", info.url, if info.asks_keys { " (with the authorization header)" } else { "" });
    let url = &info.url;
    let seconds = started.elapsed().as_secs_f64();
    let (workers, skills) = (pluralize(ready.workers, "worker"), pluralize(ready.skills, "skill"));
    print_out(&format!(
        "\nopenskill is ready in {seconds:.2} s: {url}, {workers}, {skills}\n{}\n\
         API documentation: {docs}        Stop: Ctrl-C\n\n",
        banner::advice(info, ready, &program()),
    ));
}
