//! From what the kernel gives and what a manifest asks for to what its process gets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::identity::{Identity, User};
use super::named::{Named, named};
use super::plan::{Plan, Walls};
use super::probe::{Facts, Namespaces};
use super::roots::{ALL, Roots};
use super::users::Users;
use super::{reach, temp};
use crate::config::Config;
use crate::environment::Surroundings;
use crate::manifest::{Jail, Level, Manifest, Network};
use crate::process::bounds::{Bounds, Controller, Kind};
use crate::runners::python::interpreter::Interpreter;

const MIB: u64 = 1024 * 1024;

/// Room for processes of the skills' user, such as fork servers, that started after the last count. The limit on the processes of one
/// call stays exact: the kernel or the supervisor counts those.
const UNCOUNTED_PROCESSES: u64 = 32;

/// Decides for each skill of a worker. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Jailer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    facts: Facts,
    users: Users,
    /// What every skill of this worker must reach that does not say `off`.
    least: Level,
    surroundings: Surroundings,
    roots: Roots,
    temp: PathBuf,
    controller: Controller,
    /// How many processes and threads the user of skills had at the last look: a skill is not to suffer from another
    /// that has many, nor from what else the worker's user does.
    others: AtomicU64,
}

impl Jailer {
    /// Finds out what the kernel gives: takes some milliseconds, once.
    pub(crate) fn new(config: &Config, surroundings: Surroundings) -> Self {
        let users = Users::new(config.skill_users);
        let facts = Facts::find(&config.supervisor, users.shared(), &config.allowed_root);
        let controller = Controller::find(&config.supervisor);
        let temp = std::env::temp_dir();
        let temp = temp.canonicalize().unwrap_or(temp);
        let (least, roots) = (config.least_jail, Roots::default());
        roots.in_reach(users.shared(), &surroundings.whole_root());
        let others = AtomicU64::new(0);
        let jailer = Self(Arc::new(Inner { facts, users, least, surroundings, roots, temp, controller, others }));
        jailer.look_after();
        let bounds = jailer.0.controller.kind().word();
        tracing::info!(?facts, bounds, "isolation that this machine supports");
        jailer
    }

    /// What was found.
    pub(crate) fn facts(&self) -> Facts {
        self.0.facts
    }

    /// The user that skills have, where the worker is root.
    pub(crate) fn user(&self) -> User {
        self.0.users.shared()
    }

    /// Whether each run has a user of its own instead.
    pub(crate) fn gives_own_users(&self) -> bool {
        self.0.users.are_own(self.0.facts.maps_users)
    }

    /// What a skill's process gets. Besides the system's programs, the library and its allowed root it may read and run
    /// what is in `readable`, and change what is in `writable`: absolute paths that exist.
    ///
    /// A process without walls gets a plan too: it has a private folder for temporary files all the same.
    ///
    /// # Errors
    /// The manifest requires more than there is: what is lacking.
    pub(crate) fn plan(
        &self,
        manifest: &Manifest,
        readable: &[PathBuf],
        writable: &[PathBuf],
    ) -> Result<Option<Plan>, String> {
        self.plan_with(manifest, readable, writable, Visible::Worker)
    }

    /// The same for a process that sees nothing of this worker: without the library, and without an allowed root unless the
    /// manifest grants one.
    ///
    /// # Errors
    /// As [`Jailer::plan`].
    pub(crate) fn isolated_plan(
        &self,
        manifest: &Manifest,
        readable: &[PathBuf],
        writable: &[PathBuf],
    ) -> Result<Option<Plan>, String> {
        let visible = if manifest.allowed_root.is_some() { Visible::Root } else { Visible::Nothing };
        self.plan_with(manifest, readable, writable, visible)
    }

