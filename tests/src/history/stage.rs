//! The processes of a scenario, and the store that outlives them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client::Client;
use super::journal::Journal;
use super::plan::Victim;
use super::{Event, journal};
use crate::folder::Folder;
use crate::port::Port;
use crate::postgres::cluster::Cluster;
use crate::system::{PATIENCE, Process, Setup};
use crate::wait::until;
use crate::{fixtures, processes};

/// Where operations are kept.
#[derive(Debug, Clone)]
pub enum Store {
    /// A file, for one gateway at a time.
    Sqlite(PathBuf),
    /// The URL of a database that gateways share.
    Postgres(String),
}

impl Store {
    fn setting(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(url) => url.clone(),
        }
    }
}

/// Which processes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `openskill up` with this number of workers.
    Up { workers: usize },
    /// Gateways, and workers that outlive them.
    Apart { gateways: usize, workers: usize },
}

impl Layout {
    fn gateways(self) -> usize {
        match self {
            Self::Up { .. } => 1,
            Self::Apart { gateways, .. } => gateways,
        }
    }
}

/// For longer than a lease is valid.
const PAUSE: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub struct Stage {
    layout: Layout,
    pub store: Store,
    ports: Vec<Port>,
    /// None if it is not started.
    gateways: Vec<Option<Process>>,
    /// Those that outlive gateways.
    workers: Vec<Process>,
    /// Continue gateways that were stopped.
    paused: JoinSet<()>,
    /// How often a gateway was started.
    starts: watch::Sender<u64>,
    /// The database, if it has standbys.
    cluster: Option<Cluster>,
    pub journal: Journal,
    pub folder: Folder,
}

