//! The processes of a row: how they are started, stopped while others are measured, and looked at.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use openskill_tests::certs::{Certs, Client};
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::processes;
use openskill_tests::system::{Setup, System};
use rustix::process::Signal;

use crate::child::Child;
use crate::hosts;
use crate::rows::{ECHO, TOOL};
use crate::settings::Settings;
use crate::usage::{Memory, Table, memory};

/// Processes that used no processor time for so long have settled. Some never do.
const SETTLED_AFTER: Duration = Duration::from_millis(30);
const SETTLES_WITHIN: Duration = Duration::from_millis(600);

/// What is started.
#[derive(Debug, Clone)]
pub(crate) enum Site {
    /// Tonic alone: a forwarder and a server, with this many threads each.
    Forwarder(usize),
    Openskill(Openskill),
    /// With this many uvicorn workers.
    FastApi(usize),
    /// A proxy in front of a server on `stdio` or `http`.
    FastMcpProxy(&'static str),
    /// A server over HTTP with an echo and this many tools beside it.
    FastMcp(usize),
    Mcpo,
    /// The server of `tests/bench/rmcp`, in one of its modes.
    Rmcp(&'static str),
}

/// `openskill up --workers 1` with one skill.
#[derive(Debug, Clone)]
pub(crate) struct Openskill {
    /// The skill's manifest, but for its id.
    manifest: String,
    /// Paths and texts of executables and manifests beside it.
    files: Vec<(String, String)>,
    /// What it has once it is ready.
    awaited: &'static str,
    environment: Vec<(String, String)>,
    /// Its address speaks TLS.
    is_encrypted: bool,
}

impl Site {
    pub(crate) fn openskill(manifest: &str) -> Self {
        Self::Openskill(Openskill {
            manifest: manifest.to_owned(),
            files: Vec::new(),
            awaited: ECHO,
            environment: Vec::new(),
            is_encrypted: false,
        })
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if let Self::Openskill(it) = &mut self {
            it.environment.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub(crate) fn encrypted(mut self) -> Self {
        if let Self::Openskill(it) = &mut self {
            it.is_encrypted = true;
        }
        self
    }

    pub(crate) fn with_server(mut self, path: &str, text: &str) -> Self {
        if let Self::Openskill(it) = &mut self {
            it.files.push((path.to_owned(), text.to_owned()));
            it.awaited = TOOL;
        }
        self
    }

    /// With more skills to list.
    pub(crate) fn with_skills(mut self, manifests: impl Iterator<Item = (String, String)>) -> Self {
        if let Self::Openskill(it) = &mut self {
            it.files.extend(manifests);
        }
        self
    }

    /// Starts it with a Python for scripts; openskill also as another binary than the one of this checkout.
    pub(crate) async fn start(
        &self,
        settings: &Settings,
        python: &Path,
        binary: Option<&Path>,
    ) -> Result<Running, String> {
        let needed = |path: &Option<std::path::PathBuf>| path.clone().ok_or("its Python was not given");
        match self {
            Self::Forwarder(threads) => hosts::forwarder(*threads).await,
            Self::Openskill(it) => it.start(python, binary).await,
            Self::FastApi(workers) => {
                let log = "--log-level warning --no-access-log";
                let line = |port| format!("-m uvicorn host:app --port {port} --workers {workers} {log}");
                hosts::host(&needed(&settings.hosts)?, line, python).await
            }
            Self::FastMcpProxy(server) => {
                hosts::host(&needed(&settings.hosts)?, |_| format!("proxy.py {server}"), python).await
            }
            Self::FastMcp(more) => {
                hosts::host(&needed(&settings.hosts)?, |_| format!("echo_http.py {more}"), python).await
            }
            Self::Mcpo => {
                let server = format!("{} echo_server.py", needed(&settings.hosts)?.display());
                let line = |port| format!("--host 127.0.0.1 --port {port} --log-level WARNING -- {server}");
                hosts::host(&needed(&settings.mcpo)?, line, python).await
            }
            Self::Rmcp(mode) => {
                let server = settings.rmcp.clone().ok_or("its server was not given")?;
                hosts::host(&server, |_| (*mode).to_owned(), python).await
            }
        }
    }
}

impl Openskill {
    async fn start(&self, python: &Path, binary: Option<&Path>) -> Result<Running, String> {
        let folder = Folder::new();
        folder.write("skills/echo.yaml", format!("id: {ECHO}\n{}", self.manifest));
        folder.write("skills/echo.py", hosts::ECHO_SCRIPT);
        for (path, text) in &self.files {
            let file = folder.write(&format!("skills/{path}"), text);
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(file, mode).map_err(|error| error.to_string())?;
        }
        let mut setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1"])
            .flag("--skills-dir", folder.path().join("skills").display())
            .log_to(&folder.path().join("openskill.log"))
            .with("OPENSKILL_PYTHON", python.display())
            .at_its_own_pace();
        for (name, value) in &self.environment {
            setup = setup.with(name, value);
        }
        let certs = self.is_encrypted.then(Certs::make);
        if let Some(certs) = &certs {
            setup = setup.with("OPENSKILL_TLS_CERT", certs.file("gateway.pem"));
            setup = setup.with("OPENSKILL_TLS_KEY", certs.file("gateway.key"));
        }
        let tls = certs.as_ref().map(Certs::client);
        if let Some(binary) = binary {
            setup = setup.binary(binary);
        }
        let skill = self.awaited;
        let is_encrypted = self.is_encrypted;
        // The harness panics when it waits in vain.
        let starting = tokio::spawn(async move {
            let system = setup.start().await;
            // With one worker, it is there once openskill is ready.
            if !is_encrypted {
                system.has_skill(skill).await;
            }
            system
        });
        let system = starting.await.map_err(|_| "openskill did not start".to_owned())?;
        let roots = vec![system.process.pid()];
        Ok(Running {
            address: system.address,
            tls,
            roots,
            system: Some(system),
            _children: Vec::new(),
            _folder: folder,
            _port: None,
        })
    }
}

/// Started. Its processes end with it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    /// Who trusts its certificate. None: it speaks plain text.
    pub(crate) tls: Option<Client>,
    /// The first processes; all others descend from them.
    pub(crate) roots: Vec<i32>,
    system: Option<System>,
    // The processes come before their folder: they end before it goes.
    _children: Vec<Child>,
    _folder: Folder,
    _port: Option<Port>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A stopped process would not hear that it is to end.
        self.signal(Signal::CONT);
    }
}

impl Running {
    pub(crate) fn of_children(port: Port, children: Vec<Child>, folder: Folder) -> Self {
        let roots = children.iter().map(Child::pid).collect();
        let address = port.address();
        Self { address, tls: None, roots, system: None, _children: children, _folder: folder, _port: Some(port) }
    }

    /// Stops all its processes once they have settled, so that they take nothing from the row that is measured.
    pub(crate) async fn stop(&self) {
        self.settle().await;
        let mut stopped = BTreeSet::new();
        // Until no process comes to light that was born meanwhile.
        loop {
            let new: Vec<_> = Table::read().tree(&self.roots).into_iter().filter(|pid| stopped.insert(*pid)).collect();
            if new.is_empty() {
                return;
            }
            new.into_iter().for_each(|pid| processes::send(pid, Signal::STOP));
        }
    }

    /// Lets stopped processes go on, until they have settled.
    pub(crate) async fn go_on(&self) {
        self.signal(Signal::CONT);
        self.settle().await;
    }

    /// Children first, so that no parent waits for a stopped child.
    fn signal(&self, signal: Signal) {
        Table::read().tree(&self.roots).into_iter().rev().for_each(|pid| processes::send(pid, signal));
    }

    /// Waits until what was left to do is done: connections to close, lines to log, processes to reap.
    pub(crate) async fn settle(&self) {
        let begun = Instant::now();
        let mut used = Table::read().cpu(&self.roots);
        while begun.elapsed() < SETTLES_WITHIN {
            tokio::time::sleep(SETTLED_AFTER).await;
            let now = Table::read().cpu(&self.roots);
            if now == used {
                return;
            }
            used = now;
        }
    }

    /// The memory of its processes, by what they are.
    pub(crate) fn memory(&self) -> Vec<(&'static str, Memory)> {
        let all = Table::read().tree(&self.roots);
        let Some(system) = &self.system else {
            return vec![("all", memory(&all))];
        };
        let (gateway, workers) = (vec![system.process.pid()], system.worker_pids());
        let others: Vec<_> = all.into_iter().filter(|pid| !gateway.contains(pid) && !workers.contains(pid)).collect();
        vec![("gateway", memory(&gateway)), ("worker", memory(&workers)), ("skills", memory(&others))]
    }
}
