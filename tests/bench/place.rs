//! What is started to be measured: processes, where they listen, and which of them to look at.
//!
//! - [`openskill`]: `openskill up`, as shipped or with a piece off
//! - [`bare`]: tonic alone, from this binary
//! - [`hosts`]: hosts in Python

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::system::System;
use rustix::process::Signal;

use crate::child::Child;
use crate::usage::{Memory, Table, memory};

pub(crate) mod bare;
pub(crate) mod hosts;
pub(crate) mod openskill;

/// Who used no processor time for so long has settled; in ticks of ten milliseconds it would show. Some never rest.
const SETTLED_AFTER: Duration = Duration::from_millis(30);
const SETTLES_WITHIN: Duration = Duration::from_millis(300);

/// What can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// So many hops, one flavour of runtime.
    Bare(bare::Hops, bare::Flavour),
    Openskill(openskill::Piece),
    /// With so many workers of uvicorn.
    FastApi(usize),
    FastMcp(hosts::Transport),
    Mcpo,
}

/// Where Python is: what runs scripts, and the virtual environment of the hosts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pythons {
    /// Runs the echo script for every contender.
    pub(crate) script: PathBuf,
    /// Runs the hosts, and has their packages.
    pub(crate) hosts: Option<PathBuf>,
    /// The program mcpo, in an environment of its own: it wants another version of what the others are made of.
    pub(crate) mcpo: Option<PathBuf>,
}

/// Started. Its processes end with it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    /// The first processes of what is measured; others descend from them.
    pub(crate) roots: Vec<i32>,
    system: Option<System>,
    // The processes come before their folder: they end before it goes.
    children: Vec<Child>,
    _folder: Option<Folder>,
}

impl Pythons {
    fn hosts(&self) -> Result<&Path, String> {
        self.hosts.as_deref().ok_or_else(|| "--hosts was not given".to_owned())
    }
}

impl Place {
    /// Whether it has to do with the packages of `requirements.txt`.
    pub(crate) fn needs_packages(self) -> bool {
        matches!(
            self,
            Self::FastApi(_) | Self::FastMcp(_) | Self::Mcpo | Self::Openskill(openskill::Piece::McpServer(_))
        )
    }

    pub(crate) async fn start(self, pythons: &Pythons) -> Result<Running, String> {
        match self {
            Self::Bare(hops, flavour) => bare::start(hops, flavour).await,
            Self::Openskill(piece) => openskill::start(piece, pythons).await,
            Self::FastApi(workers) => hosts::fastapi(workers, pythons).await,
            Self::FastMcp(transport) => hosts::fastmcp(transport, pythons).await,
            Self::Mcpo => hosts::mcpo(pythons).await,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Stopped, it would not hear that it is to end.
        self.wake();
    }
}

impl Running {
    pub(crate) fn of_children(address: SocketAddr, children: Vec<Child>, folder: Folder) -> Self {
        let roots = children.iter().map(Child::pid).collect();
        Self { address, roots, system: None, children, _folder: Some(folder) }
    }

    /// `beside` are processes that it needs and that are not measured.
    pub(crate) fn of_system(system: System, beside: Vec<Child>, folder: Folder) -> Self {
        let roots = vec![system.process.pid()];
        Self { address: system.address, roots, system: Some(system), children: beside, _folder: Some(folder) }
    }

    /// One more process, which is measured with the others.
    pub(crate) fn add(&mut self, child: Child) {
        self.roots.push(child.pid());
        self.children.push(child);
    }

    /// Stops it when it has settled, with all its processes: what they do while nobody calls takes nothing from whoever is
    /// measured.
    pub(crate) async fn stop(&self) {
        self.settle().await;
        let mut stopped = BTreeSet::new();
        // Until no process comes to light that was born meanwhile.
        loop {
            let new: Vec<_> = self.processes().into_iter().filter(|pid| stopped.insert(*pid)).collect();
            if new.is_empty() {
                return;
            }
            new.into_iter().for_each(|pid| processes::send(pid, Signal::STOP));
        }
    }

    /// Lets a stopped one go on, until it has settled.
    pub(crate) async fn go_on(&self) {
        self.wake();
        self.settle().await;
    }

    /// Those that others started come first, so that nobody finds them without an answer.
    fn wake(&self) {
        self.processes().into_iter().rev().for_each(|pid| processes::send(pid, Signal::CONT));
    }

    /// Waits until it has done what was left to do: connections to close, lines to log, processes to bury.
    async fn settle(&self) {
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

    /// All, also those that are not measured.
    fn processes(&self) -> Vec<i32> {
        let first: BTreeSet<i32> = self.roots.iter().copied().chain(self.children.iter().map(Child::pid)).collect();
        Table::read().tree(&first.into_iter().collect::<Vec<_>>())
    }

    pub(crate) fn system(&self) -> Result<&System, String> {
        self.system.as_ref().ok_or_else(|| "it is no openskill".to_owned())
    }

    /// What its processes have in memory, by what they are.
    pub(crate) fn memory(&self) -> Vec<(&'static str, Memory)> {
        let all = Table::read().tree(&self.roots);
        let Some(system) = &self.system else {
            return vec![("all", memory(&all))];
        };
        let (gateway, workers) = (vec![system.process.pid()], system.worker_pids());
        let others: Vec<_> = all.into_iter().filter(|pid| !gateway.contains(pid) && !workers.contains(pid)).collect();
        let mut parts = vec![("gateway", memory(&gateway)), ("worker", memory(&workers))];
        if !others.is_empty() {
            parts.push(("skills", memory(&others)));
        }
        parts
    }
}