impl Stage {
    /// Prepares everything, and starts the workers that outlive gateways. Without a store, there is an empty file.
    pub async fn new(layout: Layout, store: Option<Store>) -> Self {
        let folder = Folder::new();
        for name in ["data", "tmp", "store", "sockets"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for name in ["records.py", "records.yaml", "records_idempotent.yaml"] {
            folder.write(&format!("skills/{name}"), std::fs::read(fixtures().join(name)).unwrap());
        }
        let file = || Store::Sqlite(folder.path().join("store/operations.sqlite"));
        let mut stage = Self {
            layout,
            store: store.unwrap_or_else(file),
            ports: (0..layout.gateways()).map(|_| Port::reserve()).collect(),
            gateways: (0..layout.gateways()).map(|_| None).collect(),
            workers: Vec::new(),
            paused: JoinSet::new(),
            starts: watch::Sender::new(0),
            cluster: None,
            journal: Journal::create(&folder.path().join("data")),
            folder,
        };
        if let Layout::Apart { workers, .. } = layout {
            for number in 0..workers {
                let worker = stage.worker(number).await;
                stage.workers.push(worker);
            }
        }
        stage
    }

    /// Prepares everything with the database of a cluster.
    pub async fn with_cluster(layout: Layout, cluster: Cluster) -> Self {
        let stage = Self::new(layout, Some(Store::Postgres(cluster.url()))).await;
        Self { cluster: Some(cluster), ..stage }
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.ports.iter().map(Port::address).collect()
    }

    /// A client that begins with the first gateway.
    pub fn client(&self) -> Client {
        Client::new(&self.addresses(), 0, &self.journal)
    }

    /// How often a gateway was started, and when that changes.
    pub fn starts(&self) -> watch::Receiver<u64> {
        self.starts.subscribe()
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("gateway.log")
    }

    /// Starts all gateways.
    pub async fn start(&mut self) {
        for number in 0..self.gateways.len() {
            self.start_gateway(number).await;
        }
    }

    /// Starts a gateway, and waits until it listens.
    async fn start_gateway(&mut self, number: usize) {
        let (address, log) = (self.ports[number].address(), self.log());
        let setup = self.gateway_setup(number);
        let gateway = self.gateways[number].insert(setup.spawn());
        until("the gateway listens", PATIENCE, || {
            let text = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(!gateway.has_ended(), "it ended:\n{}", text());
            async move { TcpStream::connect(address).await.ok() }
        })
        .await;
        self.starts.send_modify(|it| *it += 1);
    }

    /// Starts the only gateway through another program, and does not wait.
    pub fn spawn_through(&self, command: &[&str]) -> Process {
        self.gateway_setup(0).through(command).spawn()
    }

    fn gateway_setup(&self, number: usize) -> Setup {
        let setup = match self.layout {
            Layout::Up { workers } => {
                Setup::command(&["up"]).flag("--workers", workers).flag("--skills-dir", self.skills())
            }
            Layout::Apart { .. } => {
                let sockets = self.folder.path().join("sockets/*.sock");
                Setup::command(&["gateway"]).flag("--workers", format!("unix:{}", sockets.display()))
            }
        };
        let setup = self.configure(setup.flag("--listen", self.ports[number].address()), "gateway");
        setup.with("OPENSKILL_STORE", self.store.setting())
    }

    /// Starts a worker, and waits until it listens.
    async fn worker(&self, number: usize) -> Process {
        let socket = self.folder.path().join(format!("sockets/w{number}.sock"));
        let setup = Setup::command(&["worker", "--id", &format!("w{number}")]);
        let setup = setup.flag("--listen", format!("unix:{}", socket.display())).flag("--skills-dir", self.skills());
        let worker = self.configure(setup, "worker").spawn();
        until("the worker listens", PATIENCE, || async { UnixStream::connect(&socket).await.ok() }).await;
        worker
    }

    fn configure(&self, setup: Setup, name: &str) -> Setup {
        let path = |name: &str| self.folder.path().join(name);
        setup.data(&path("data")).log_to(&path(&format!("{name}.log"))).with("TMPDIR", path("tmp").display())
    }

    fn skills(&self) -> String {
        self.folder.path().join("skills").display().to_string()
    }

    /// Kills or stops processes, and starts what nobody else starts again.
    pub async fn strike(&mut self, victim: Victim) {
        self.journal.add(&Event::Fault { what: format!("{victim:?} at {}", journal::now_ms()) });
        let pid_of_gateway = |number: usize| self.gateways[number].as_ref().expect("it runs").pid();
        match victim {
            Victim::Gateway(number) => {
                processes::send(pid_of_gateway(number), Signal::KILL);
                self.replace_gateway(number).await;
            }
            Victim::Everything => {
                let gateway = pid_of_gateway(0);
                for pid in std::iter::once(gateway).chain(processes::descendants(gateway)) {
                    processes::send(pid, Signal::KILL);
                }
                self.replace_gateway(0).await;
            }
            Victim::Worker(number) if self.workers.is_empty() => {
                let workers = processes::children(pid_of_gateway(0), "--exit-with-parent");
                if let Some(worker) = workers.get(number % workers.len().max(1)) {
                    processes::send(*worker, Signal::KILL);
                }
            }
            Victim::Worker(number) => {
                processes::send(self.workers[number].pid(), Signal::KILL);
                self.workers[number].ended().await;
                self.workers[number] = self.worker(number).await;
            }
            Victim::Paused(number) => {
                let pid = pid_of_gateway(number);
                processes::send(pid, Signal::STOP);
                self.paused.spawn(async move {
                    tokio::time::sleep(PAUSE).await;
                    processes::send(pid, Signal::CONT);
                });
            }
            Victim::Primary => self.cluster().lose_primary().await,
            Victim::HangingPrimary => self.cluster().replace_hanging_primary().await,
            Victim::PausedPrimary => self.cluster().hang_primary().await,
            Victim::IsolatedPrimary => self.cluster().isolate_primary().await,
        }
    }

    fn cluster(&mut self) -> &mut Cluster {
        self.cluster.as_mut().expect("the database has standbys")
    }

    async fn replace_gateway(&mut self, number: usize) {
        self.gateways[number].as_mut().expect("it runs").ended().await;
        self.start_gateway(number).await;
    }

    /// Waits until no gateway is stopped.
    pub async fn resume(&mut self) {
        while self.paused.join_next().await.is_some() {}
    }

    /// Ends the gateways in order.
    pub async fn stop(&mut self) {
        for gateway in self.gateways.iter_mut().flatten() {
            gateway.terminate();
            gateway.ended().await;
        }
        self.gateways.iter_mut().for_each(|it| *it = None);
    }
}
