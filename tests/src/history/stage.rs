//! The processes of a scenario, and the store that outlives them.

use std::net::SocketAddr;
use std::path::PathBuf;

use rustix::process::Signal;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use super::client::Client;
use super::journal::Journal;
use super::plan::Victim;
use super::{Event, journal};
use crate::folder::Folder;
use crate::port::Port;
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
    /// A gateway, and a worker that outlives it.
    Apart,
}

#[derive(Debug)]
pub struct Stage {
    layout: Layout,
    pub store: Store,
    port: Port,
    /// None until it is started.
    gateway: Option<Process>,
    worker: Option<Process>,
    /// How often a gateway was started.
    starts: watch::Sender<u64>,
    pub journal: Journal,
    pub folder: Folder,
}

impl Stage {
    /// Prepares everything, and starts the worker that outlives gateways.
    pub async fn new(layout: Layout) -> Self {
        let folder = Folder::new();
        for name in ["data", "tmp", "store"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for name in ["records.py", "records.yaml", "records_idempotent.yaml"] {
            folder.write(&format!("skills/{name}"), std::fs::read(fixtures().join(name)).unwrap());
        }
        let mut stage = Self {
            layout,
            store: Store::Sqlite(folder.path().join("store/operations.sqlite")),
            port: Port::reserve(),
            gateway: None,
            worker: None,
            starts: watch::Sender::new(0),
            journal: Journal::create(&folder.path().join("data")),
            folder,
        };
        if layout == Layout::Apart {
            let socket = stage.socket();
            let listen = format!("unix:{}", socket.display());
            let setup = Setup::command(&["worker", "--listen", &listen]);
            stage.worker = Some(stage.configure(setup.flag("--skills-dir", stage.skills()), "worker").spawn());
            until("the worker listens", PATIENCE, || async { UnixStream::connect(&socket).await.ok() }).await;
        }
        stage
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    pub fn client(&self) -> Client {
        Client::new(self.address(), &self.journal)
    }

    /// How often a gateway was started, and when that changes.
    pub fn starts(&self) -> watch::Receiver<u64> {
        self.starts.subscribe()
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("gateway.log")
    }

    /// Starts a gateway, and waits until it listens.
    pub async fn start(&mut self) {
        let (address, log) = (self.address(), self.log());
        let gateway = self.gateway.insert(self.gateway_setup().spawn());
        until("the gateway listens", PATIENCE, || {
            let text = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(!gateway.has_ended(), "it ended:\n{}", text());
            async move { TcpStream::connect(address).await.ok() }
        })
        .await;
        self.starts.send_modify(|it| *it += 1);
    }

    /// Starts a gateway through another program, and does not wait.
    pub fn spawn_through(&self, command: &[&str]) -> Process {
        self.gateway_setup().through(command).spawn()
    }

    fn gateway_setup(&self) -> Setup {
        let setup = match self.layout {
            Layout::Up { workers } => {
                Setup::command(&["up"]).flag("--workers", workers).flag("--skills-dir", self.skills())
            }
            Layout::Apart => {
                Setup::command(&["gateway"]).flag("--workers", format!("unix:{}", self.socket().display()))
            }
        };
        self.configure(setup.flag("--listen", self.address()), "gateway").with("OPENSKILL_STORE", self.store.setting())
    }

    fn configure(&self, setup: Setup, name: &str) -> Setup {
        let path = |name: &str| self.folder.path().join(name);
        setup.data(&path("data")).log_to(&path(&format!("{name}.log"))).with("TMPDIR", path("tmp").display())
    }

    fn skills(&self) -> String {
        self.folder.path().join("skills").display().to_string()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("worker.sock")
    }

    /// Kills processes at once. Starts the gateway again if it was among them.
    pub async fn kill(&mut self, victim: Victim) {
        let gateway = self.gateway.as_ref().expect("a gateway runs").pid();
        let workers = processes::children(gateway, "--exit-with-parent");
        self.journal.add(&Event::Fault { what: format!("{victim:?} at {}", journal::now_ms()) });
        let victims = match victim {
            Victim::Gateway => vec![gateway],
            Victim::Everything => std::iter::once(gateway).chain(processes::descendants(gateway)).collect(),
            Victim::Worker(number) => workers.get(number % workers.len().max(1)).copied().into_iter().collect(),
        };
        for pid in victims {
            processes::send(pid, Signal::KILL);
        }
        if !matches!(victim, Victim::Worker(_)) {
            self.gateway.as_mut().expect("a gateway runs").ended().await;
            self.start().await;
        }
    }

    /// Ends the gateway in order.
    pub async fn stop(&mut self) {
        if let Some(gateway) = &mut self.gateway {
            gateway.terminate();
            gateway.ended().await;
        }
        self.gateway = None;
    }
}