    fn plan_with(
        &self,
        manifest: &Manifest,
        readable: &[PathBuf],
        writable: &[PathBuf],
        visible: Visible,
    ) -> Result<Option<Plan>, String> {
        let Inner { facts, users, surroundings, roots, temp, .. } = self.0.as_ref();
        if manifest.jail.level == Level::Off {
            return Ok(Some(self.plan_of(manifest, None)));
        }
        let library = surroundings.library().filter(|_| visible == Visible::Worker).map(Path::to_owned);
        let named_by_all = readable.iter().chain(&manifest.jail.readable).cloned().chain(library);
        let Named { readable, mut names } = named(surroundings, named_by_all);
        let root = (visible != Visible::Nothing).then(|| surroundings.root(manifest).to_owned());
        let writable = writable.to_vec();
        let start = (visible == Visible::Worker).then(|| surroundings.start_folder().to_owned());
        // Decided once: a skill may change the mode of its root.
        let reach_of_root = match &root {
            Some(_) => roots.in_reach(users.shared(), &surroundings.run_root(manifest)),
            None => ALL,
        };
        let own_user = users.are_own(facts.maps_users);
        let map_root = root.is_some() && (own_user || (facts.maps_users && !reach_of_root.itself));
        let user = users.next(facts.maps_users);
        let in_reach = || match facts.namespaces {
            // The folders on the way are not those of the host.
            Namespaces::Given => {
                readable.iter().all(|it| reach::reads_itself(user, it))
                    && writable.iter().all(|it| reach::writes_itself(user, it))
                    && (map_root || reach_of_root.itself)
            }
            _ => {
                readable.iter().chain(&start).all(|it| reach::reads(user, it))
                    && writable.iter().all(|it| reach::writes(user, it))
                    && reach_of_root.itself
                    && reach_of_root.way
                    && reach::reads(user, temp)
            }
        };
        let decision = decide(*facts, user, &manifest.jail, in_reach);
        if let Some(reason) = decision.falls_short_of(manifest.jail.level.max(self.0.least)) {
            return Err(format!("it requires a jail that this worker can't give: {reason}"));
        }
        let Decision { identity, network, .. } = decision;
        let Facts { landlock, calls, .. } = *facts;
        let namespaces = facts.namespaces == Namespaces::Given;
        names.extend(start);
        let landlock = landlock > 0;
        let map_root = map_root && identity.user.is_some();
        let counted = self.0.controller.kind() != Kind::Measured;
        let walls = Walls {
            identity,
            namespaces,
            landlock,
            calls,
            counted,
            readable,
            root,
            root_mode: reach_of_root.mode,
            map_root,
            writable,
            names,
            network,
            sandbox: None,
        };
        Ok(Some(self.plan_of(manifest, Some(walls))))
    }

    fn plan_of(&self, manifest: &Manifest, walls: Option<Walls>) -> Plan {
        let others = self.others(manifest.jail.level);
        let Inner { temp, controller, .. } = self.0.as_ref();
        let limits = &manifest.limits;
        let bounds = Bounds {
            memory_bytes: limits.memory_mb.saturating_mul(MIB),
            processes: limits.processes,
            cpu_seconds: limits.cpu_seconds,
        };
        let temp_bytes = limits.temp_mb.saturating_mul(MIB);
        Plan { temp: temp.clone(), temp_bytes, controller: controller.clone(), bounds, others, walls }
    }

    /// What counts the process trees of skills.
    pub(crate) fn controller(&self) -> &Controller {
        &self.0.controller
    }

    /// Removes what the worker itself made, at its end.
    pub(crate) fn close(&self) {
        self.0.controller.close();
    }

    /// How well a skill's processes are isolated here: `strict`, `standard`, `partial` (less than that) or `off`.
    pub(crate) fn reached(&self, manifest: &Manifest) -> &'static str {
        match manifest.jail.level {
            Level::Off => Level::Off.as_str(),
            _ => match self.decide(&manifest.jail, || true).reached() {
                Level::Off | Level::Auto => "partial",
                level => level.as_str(),
            },
        }
    }

    /// The limit on the processes of a skill's user that leaves the skill as many as its manifest says.
    pub(crate) fn most_processes(&self, manifest: &Manifest) -> u64 {
        self.others(manifest.jail.level).saturating_add(manifest.limits.processes)
    }

    /// How many processes the user of a skill has besides, as far as the limit on processes is about them too.
    fn others(&self, level: Level) -> u64 {
        let alone =
            counts_alone(self.0.facts.namespaces, level, is_5_14(&rustix::system::uname().release().to_string_lossy()));
        if alone { 0 } else { self.0.others.load(Ordering::Relaxed).saturating_add(UNCOUNTED_PROCESSES) }
    }

    /// Says in the log what a skill that can run goes without.
    pub(crate) fn announce(&self, manifest: &Manifest) {
        for lacking in self.lacking(manifest) {
            tracing::warn!(skill_id = manifest.id, "jailed only in part: {lacking}");
        }
    }

    /// What the skills' user does not reach by its permissions, of what all skills need.
    pub(crate) fn out_of_reach(&self, config: &Config, python: Option<&Interpreter>) -> Vec<PathBuf> {
        let user = self.0.users.shared();
        let python = python.into_iter().flat_map(|it| it.prefixes.iter().chain([&it.path]));
        let read = python.chain(&config.skill_dirs).chain([&self.0.temp]).filter(|it| !reach::reads(user, it));
        let write = [&config.allowed_root].into_iter().filter(|it| !reach::writes(user, it));
        read.chain(write).cloned().collect()
    }

    /// What a skill that can run goes without, if anything.
    pub(crate) fn lacking(&self, manifest: &Manifest) -> Vec<&'static str> {
        match manifest.jail.level {
            Level::Off => Vec::new(),
            _ => self.decide(&manifest.jail, || true).lacking,
        }
    }

    fn decide(&self, jail: &Jail, in_reach: impl FnOnce() -> bool) -> Decision {
        decide(self.0.facts, self.0.users.shared(), jail, in_reach)
    }

    /// Removes what killed supervisors left, and counts the processes of the skills' user. Reads folders: not for a thread that serves.
    pub(crate) fn look_after(&self) {
        temp::sweep(&self.0.temp);
        self.0.controller.sweep();
        let user = if self.0.facts.own_user { self.0.users.shared().uid } else { rustix::process::geteuid().as_raw() };
        self.0.others.store(tasks_of(user), Ordering::Relaxed);
    }
}

