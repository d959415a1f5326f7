//! Where the processes of sessions come from: fork servers that have an interpreter with the programs of `sessions/host` loaded.
//!
//! ```text
//! free ──pick──> serves one owner ──its last session has ended──> free
//! ```
//!
//! The kernel accounts a fork server and its sessions together, and kills them together. So all of its sessions belong to one
//! owner. A free fork server is kept warm, so that the next session starts at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;

use super::packages::Packages;
use crate::environment::path_text;
use crate::manifest::Manifest;
use crate::manifest::session::Session;
use crate::process::forkserver::{ForkServer, MOST_CALLS};
use crate::process::jail::plan::Plan;
use crate::process::launch::Launcher;
use crate::process::protocol::{Command, ProcessLimits};
use crate::runners::python::fork;
use crate::runners::python::interpreter::Interpreter;
use crate::sessions::HOST;
use crate::sessions::book::Terms;
use crate::sessions::key::Owner;
use crate::sessions::packages::Place;
use crate::sessions::process::StartError;

/// Idle children that wait for a session.
const LEAST_IDLE: usize = 2;
const MOST_IDLE: usize = 2;

/// Sessions of one fork server. Further ones get another fork server.
const MOST_SESSIONS: usize = MOST_CALLS - 8;

/// Room for a call id; the fork server's program has the same limit.
const CALL_ID_BYTES: usize = 128;

/// The fork servers of one skill, for one version of its manifest.
pub(super) struct Servers {
    manifest: Arc<Manifest>,
    interpreter: Arc<Interpreter>,
    command: Command,
    terms: Terms,
    packages: Arc<Packages>,
    all: Mutex<Vec<Seat>>,
}

/// A fork server and its owner. `None`: it has not served anybody yet.
struct Seat {
    owner: Option<Owner>,
    server: Arc<ForkServer>,
    /// Where its sessions find their packages.
    place: Option<Arc<Place>>,
    /// Cloned by starts in progress.
    starting: Arc<()>,
}

impl Seat {
    fn new((server, place): (Arc<ForkServer>, Option<Arc<Place>>)) -> Self {
        Self { owner: None, server, place, starting: Arc::default() }
    }

    /// Whether it has no session and none is starting.
    fn is_free(&self) -> bool {
        self.server.in_flight() == 0 && Arc::strong_count(&self.starting) == 1
    }

    fn picked(&mut self, owner: &Owner) -> Picked {
        if self.owner.as_ref() != Some(owner) {
            self.owner = Some(owner.clone());
        }
        let (server, place) = (Arc::clone(&self.server), self.place.clone());
        Picked { server, place, _starting: Arc::clone(&self.starting) }
    }
}

/// Reserves a fork server for its owner while held.
pub(super) struct Picked {
    pub(super) server: Arc<ForkServer>,
    pub(super) place: Option<Arc<Place>>,
    _starting: Arc<()>,
}

/// The number of the last one made.
static MADE: AtomicU64 = AtomicU64::new(0);

impl Servers {
    /// `command` is how an interpreter is started that reads its program.
    pub(super) fn new(
        (manifest, session): (Arc<Manifest>, &Session),
        interpreter: Arc<Interpreter>,
        mut command: Command,
        packages: Arc<Packages>,
    ) -> Self {
        let argv: Vec<_> = std::iter::once(path_text(&command.program)).chain(command.args.iter().cloned()).collect();
        let writable = command.jail.as_ref().and_then(Plan::writable);
        let settings = json!({
            "argv": argv,
            "preload": session.preload,
            "skip": [],
            "least_idle": LEAST_IDLE,
            "most_idle": MOST_IDLE,
            "most": MOST_CALLS + MOST_IDLE,
            "cpu_seconds": command.limits.cpu_seconds,
            "jailed": true,
            "writable": writable.map(|paths| paths.map(|path| path_text(path)).collect::<Vec<_>>()),
        });
        command.env.insert("OPENSKILL_FORKSERVER".to_owned(), settings.to_string());
        // Reserves room for the title of the process.
        command.env.insert("OPENSKILL_CALL_ID".to_owned(), "-".repeat(CALL_ID_BYTES));
        // Each session's process sets these limits itself.
        command.limits = ProcessLimits { cpu_seconds: u64::MAX, processes: u64::MAX, ..command.limits };
        let together = command.jail.as_ref().map_or(MOST_SESSIONS, |it| it.fit(MOST_CALLS));
        let terms = Terms { maker: MADE.fetch_add(1, Ordering::Relaxed) + 1, together };
        Self { manifest, interpreter, command, terms, packages, all: Mutex::default() }
    }

