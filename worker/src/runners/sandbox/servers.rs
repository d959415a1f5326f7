//! Provides the processes of sessions: fork servers that have loaded the programs in `sessions/host`.
//!
//! ```text
//! free ──pick──> serves one owner ──its last session has ended──> free
//! ```
//!
//! The kernel accounts for a fork server and its sessions together, and kills them together. So all its sessions
//! belong to one owner. One free fork server is kept warm, so that the next session starts quickly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openskill_sandbox::forkserver::{ForkServer, MOST_CALLS};
use openskill_sandbox::launch::Launcher;
use openskill_sandbox::protocol::Command;
use openskill_sandbox::sessions::book::Terms;
use openskill_sandbox::sessions::key::SessionOwner;
use parking_lot::Mutex;
use serde_json::json;

use super::packages::Packages;
use crate::manifest::Manifest;
use crate::manifest::session::Session;
use crate::runners::python::fork;
use crate::runners::python::interpreter::Interpreter;
use crate::sessions::HOST;
use crate::sessions::packages::PackageRoot;
use crate::sessions::process::StartError;

/// The maximum number of sessions per fork server. More sessions get another fork server.
const MOST_SESSIONS: usize = MOST_CALLS - 8;

/// The fork servers of one skill, for one version of its manifest.
pub(super) struct Servers {
    /// The manifest and the interpreter that they run.
    pub(super) manifest: Arc<Manifest>,
    pub(super) interpreter: Arc<Interpreter>,
    command: Command,
    /// The terms of their sessions.
    pub(super) terms: Terms,
    packages: Arc<Packages>,
    all: Mutex<Vec<AssignedServer>>,
}

/// A fork server and its owner. `None` if it has not served an owner yet.
struct AssignedServer {
    owner: Option<SessionOwner>,
    /// Cloned for each start in progress.
    reservation: Reservation,
}

/// Reserves a fork server for its owner until dropped.
#[derive(Clone)]
pub(super) struct Reservation {
    pub(super) server: Arc<ForkServer>,
    /// The folder with its sessions' packages.
    pub(super) place: Option<Arc<PackageRoot>>,
    starting: Arc<()>,
}

impl AssignedServer {
    fn server(&self) -> &ForkServer {
        &self.reservation.server
    }

    /// Returns whether it has no session, and none is starting.
    fn is_free(&self) -> bool {
        self.server().in_flight() == 0 && Arc::strong_count(&self.reservation.starting) == 1
    }

    fn assign(&mut self, owner: &SessionOwner) -> Reservation {
        self.owner = Some(owner.clone());
        self.reservation.clone()
    }
}

/// The number of the last [`Servers`] that was created.
static MADE: AtomicU64 = AtomicU64::new(0);

impl Servers {
    /// `fresh` starts an interpreter, with the parts that all sessions share.
    pub(super) fn new(
        manifest: Arc<Manifest>,
        session: &Session,
        interpreter: Arc<Interpreter>,
        fresh: Command,
        packages: Arc<Packages>,
    ) -> Self {
        let command = fork::server_command(fresh, fork::LEAST_IDLE, true, [("preload", json!(session.preload))]);
        let together = command.jail.as_ref().map_or(MOST_SESSIONS, |it| it.fit(MOST_CALLS));
        let terms = Terms { maker: MADE.fetch_add(1, Ordering::Relaxed) + 1, together };
        Self { manifest, interpreter, command, terms, packages, all: Mutex::default() }
    }

    /// Returns a fork server for this owner's session. Must be called within a runtime that lives as long as the
    /// worker.
    ///
    /// # Errors
    /// Fails if the fork server could not be started.
    pub(super) fn pick(&self, launcher: &Launcher, owner: &SessionOwner) -> Result<Reservation, StartError> {
        let mut all = self.all.lock();
        all.retain(|it| it.server().is_open());
        let is_own = |it: &AssignedServer| it.owner.as_ref() == Some(owner) && it.server().in_flight() < MOST_SESSIONS;
        if let Some(assigned) = all.iter_mut().find(|it| is_own(it)) {
            return Ok(assigned.assign(owner));
        }
        // Prefer a ready one.
        let free = all.iter_mut().filter(|it| it.is_free());
        if let Some(assigned) = free.max_by_key(|it| it.server().is_ready()) {
            return Ok(assigned.assign(owner));
        }
        let mut assigned = self.start(launcher)?;
        let reservation = assigned.assign(owner);
        all.push(assigned);
        Ok(reservation)
    }

    /// Starts a fork server for the next owner, unless one is free. Must be called like [`Servers::pick`].
    ///
    /// # Errors
    /// Fails if the fork server could not be started.
    pub(super) fn keep_one_free(&self, launcher: &Launcher) -> Result<(), StartError> {
        let mut all = self.all.lock();
        if !all.iter().any(|it| it.server().is_open() && it.is_free()) {
            all.push(self.start(launcher)?);
        }
        Ok(())
    }

    fn start(&self, launcher: &Launcher) -> Result<AssignedServer, StartError> {
        let (place, mut command) = (self.packages.place(), self.command.clone());
        if let Some(place) = &place {
            command.jail = command.jail.map(|it| it.reading(place.path().to_owned()));
        }
        let server = ForkServer::start(launcher, &command, fork::host_program(HOST).as_bytes())?;
        Ok(AssignedServer { owner: None, reservation: Reservation { server, place, starting: Arc::default() } })
    }

    /// Returns whether they run this manifest with this interpreter.
    pub(super) fn are_for(&self, manifest: &Manifest, interpreter: &Interpreter) -> bool {
        self.are_of(manifest) && *self.interpreter == *interpreter
    }

    pub(super) fn are_of(&self, manifest: &Manifest) -> bool {
        *self.manifest == *manifest
    }

    /// Returns whether a new session would start immediately.
    pub(super) fn is_ready(&self) -> bool {
        self.all.lock().iter().any(|it| it.server().is_open() && it.server().is_ready())
    }

    /// Returns the modules that the manifest lists but that are not preloaded. Empty until the first fork server
    /// is ready.
    pub(super) fn cold_imports(&self) -> Vec<String> {
        let all = self.all.lock();
        let cold = all.iter().map(|it| it.server().cold_imports()).find(|it| !it.is_empty()).unwrap_or_default();
        cold.into_iter().map(|it| format!("{} ({})", it.import, it.leaves)).collect()
    }

    /// Retires fork servers that were idle for a while, and all free ones except one.
    pub(super) fn maintain(&self, idle: Duration) {
        let mut has_free = false;
        self.all.lock().retain(|it| {
            let is_free = it.is_free();
            let kept = it.server().is_open() && it.server().idle_for() < idle && !(is_free && has_free);
            has_free |= is_free && kept;
            if !kept {
                it.server().retire();
            }
            kept
        });
    }

    /// Retires all fork servers and returns them. Each ends with its last session.
    pub(super) fn retire(&self) -> Vec<Arc<ForkServer>> {
        let all: Vec<_> = self.all.lock().drain(..).map(|it| it.reservation.server).collect();
        all.iter().for_each(|it| it.retire());
        all
    }
}