/// What a process sees of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visible {
    /// The library, the allowed root, and where it starts.
    Worker,
    /// The allowed root.
    Root,
    Nothing,
}

/// What a process gets, and what it goes without.
#[derive(Debug, PartialEq, Eq)]
struct Decision {
    identity: Identity,
    network: Network,
    /// What `standard` has and this does not: for people, the worst first.
    lacking: Vec<&'static str>,
    /// Why it is not `strict`, if it is `standard`.
    not_strict: Option<String>,
}

impl Decision {
    fn reached(&self) -> Level {
        match (self.lacking.as_slice(), &self.not_strict) {
            ([], None) => Level::Strict,
            ([], Some(_)) => Level::Standard,
            _ => Level::Auto,
        }
    }

    /// Why a level is not reached.
    fn falls_short_of(&self, level: Level) -> Option<String> {
        match level {
            Level::Off | Level::Auto => None,
            Level::Standard => self.lacking.first().map(|it| (*it).to_owned()),
            Level::Strict => self.lacking.first().map(|it| (*it).to_owned()).or_else(|| self.not_strict.clone()),
        }
    }
}

/// `in_reach`: whether the skills' user reaches all that the skill needs, by its permissions.
fn decide(facts: Facts, user: User, jail: &Jail, in_reach: impl FnOnce() -> bool) -> Decision {
    let mut lacking = Vec::new();
    let apart = facts.namespaces == Namespaces::Given;
    let all_of_files = apart || facts.landlock >= Facts::ALL_OF_FILES;
    if !all_of_files {
        lacking.push("it can't keep a process to its files (namespaces, or Landlock, ABI 3 of Linux 6.2)");
    }
    if !facts.calls {
        lacking.push("it can't filter system calls (seccomp)");
    }
    let mut identity = Identity { user: None, override_files: false, divides: false };
    if facts.own_user {
        let out_of_reach = !in_reach();
        // Without Landlock to bound it, a user that passes all permissions would be worse than none.
        let override_files = out_of_reach && facts.landlock >= Facts::ALL_OF_FILES;
        // Nor is root: in namespaces it would still own the settings below `/proc/sys`.
        if override_files || !out_of_reach || apart {
            identity = Identity { user: Some(user), override_files, divides: false };
        }
        if out_of_reach && apart && !override_files {
            lacking.push(
                "its user can't reach all it needs, and can't be let pass file permissions (Landlock, ABI 3 of Linux 6.2)",
            );
        }
    }
    if facts.root && identity.user.is_none() {
        lacking.push("root can't give a process a user of its own, and does not count processes of its own");
    }
    if identity.user.is_none() && !facts.signals && !apart {
        lacking
            .push("it can't keep a process from signalling the worker (namespaces, or Landlock, ABI 6 of Linux 6.12)");
    }
    let network = match &jail.network {
        Network::Connect(_) if !(facts.tcp && facts.calls) => {
            lacking.push("it can't keep to a list of ports (Landlock, ABI 4 of Linux 6.7): no network");
            Network::None
        }
        network => network.clone(),
    };
    let not_strict = (!apart).then(|| format!("a strict jail needs namespaces, and there are {}", facts.namespaces));
    Decision { identity, network, lacking, not_strict }
}

/// Whether only what a skill itself starts counts towards its limit on processes: in namespaces of its own, where the kernel
/// counts by user namespace (Linux 5.14).
fn counts_alone(namespaces: Namespaces, level: Level, by_namespace: bool) -> bool {
    level != Level::Off && namespaces == Namespaces::Given && by_namespace
}

