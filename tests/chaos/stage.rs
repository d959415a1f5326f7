//! A gateway and four workers, each a process that can be killed, stopped and restarted.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::v1::{ListWorkersRequest, WorkerInfo, WorkerStatus};
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Process, Setup};
use openskill_tests::wait::until;
use rustix::process::Signal;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Mutex, MutexGuard};

use crate::link::Link;
use crate::skills;

pub(crate) const WORKERS: usize = 4;

/// How long the gateway may take to list its workers.
const ASKED: Duration = Duration::from_secs(1);

type Environment = Vec<(String, String)>;

/// The environments of the processes.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    gateway: Environment,
    workers: [Environment; WORKERS],
}

impl Plan {
    /// Without circuit breakers, which would open when faults are injected.
    pub(crate) fn without_circuits() -> Self {
        Self::default().gateway("CIRCUIT_FAILURE_THRESHOLD", 0).gateway("OPENSKILL_CIRCUIT_MINIMUM_CALLS", 0)
    }

    #[must_use]
    fn gateway(mut self, name: &str, value: impl ToString) -> Self {
        self.gateway.push((name.to_owned(), value.to_string()));
        self
    }

    /// Log refused calls as operators do: a few lines a second. The log is then no witness of every call.
    #[must_use]
    pub(crate) fn sampled_log(self) -> Self {
        self.gateway("OPENSKILL_LOG_REFUSALS", 10).workers("OPENSKILL_LOG_REFUSALS", 10)
    }

    /// For all workers.
    #[must_use]
    pub(crate) fn workers(mut self, name: &str, value: impl ToString) -> Self {
        for worker in &mut self.workers {
            worker.push((name.to_owned(), value.to_string()));
        }
        self
    }

    /// For one.
    #[must_use]
    pub(crate) fn worker(mut self, number: usize, name: &str, value: impl ToString) -> Self {
        self.workers[number].push((name.to_owned(), value.to_string()));
        self
    }
}

#[derive(Debug)]
pub(crate) struct Stage {
    // The processes come first: they end before the folder is removed.
    gateway: Mutex<Process>,
    workers: Vec<Mutex<Process>>,
    plan: Plan,
    pub(crate) address: SocketAddr,
    /// Held while the gateway is restarted.
    _port: Port,
    admin: Arc<Link>,
    pub(crate) folder: Folder,
}

impl Stage {
    /// Starts everything and waits until all workers are up.
    pub(crate) async fn start(plan: Plan) -> Arc<Self> {
        let folder = Folder::new();
        for name in ["data", "sockets", "tmp"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("a temporary folder can be written to");
        }
        skills::write(&folder);
        folder.write(&format!("data/{}", skills::EFFECTS), "");
        let port = Port::reserve();
        let address = port.address();
        let workers = (0..WORKERS).map(|number| Mutex::new(worker(&folder, &plan, number))).collect();
        let gateway = Mutex::new(gateway(&folder, &plan, address));
        let stage = Arc::new(Self { gateway, workers, plan, address, _port: port, admin: Link::new(address), folder });
        stage.wait_until_up(WORKERS).await;
        stage
    }

    pub(crate) fn links(&self, count: usize) -> Vec<Arc<Link>> {
        (0..count).map(|_| Link::new(self.address)).collect()
    }

    pub(crate) fn gateway_log(&self) -> PathBuf {
        self.folder.path().join("gateway.log")
    }

