//! An MCP server: its connections, its tools, and its capacity for calls.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use openskill_proto::v1::{Offering, ResourceUpdate};
use openskill_telemetry::log::admits;
use openskill_telemetry::metrics::Counter;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::catalog::{Catalog, skill_id};
use super::connection::Connection;
use super::pins::{self, Pin};
use super::program::Host;
use super::subscriptions::Subscriptions;
use crate::config::Variables;
use crate::manifest::mcp::{Mcp, Pinning, Reach, variables};
use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::Offer;
use crate::runners::http::secrets::Secrets;
use crate::runners::python::interpreter::Interpreter;

/// How long calls wait for a disconnected server. After this, its tools are listed as unavailable.
const PATIENCE: Duration = Duration::from_secs(10);

/// One configured MCP server. It may have several connections.
pub(super) struct Server {
    pub(super) manifest: Arc<Manifest>,
    pub(super) mcp: Mcp,
    pub(super) host: Host,
    /// The worker's environment variables that its headers contain.
    pub(super) secrets: Arc<Secrets>,
    /// Runs tasks that outlive a call.
    pub(super) runtime: Handle,
    pub(super) lanes: Vec<Mutex<Lane>>,
    pub(super) stop: CancellationToken,
    /// Notified when capacity is freed or a connection comes up.
    freed: Notify,
    known: Mutex<ToolHistory>,
    /// The resources that clients subscribe to.
    pub(super) subscriptions: Subscriptions,
    /// Set when the server accepts no more calls. Contains its replacement, if it has one.
    next: OnceLock<Option<Arc<Server>>>,
    pub(super) tasks: TaskTracker,
    connects: Counter,
    losses: Counter,
}

/// What the worker knows about a server's tools, and the pins that they must match.
#[derive(Default)]
struct ToolHistory {
    catalog: Option<Catalog>,
    /// The tools' pins when they were listed first.
    first: BTreeMap<String, Pin>,
    /// The definitions that were already logged.
    logged: BTreeMap<String, Pin>,
    /// The catalog and first pins of the server that this one replaces. They apply until this server was tried.
    before: Option<(Catalog, BTreeMap<String, Pin>)>,
    /// The lock file's pins, as last read. `None` without a lock file.
    agreed: Option<BTreeMap<String, Pin>>,
    /// Whether the pins belong to a newer version of the server's program than the one that is running.
    is_behind: bool,
}

impl ToolHistory {
    /// Returns the server's catalog and first pins. Before its first attempt, returns those of the server that it
    /// replaces.
    fn current(&self, is_settled: bool) -> Option<(Catalog, BTreeMap<String, Pin>)> {
        match &self.catalog {
            Some(catalog) => Some((catalog.clone(), self.first.clone())),
            None => self.before.clone().filter(|_| !is_settled),
        }
    }

    /// Stores newly read pins. New pins come from a freshly started server. If this one has other tools, its
    /// program has changed since it started.
    fn agree(&mut self, pins: BTreeMap<String, Pin>, now: &BTreeMap<String, Pin>) {
        let differ = pins.iter().any(|(tool, pin)| now.get(tool) != Some(pin));
        let are_new = self.agreed.as_ref().is_some_and(|before| *before != pins);
        self.is_behind |= are_new && differ;
        self.agreed = Some(pins);
    }
}

/// One connection slot of a server, up or down.
#[derive(Default)]
pub(super) struct Lane {
    connection: Option<Arc<Connection>>,
    tried: bool,
    /// The time at which the lane lost its connection.
    away_since: Option<Instant>,
    /// Whether it has been disconnected for longer than [`PATIENCE`].
    lost: bool,
    /// Why it is disconnected, and when the next attempt starts.
    down: Option<(String, Instant)>,
}

/// Capacity for one call on a connection. Dropping it frees the capacity.
pub(super) struct Reservation {
    pub(super) connection: Arc<Connection>,
    permit: Option<OwnedSemaphorePermit>,
    pub(super) server: Arc<Server>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.server.freed.notify_one();
    }
}

impl Server {
    /// Creates a server without connections; [`super::lane::start_all`] starts them. Must be called within a
    /// runtime that lives as long as the worker. `before`: the server with the same id that it replaces.
    pub(super) fn new(
        manifest: Arc<Manifest>,
        host: Host,
        interpreter: Option<Arc<Interpreter>>,
        before: Option<&Self>,
    ) -> Option<Arc<Self>> {
        let RunnerSpec::Mcp(mcp) = &manifest.how else { return None };
        let secrets = Arc::new(secrets(mcp, host.services.environment.variables()));
        Some(Arc::new(Self {
            mcp: mcp.as_ref().clone(),
            lanes: (0..mcp.pool).map(|_| Mutex::default()).collect(),
            host: Host { last_lines: Arc::default(), interpreter, ..host },
            secrets,
            runtime: Handle::current(),
            stop: CancellationToken::new(),
            freed: Notify::new(),
            known: Mutex::new(ToolHistory {
                before: before.and_then(|it| it.known.lock().current(it.is_settled())),
                ..ToolHistory::default()
            }),
            subscriptions: Subscriptions::default(),
            next: OnceLock::new(),
            tasks: TaskTracker::new(),
            connects: Counter::new(),
            losses: Counter::new(),
            manifest,
        }))
    }

