//! `openskill up`: a gateway in this process, and worker processes on unix sockets, started again when they die.
//!
//! The end goes the other way round: the gateway finishes its calls, then the workers are told to.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use openskill_gateway::config::Source;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Up;
use crate::exit::Failure;
use crate::settings::{Raw, Settings, names};
use crate::terminal::say;

/// Between the end of a worker and its next start: at first, and at most. One that lived for the most starts afresh.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

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
        let mut workers = JoinSet::new();
        for (number, socket) in sockets.iter().enumerate() {
            let command = command(&format!("worker-{}", number + 1), socket, settings, raw);
            workers.spawn(keep(command, number + 1, settings.drain_timeout, stop_workers.clone()));
        }
        let config = openskill_gateway::Config {
            workers: sockets.into_iter().map(Source::Unix).collect(),
            ..super::gateway_config(settings)
        };
        let ready = move |ready| announce(address, ready, started);
        let ended = openskill_gateway::run(config, listeners, args.workers.into(), ready, shutdown).await;
        stop_workers.cancel();
        while workers.join_next().await.is_some() {}
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

/// Keeps one worker running until `stop`, then drains it.
async fn keep(mut command: Command, number: usize, drain: Duration, stop: CancellationToken) {
    let mut back_off = BACK_OFF.0;
    loop {
        let begun = Instant::now();
        match command.spawn() {
            Ok(mut child) => {
                tokio::select! {
                    status = child.wait() => {
                        let status = status.map(|it| it.to_string()).unwrap_or_default();
                        tracing::warn!(worker = number, %status, "a worker ended and is started again");
                    }
                    () = stop.cancelled() => return end(child, drain + SLACK).await,
                }
            }
            Err(error) => tracing::error!(worker = number, %error, "a worker could not be started"),
        }
        back_off = if begun.elapsed() > BACK_OFF.1 { BACK_OFF.0 } else { (back_off * 2).min(BACK_OFF.1) };
        tokio::select! {
            () = tokio::time::sleep(back_off) => {}
            () = stop.cancelled() => return,
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