    /// What its sessions are made of.
    pub(super) fn terms(&self) -> Terms {
        self.terms
    }

    /// A fork server for a session of this owner. Must be called within a runtime that lives as long as the worker.
    ///
    /// # Errors
    /// It could not be started.
    pub(super) fn pick(&self, launcher: &Launcher, owner: &Owner) -> Result<Picked, StartError> {
        let mut all = self.lock();
        all.retain(|it| it.server.is_open());
        let is_own = |it: &&mut Seat| it.owner.as_ref() == Some(owner) && it.server.in_flight() < MOST_SESSIONS;
        if let Some(seat) = all.iter_mut().find(is_own) {
            return Ok(seat.picked(owner));
        }
        // One that is ready, if there is.
        let free = all.iter_mut().filter(|it| it.is_free());
        if let Some(seat) = free.max_by_key(|it| it.server.is_ready()) {
            return Ok(seat.picked(owner));
        }
        let mut seat = Seat::new(self.start(launcher)?);
        let picked = seat.picked(owner);
        all.push(seat);
        Ok(picked)
    }

    /// Starts a fork server for the next owner, unless there is one. As [`Servers::pick`].
    ///
    /// # Errors
    /// It could not be started.
    pub(super) fn keep_one_free(&self, launcher: &Launcher) -> Result<(), StartError> {
        let mut all = self.lock();
        if !all.iter().any(|it| it.server.is_open() && it.is_free()) {
            all.push(Seat::new(self.start(launcher)?));
        }
        Ok(())
    }

    fn start(&self, launcher: &Launcher) -> Result<(Arc<ForkServer>, Option<Arc<Place>>), StartError> {
        let (place, mut command) = (self.packages.place(), self.command.clone());
        if let Some(place) = &place {
            command.jail = command.jail.map(|it| it.reading(place.path().to_owned()));
        }
        Ok((ForkServer::start(launcher, &command, fork::of_host(HOST).as_bytes())?, place))
    }

    /// What they run.
    pub(super) fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Whether they run this manifest with this interpreter.
    pub(super) fn are_for(&self, manifest: &Manifest, interpreter: &Interpreter) -> bool {
        self.are_of(manifest) && *self.interpreter == *interpreter
    }

    pub(super) fn are_of(&self, manifest: &Manifest) -> bool {
        *self.manifest == *manifest
    }

    /// The skills that look after these sessions.
    pub(super) fn group(&self) -> String {
        self.manifest.group()
    }

    /// Whether a session starts at once.
    pub(super) fn is_ready(&self) -> bool {
        self.lock().iter().any(|it| it.server.is_open() && it.server.is_ready())
    }

    /// The modules that are not preloaded although the manifest names them. Empty before the first fork server is ready.
    pub(super) fn cold_imports(&self) -> Vec<String> {
        let all = self.lock();
        let cold = all.iter().map(|it| it.server.cold_imports()).find(|it| !it.is_empty()).unwrap_or_default();
        cold.into_iter().map(|it| format!("{} ({})", it.import, it.leaves)).collect()
    }

    /// The version of Python.
    pub(super) fn version(&self) -> (u32, u32) {
        self.interpreter.version
    }

    /// Retires fork servers that were idle for a while, and all free ones but one.
    pub(super) fn tend(&self, idle: Duration) {
        let mut has_free = false;
        self.lock().retain(|it| {
            let is_free = it.is_free();
            let kept = it.server.is_open() && it.server.idle_for() < idle && !(is_free && has_free);
            has_free |= is_free && kept;
            if !kept {
                it.server.retire();
            }
            kept
        });
    }

    /// Retires all fork servers, which end with their last sessions, and returns them.
    pub(super) fn retire(&self) -> Vec<Arc<ForkServer>> {
        let all: Vec<_> = self.lock().drain(..).map(|it| it.server).collect();
        all.iter().for_each(|it| it.retire());
        all
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