    /// Counts connections: all, currently up, established since the start, and failed.
    pub(super) fn counts(&self) -> [u64; 4] {
        [self.lanes.len() as u64, self.up().count() as u64, self.connects.get(), self.losses.get()]
    }

    /// Ends all connections, and waits until they are closed.
    pub(super) async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Stops accepting calls, waits a while for running calls, and ends. Waiting calls move to `next`.
    pub(super) async fn retire(&self, next: Option<Arc<Self>>, at_once: CancellationToken) {
        let _ = self.next.set(next);
        let up: Vec<_> = self.up().collect();
        (0..self.lanes.len()).for_each(|index| self.leave(index));
        self.freed.notify_waiters();
        futures_util::future::join_all(up.iter().map(|it| it.retire(&at_once))).await;
        self.end().await;
    }

    /// Returns whether the server must be restarted because other tools were pinned.
    pub(super) fn is_behind(&self) -> bool {
        self.known.lock().is_behind
    }

    /// Returns whether each connection was tried at least once.
    pub(super) fn is_settled(&self) -> bool {
        self.lanes.iter().all(|lane| lane.lock().tried)
    }

    /// Returns the connections that accept calls.
    fn up(&self) -> impl Iterator<Item = Arc<Connection>> {
        self.lanes.iter().filter_map(|lane| lane.lock().connection.clone().filter(|it| !it.is_gone()))
    }