/// Whether a release of Linux is 5.14 or later: `6.1.0-18-amd64`.
fn is_5_14(release: &str) -> bool {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map_while(|it| it.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 14)
}

/// How many processes and threads a user has: what the limit on processes counts.
fn tasks_of(user: u32) -> u64 {
    let tasks = |entry: std::fs::DirEntry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        (field("Uid:")? == user.to_string()).then_some(field("Threads:")?.parse::<u64>().ok()?)
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(tasks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: User = User { uid: 65534, gid: 65534 };
    const ALL: Facts = Facts {
        root: true,
        own_user: true,
        landlock: 7,
        tcp: true,
        signals: true,
        calls: true,
        namespaces: Namespaces::NotMade(1),
        maps_users: false,
    };

    fn decided(facts: Facts, network: Network, in_reach: bool) -> Decision {
        decide(facts, USER, &Jail { network, ..Jail::default() }, || in_reach)
    }

    #[test]
    fn with_everything_there_nothing_is_lacking() {
        let decision = decided(ALL, Network::Connect(vec![443]), true);
        assert_eq!(decision.lacking, [""; 0]);
        assert_eq!(decision.network, Network::Connect(vec![443]));
        assert_eq!(decision.identity, Identity { user: Some(USER), override_files: false, divides: false });
        let as_user = Facts { root: false, own_user: false, ..ALL };
        assert_eq!(decided(as_user, Network::None, true).lacking, [""; 0]);
    }

    #[test]
    fn permissions_are_passed_only_within_landlock() {
        for namespaces in [Namespaces::NotMade(1), Namespaces::Given] {
            let decision = decided(Facts { namespaces, ..ALL }, Network::None, false);
            assert_eq!(decision.identity, Identity { user: Some(USER), override_files: true, divides: false });
            assert!(decision.lacking.is_empty());
        }
        for landlock in 0..3 {
            // In namespaces it is not root either, which owns what is below `/proc/sys`.
            let decision = decided(Facts { landlock, namespaces: Namespaces::Given, ..ALL }, Network::None, false);
            assert_eq!(decision.identity, Identity { user: Some(USER), override_files: false, divides: false });
            assert!(decision.lacking.iter().any(|it| it.contains("can't reach")), "{decision:?}");
            let decision = decided(Facts { landlock, ..ALL }, Network::None, false);
            assert_eq!(decision.identity, Identity { user: None, override_files: false, divides: false });
            assert!(decision.lacking.iter().any(|it| it.contains("user of its own")), "{decision:?}");
        }
    }

    #[test]
    fn a_list_of_ports_that_can_not_be_kept_is_no_network() {
        for facts in [Facts { tcp: false, ..ALL }, Facts { calls: false, ..ALL }] {
            let decision = decided(facts, Network::Connect(vec![443]), true);
            assert_eq!(decision.network, Network::None);
            assert!(decision.lacking.iter().any(|it| it.contains("list of ports")), "{decision:?}");
        }
        assert_eq!(decided(Facts { tcp: false, ..ALL }, Network::None, true).lacking, [""; 0]);
    }

    #[test]
    fn processes_of_others_count_where_a_skill_has_no_namespaces_that_count_by_themselves() {
        assert!(counts_alone(Namespaces::Given, Level::Auto, true));
        assert!(!counts_alone(Namespaces::Given, Level::Off, true), "it has none of the namespaces that there are");
        assert!(!counts_alone(Namespaces::Given, Level::Strict, false));
        assert!(!counts_alone(Namespaces::NotMade(1), Level::Auto, true));
        let known = ["5.14.0", "5.15.0-91-generic", "6.1.0-18-amd64", "10.0"].map(is_5_14);
        assert_eq!((known, ["5.13.9", "4.18.0-513.el8", "", "x"].map(is_5_14)), ([true; 4], [false; 4]));
    }

    #[test]
    fn what_is_lacking_is_named() {
        let lacking = |facts| decided(facts, Network::None, true).lacking.join("; ");
        assert!(lacking(Facts { landlock: 0, ..ALL }).contains("files"));
        assert!(lacking(Facts { calls: false, ..ALL }).contains("seccomp"));
        assert!(lacking(Facts { own_user: false, ..ALL }).contains("user of its own"));
        assert_eq!(lacking(Facts { signals: false, ..ALL }), "");
        assert!(lacking(Facts { signals: false, root: false, own_user: false, ..ALL }).contains("signalling"));
    }
}
