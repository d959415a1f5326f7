//! `openskill up`: a gateway in this process, and worker processes on unix sockets, started again when they die.
//!
//! The end goes the other way round: the gateway finishes its calls, then the workers are told to.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_gateway::config::Source;
use openskill_worker::process::strays::{Strays, is_stopped};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::args::Up;
use crate::exit::Failure;
use crate::settings::{Raw, Settings, names};
use crate::terminal::say;

/// Between the end of a worker and its next start: at first, and at most. One that lived for the most starts afresh.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How often workers and strays are looked at, and after how many looks a stopped worker is given up.
const LOOK: Duration = Duration::from_millis(500);
const STUCK_AFTER: u32 = 3;

/// How much longer than its own drain a worker is waited for.
const SLACK: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &Up, settings: &Settings, raw: &Raw, started: Instant) -> Result<ExitCode, Failure> {
    // What the workers need is checked before the first of them starts.
    super::worker_config(settings, raw)?;
    super::run(settings, "gateway", |shutdown| async move {
        let listeners = super::gateway::bind(settings, settings.shards.unwrap_or(1))?;
        let address = listeners.first().and_then(|it| it.local_addr().ok()).unwrap_or(settings.listen);
        let folder = SocketFolder::make()?;
        let sockets: Vec<PathBuf> = (1..=args.workers).map(|it| folder.0.join(format!("worker-{it}.sock"))).collect();
        let stop_workers = CancellationToken::new();
        // A skill that kills its worker and its supervisor makes its orphans ours.
        let strays = Strays::adopt().map_err(Failure::system("becoming the parent of orphans"))?;
        let strays = Arc::new(strays.of_workers());
        let sweeping = AbortOnDropHandle::new(tokio::spawn(sweep(Arc::clone(&strays))));
        let mut workers = JoinSet::new();
        for (number, socket) in sockets.iter().enumerate() {
            let command = command(&format!("worker-{}", number + 1), socket, settings, raw);
            let keeper = Keeper { number: number + 1, drain: settings.drain_timeout, strays: Arc::clone(&strays) };
            workers.spawn(keeper.keep(command, stop_workers.clone()));
        }
        let config = openskill_gateway::Config {
            workers: sockets.into_iter().map(Source::Unix).collect(),
            ..super::gateway_config(settings)
        };
        let ready = move |ready| announce(address, ready, started);
        let ended = openskill_gateway::run(config, listeners, None, args.workers.into(), ready, shutdown).await;
        stop_workers.cancel();
        while workers.join_next().await.is_some() {}
        drop(sweeping);
        let _ = tokio::task::spawn_blocking(move || strays.sweep()).await;
        ended.map_err(Failure::system("running the gateway"))
    })
}

fn command(id: &str, socket: &Path, settings: &Settings, raw: &Raw) -> Command {
    let mut command = Command::new(super::OWN_BINARY);
    command
        .arg0("openskill")
        .args(["worker", "--exit-with-parent", &std::process::id().to_string(), "--id", id, "--listen"])
        .arg(format!("unix:{}", socket.display()))
        // Flags of `up` reach the workers as environment.
        .envs(raw.given())
        .env(names::SHARDS, settings.shards.unwrap_or(1).to_string())
        .stdin(Stdio::null())
        // Ctrl-C in a terminal is for this process alone; it ends the workers in order.
        .process_group(0);
    command
}

/// What keeps one worker running.
struct Keeper {
    number: usize,
    drain: Duration,
    strays: Arc<Strays>,
}

impl Keeper {
    /// Starts the worker again and again until `stop`, then drains it.
    async fn keep(self, mut command: Command, stop: CancellationToken) {
        let mut back_off = BACK_OFF.0;
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
                        status = ended_or_stuck(&mut child) => {
                            self.strays.ended(pid);
                            tracing::warn!(worker = self.number, status, "a worker ended and is started again");
                        }
                        () = stop.cancelled() => return end(child, self.drain + SLACK).await,
                    }
                }
                Err(error) => tracing::error!(worker = self.number, %error, "a worker could not be started"),
            }
            back_off = if begun.elapsed() > BACK_OFF.1 { BACK_OFF.0 } else { (back_off * 2).min(BACK_OFF.1) };
            tokio::select! {
                () = tokio::time::sleep(back_off) => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

/// Waits for a worker's end. One that stays stopped (SIGSTOP) serves nobody and watches over nothing: it is killed.
async fn ended_or_stuck(child: &mut Child) -> String {
    let pid = child.id().unwrap_or_default();
    let mut stopped = 0;
    loop {
        tokio::select! {
            status = child.wait() => return status.map(|it| it.to_string()).unwrap_or_default(),
            () = tokio::time::sleep(LOOK) => {}
        }
        stopped = if is_stopped(pid) { stopped + 1 } else { 0 };
        if stopped == STUCK_AFTER {
            tracing::warn!(pid, "a worker was stopped and is killed");
            let _ = child.start_kill();
        }
    }
}

/// Ends what skills left behind that killed their worker.
async fn sweep(strays: Arc<Strays>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let strays = Arc::clone(&strays);
        if let Ok(found @ 1..) = tokio::task::spawn_blocking(move || strays.look()).await {
            tracing::warn!(found, "killed processes that had escaped their worker");
        }
    }
}

async fn end(mut child: Child, patience: Duration) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid as i32)) {
        let _ = kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(patience, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// A folder for the sockets, this user's alone, gone with this process.
struct SocketFolder(PathBuf);

impl SocketFolder {
    fn make() -> Result<Self, Failure> {
        let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|it| it.is_dir());
        let base = base.unwrap_or_else(std::env::temp_dir);
        remove_stale(&base);
        let path = base.join(format!("openskill-{}", std::process::id()));
        // Left by a killed process that had the same id: ours now, if it is ours.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(Failure::system(format!("making the folder {}", path.display())))?;
        Ok(Self(path))
    }
}

/// Removes what killed processes left: the folders whose process is no more. Others' folders can't be removed, nor need be.
fn remove_stale(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.strip_prefix("openskill-")?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn announce(address: std::net::SocketAddr, ready: openskill_gateway::Ready, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    let binary = std::env::args().next().unwrap_or_else(|| "openskill".to_owned());
    let url = format!("http://{address}");
    let at = if address.port() == 8000 { String::new() } else { format!(" --url {url}") };
    say(&format!(
        "\nopenskill is ready in {seconds:.2} s: {url}, {} workers, {} skills\n\n\
         Try, in another terminal:\n\
         \x20 curl -s {url}/skills/echo:invoke -d '{{\"input\": {{\"text\": \"hello\"}}}}'\n\
         \x20 {binary} skills{at}\n\
         \x20 {binary} invoke calculator numbers='[10.5, 9.9, 11.2]' ops='[\"mean\", \"max\"]'{at}\n\
         \x20 grpcurl -plaintext {address} list\n\n\
         In a browser: {url}/docs        Stop: Ctrl-C\n\n",
        ready.workers, ready.skills,
    ));
}