    /// Reserves capacity on the connection with the most free capacity. Waits as long as it is polled.
    ///
    /// # Errors
    /// Fails if no connection will be available before `until`.
    pub(super) async fn reserve(self: &Arc<Self>, until: Instant) -> Result<Reservation, String> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            match self.next.get() {
                Some(Some(next)) => return Box::pin(next.reserve(until)).await,
                Some(None) => return Err("the server is unavailable: its manifest was removed".to_owned()),
                None => {}
            }
            let up: Vec<_> = self.up().collect();
            let best = up.iter().max_by_key(|it| it.capacity.available_permits());
            if let Some(connection) = best
                && let Ok(permit) = Arc::clone(&connection.capacity).try_acquire_owned()
            {
                let connection = Arc::clone(connection);
                return Ok(Reservation { connection, permit: Some(permit), server: Arc::clone(self) });
            }
            if up.is_empty() {
                self.hopeless(until)?;
            }
            freed.await;
        }
    }

    /// Fails if no connection will be tried before `until`.
    fn hopeless(&self, until: Instant) -> Result<(), String> {
        let mut reason = None;
        for lane in &self.lanes {
            match &lane.lock().down {
                Some((why, next)) if *next > until => reason = Some(why.clone()),
                _ => return Ok(()),
            }
        }
        Err(format!("the server is unavailable: {}", reason.unwrap_or_default()))
    }

    /// Returns why the server is disconnected, if all connections are down.
    pub(super) fn away(&self) -> Option<String> {
        if let Some(Some(next)) = self.next.get() {
            return next.away();
        }
        self.up().next().is_none().then(|| format!("the server is unavailable: {}", self.why_down()))
    }

    /// Records that a connection came up, and stores the server's catalog.
    pub(super) fn set_up(&self, index: usize, connection: &Arc<Connection>, catalog: Catalog) {
        self.connects.inc();
        // Store the tools first: tasks that wait for the first attempt need them.
        self.learn(catalog);
        if let Some(lane) = self.lanes.get(index) {
            let up = Lane { connection: Some(Arc::clone(connection)), tried: true, ..Lane::default() };
            let before = std::mem::replace(&mut *lane.lock(), up);
            if before.lost || !before.tried {
                self.announce();
            }
        }
        self.freed.notify_waiters();
    }

    /// Records that a connection accepts no more calls.
    pub(super) fn leave(&self, index: usize) {
        if let Some(connection) = self.lanes.get(index).and_then(|lane| lane.lock().connection.take()) {
            connection.leave();
        }
    }

    /// Records that a connection ended or could not be established. The next attempt starts at `next`.
    pub(super) fn down(&self, index: usize, reason: String, next: Instant) {
        let Some(lane) = self.lanes.get(index) else { return };
        self.losses.inc();
        let reason = self.secrets.scrub_text(reason);
        let mut state = lane.lock();
        let lost = state.away_since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE;
        let known = state.down.as_ref().is_some_and(|(before, _)| *before == reason);
        let tell = !state.tried || lost && !(state.lost && known);
        (state.tried, state.lost, state.down) = (true, lost, Some((reason, next)));
        drop(state);
        if tell {
            self.announce();
        }
        // Waiting calls check whether a connection can come up in time.
        self.freed.notify_waiters();
    }

    /// Stores the tools that the server lists.
    pub(super) fn learn(&self, catalog: Catalog) {
        let mut known = self.known.lock();
        if known.catalog.as_ref() == Some(&catalog) {
            return;
        }
        let now = catalog.pins();
        if known.catalog.is_none() {
            known.first.clone_from(&now);
        }
        known.catalog = Some(catalog);
        known.before = None;
        drop(known);
        self.announce();
    }

    /// Records that these resources have changed.
    pub(super) fn resources_changed(&self, uris: impl IntoIterator<Item = String>) {
        let watched = uris.into_iter().filter(|uri| self.subscriptions.note_change(uri)).count();
        if watched > 0 {
            self.announce();
        }
    }

    /// Returns the server's prompts and resources, and the changes to them.
    pub(super) fn offerings(&self) -> (Vec<Offering>, Vec<ResourceUpdate>) {
        let known = self.known.lock();
        let catalog = known.catalog.as_ref();
        let offerings = catalog.map(|it| it.offerings.to_proto(&self.manifest, &self.secrets)).unwrap_or_default();
        (offerings, self.subscriptions.updates(&self.manifest.id))
    }

    fn announce(&self) {
        self.host.services.offers.send_modify(|change| *change += 1);
    }

    /// Returns a skill for each tool, or one that explains why there are no tools.
    pub(super) fn offers(&self) -> Vec<Offer> {
        let mut known = self.known.lock();
        let Some((catalog, first)) = known.current(self.is_settled()) else {
            return vec![self.nothing(self.why_down())];
        };
        let (pinned, agreed) = match pins::read(&self.mcp.lock, &self.manifest.id) {
            Ok(Some(pins)) => (pins.tools, true),
            Ok(None) => (first, false),
            Err(reason) if self.mcp.pin == Pinning::Strict => return vec![self.nothing(reason)],
            Err(reason) => {
                if admits("pins cannot be used") {
                    tracing::warn!(server = self.manifest.id, reason, "the pins of an MCP server cannot be used");
                }
                (first, false)
            }
        };
        let now = catalog.pins();
        self.tell(&mut known.logged, &pinned, &now);
        if known.catalog.is_some() {
            known.agree(if agreed { pinned.clone() } else { BTreeMap::new() }, &now);
        }
        drop(known);
        let away = self.lanes.iter().all(|lane| lane.lock().lost).then(|| self.why_down());
        let offers = catalog.offers(&self.manifest, &self.mcp, &pinned, agreed, away.as_deref());
        // A server may have only prompts and resources.
        let has_nothing = offers.is_empty() && (!catalog.tools.is_empty() || catalog.offerings.is_empty());
        if has_nothing { vec![self.nothing("no tool of the server can be used as a skill".to_owned())] } else { offers }
    }

    /// Logs each tool that differs from its pin, once per definition. The log contains the skill id, because the
    /// server chooses the tool's name.
    fn tell(&self, logged: &mut BTreeMap<String, Pin>, pinned: &BTreeMap<String, Pin>, now: &BTreeMap<String, Pin>) {
        logged.retain(|tool, _| now.contains_key(tool) || pinned.contains_key(tool));
        let (server, strict) = (&self.manifest.id, self.mcp.pin == Pinning::Strict);
        for (tool, pin) in now {
            if let Some(what) = pins::changes(pinned.get(tool), pin)
                && logged.insert(tool.clone(), pin.clone()).as_ref() != Some(pin)
                && admits("a tool differs from its pin")
            {
                let skill_id = skill_id(server, tool);
                tracing::warn!(server, skill_id, what, strict, "a tool differs from its pin");
            }
        }
        for tool in pinned.keys().filter(|tool| !now.contains_key(*tool)) {
            if logged.insert(tool.clone(), Pin::default()) != Some(Pin::default()) && admits("a pinned tool is missing")
            {
                let skill_id = skill_id(server, tool);
                tracing::warn!(server, skill_id, "a pinned tool is missing");
            }
        }
    }

    /// Creates an unavailable skill that represents the server itself.
    fn nothing(&self, reason: String) -> Offer {
        Offer { manifest: self.manifest.as_ref().clone(), runner: Err(reason) }
    }

    fn why_down(&self) -> String {
        let why = self.lanes.iter().find_map(|lane| lane.lock().down.as_ref().map(|(why, _)| why.clone()));
        why.unwrap_or_else(|| STARTING.to_owned())
    }
}

fn secrets(mcp: &Mcp, own: &Variables) -> Secrets {
    match &mcp.reach {
        Reach::Http { headers, .. } => {
            Secrets::for_variables(headers.iter().flat_map(|(_, value)| variables(value)), own)
        }
        Reach::Stdio { .. } => Secrets::default(),
    }
}

/// The reason why the skill is unavailable before the first connection attempt.
pub(super) const STARTING: &str = "the server is starting";