    /// The call id of each effect so far.
    pub(crate) fn effects(&self) -> Vec<String> {
        let file = self.folder.path().join("data").join(skills::EFFECTS);
        std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// The workers as the gateway lists them; none while it does not answer.
    pub(crate) async fn known_workers(&self) -> Vec<WorkerInfo> {
        let mut admin = self.admin.admin();
        match tokio::time::timeout(ASKED, admin.list_workers(ListWorkersRequest {})).await {
            Ok(Ok(answer)) => answer.into_inner().workers,
            _ => Vec::new(),
        }
    }

    /// The numbers of the workers that take calls.
    pub(crate) async fn up(&self) -> BTreeSet<usize> {
        let known = self.known_workers().await;
        let up = known.iter().filter(|worker| worker.status() == WorkerStatus::Up);
        up.filter_map(|worker| number_of(&worker.worker_id)).collect()
    }

    pub(crate) async fn wait_until_up(&self, count: usize) {
        let what = format!("{count} workers are up");
        until(&what, PATIENCE, || async { (self.up().await.len() >= count).then_some(()) }).await;
    }

    /// Signals a worker. Nothing happens if it has ended.
    pub(crate) async fn signal(&self, number: usize, signal: Signal) {
        signal_to(&mut *self.workers[number].lock().await, signal);
    }

    /// Restarts a worker, and waits until it listens.
    pub(crate) async fn replace_worker(&self, number: usize, signal: Signal) -> ExitStatus {
        let mut slot = self.workers[number].lock().await;
        signal_to(&mut slot, signal);
        let status = slot.ended().await;
        self.start_worker(number, &mut slot).await;
        status
    }

    /// Restarts workers that ended by themselves, and counts them.
    pub(crate) async fn revive(&self) -> usize {
        let mut found = 0;
        for (number, slot) in self.workers.iter().enumerate() {
            // A locked worker is being replaced.
            if let Ok(mut slot) = slot.try_lock()
                && slot.has_ended()
            {
                self.start_worker(number, &mut slot).await;
                found += 1;
            }
        }
        found
    }

    async fn start_worker(&self, number: usize, slot: &mut MutexGuard<'_, Process>) {
        **slot = worker(&self.folder, &self.plan, number);
        let socket = socket(&self.folder, number);
        let begun = Instant::now();
        while UnixStream::connect(&socket).await.is_err() {
            // The log tells why.
            assert!(begun.elapsed() < PATIENCE, "worker {number} does not listen:\n{}", slot.log.text());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Restarts the gateway on the same port, and waits until it listens.
    pub(crate) async fn replace_gateway(&self, signal: Signal) -> ExitStatus {
        let mut slot = self.gateway.lock().await;
        signal_to(&mut slot, signal);
        let status = slot.ended().await;
        *slot = gateway(&self.folder, &self.plan, self.address);
        until("the gateway listens", PATIENCE, || async { TcpStream::connect(self.address).await.ok() }).await;
        status
    }

    /// The gateway's process id, then the workers'.
    pub(crate) async fn pids(&self) -> Vec<i32> {
        let mut pids = vec![self.gateway.lock().await.pid()];
        for worker in &self.workers {
            pids.push(worker.lock().await.pid());
        }
        pids
    }

    /// Closes the stage's own connection.
    pub(crate) fn close(&self) {
        self.admin.close();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A stopped process does not handle SIGTERM. All are signalled at once, and then waited for one by one.
        let processes = self.workers.iter_mut().chain(std::iter::once(&mut self.gateway)).map(Mutex::get_mut);
        for process in processes {
            signal_to(process, Signal::CONT);
            signal_to(process, Signal::TERM);
        }
    }
}

fn signal_to(process: &mut Process, signal: Signal) {
    if !process.has_ended() {
        processes::send(process.pid(), signal);
    }
}

fn number_of(worker: &str) -> Option<usize> {
    worker.strip_prefix('w')?.parse().ok()
}

/// The id of worker `number`.
pub(crate) fn worker_id(number: usize) -> String {
    format!("w{number}")
}

fn socket(folder: &Folder, number: usize) -> PathBuf {
    folder.path().join(format!("sockets/{}.sock", worker_id(number)))
}

fn worker(folder: &Folder, plan: &Plan, number: usize) -> Process {
    let id = worker_id(number);
    let setup = Setup::command(&["worker", "--id", &id])
        .flag("--listen", format!("unix:{}", socket(folder, number).display()))
        .flag("--skills-dir", folder.path().join("skills").display());
    spawn(setup, folder, &id, &plan.workers[number])
}

fn gateway(folder: &Folder, plan: &Plan, address: SocketAddr) -> Process {
    let setup = Setup::command(&["gateway"])
        .flag("--listen", address)
        .flag("--workers", format!("unix:{}/sockets/*.sock", folder.path().display()));
    spawn(setup, folder, "gateway", &plan.gateway)
}

fn spawn(setup: Setup, folder: &Folder, name: &str, environment: &Environment) -> Process {
    let setup = setup
        .data(&folder.path().join("data"))
        .log_to(&folder.path().join(format!("{name}.log")))
        .with("OPENSKILL_LOG_FORMAT", "json")
        // The log is a witness of every call.
        .with("OPENSKILL_LOG_REFUSALS", 0)
        .with("TMPDIR", folder.path().join("tmp").display());
    environment.iter().fold(setup, |setup, (name, value)| setup.with(name, value)).spawn()
}
