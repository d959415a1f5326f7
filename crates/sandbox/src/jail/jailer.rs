//! Plans the jail of each process, given the requirements and what the kernel supports.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::identity::{Identity, User};
use super::plan::{Plan, Walls};
use super::probe::{Namespaces, SystemSupport};
use super::reach::{self, READ, WRITE};
use super::readable::{ReadablePaths, resolve_readable};
use super::requirement::{Level, Network};
use super::roots::{ALL, Roots};
use super::temp;
use super::users::{SkillUsers, Users};
use crate::allowed_root::{AllowedRoot, RunRoot};
use crate::bounds::{Controller, Kind, TreeBounds};
use crate::limits::Limits;

const MIB: u64 = 1024 * 1024;

/// Allowance for processes of the skills' user that started after the last count, such as fork servers. The limit
/// on one call's processes stays exact, because the kernel or the supervisor counts those.
const UNCOUNTED_PROCESSES: u64 = 32;

/// The requirements from which a process's jail is planned.
#[derive(Debug)]
pub struct JailRequest<'a> {
    /// The required level of isolation.
    pub level: Level,
    /// The network that the process may use.
    pub network: &'a Network,
    /// The limits on the process's resources.
    pub limits: &'a Limits,
    /// The absolute paths that it may read and run in addition to the system's programs. Missing ones are omitted.
    pub readable: Vec<PathBuf>,
    /// The absolute paths that it may change, which must exist.
    pub writable: Vec<PathBuf>,
    /// Its allowed root. `None` if it sees no root.
    pub root: Option<RunRoot>,
    /// The working directory, if the process must see it at its path.
    pub start: Option<PathBuf>,
}

/// Plans the jail of each of a worker's skills. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Jailer(Arc<JailerState>);

#[derive(Debug)]
struct JailerState {
    facts: SystemSupport,
    users: Users,
    /// The minimum level of each of this worker's skills that does not set `off`.
    least: Level,
    allowed_root: AllowedRoot,
    roots: Roots,
    temp: PathBuf,
    controller: Controller,
    /// How many processes and threads the skills' user had at the last count. They are added to a skill's limit,
    /// so that other skills' processes, and other activity of the worker's user, do not use it up.
    others: AtomicU64,
}

impl Jailer {
    /// Probes which features the kernel supports. Takes some milliseconds, once. `supervisor`: the openskill
    /// binary. `least`: the minimum level of each process that does not set `off`.
    pub fn new(supervisor: &Path, users: SkillUsers, least: Level, allowed_root: AllowedRoot) -> Self {
        let users = Users::new(users);
        let facts = SystemSupport::find(supervisor, users.shared_user(), allowed_root.path());
        let controller = Controller::find(supervisor);
        let temp = std::env::temp_dir();
        let temp = temp.canonicalize().unwrap_or(temp);
        let (roots, others) = (Roots::default(), AtomicU64::new(0));
        roots.in_reach(users.shared_user(), &allowed_root.run_root("", None));
        let jailer = Self(Arc::new(JailerState { facts, users, least, allowed_root, roots, temp, controller, others }));
        jailer.look_after();
        let bounds = jailer.0.controller.kind.word();
        tracing::info!(?facts, bounds, "detected the isolation that this machine supports");
        jailer
    }

    /// Returns which features this kernel supports.
    pub fn facts(&self) -> SystemSupport {
        self.0.facts
    }

    /// Returns the user that skills run as if the worker is root.
    pub fn user(&self) -> User {
        self.0.users.shared_user()
    }

    /// Returns whether each run has its own user instead.
    pub fn gives_own_users(&self) -> bool {
        self.0.users.are_own(self.0.facts.maps_users)
    }

    /// Plans the jail of a process.
    ///
    /// A process without walls also gets a plan, because it still has a private temporary folder.
    ///
    /// # Errors
    /// Fails if the request requires more than this machine supports, and lists what is missing.
    pub fn plan(&self, request: JailRequest<'_>) -> Result<Plan, String> {
        let JailerState { facts, users, allowed_root, roots, temp, .. } = self.0.as_ref();
        let JailRequest { level, network, limits, readable, writable, root: run_root, start } = request;
        if level == Level::Off {
            return Ok(self.plan_within(level, limits, None));
        }
        let ReadablePaths { readable, mut names } = resolve_readable(allowed_root, readable.into_iter());
        let root = run_root.as_ref().map(RunRoot::path);
        // Decided only once, because a skill may change its root's mode.
        let reach_of_root = run_root.map_or(ALL, |root| roots.in_reach(users.shared_user(), &root));
        let own_user = users.are_own(facts.maps_users);
        let map_root = root.is_some() && (own_user || (facts.maps_users && !reach_of_root.itself));
        let user = users.next(facts.maps_users);
        let in_reach = || match facts.namespaces {
            // Inside the process's own root, the folders above a path are not those of the host.
            Namespaces::Given => {
                readable.iter().all(|it| reach::reaches_itself(user, it.metadata(), READ))
                    && writable.iter().all(|it| reach::reaches_itself(user, it.metadata(), WRITE))
                    && (map_root || reach_of_root.itself)
            }
            _ => {
                readable.iter().chain(&start).all(|it| reach::reaches(user, it, READ))
                    && writable.iter().all(|it| reach::reaches(user, it, WRITE))
                    && reach_of_root.itself
                    && reach_of_root.way
                    && reach::reaches(user, temp, READ)
            }
        };
        let decision = decide(*facts, user, network, in_reach);
        if let Some(reason) = decision.falls_short_of(level.max(self.0.least)) {
            return Err(format!("it requires a jail that this worker can't give: {reason}"));
        }
        let JailDecision { identity, network, .. } = decision;
        let namespaces = facts.namespaces == Namespaces::Given;
        names.extend(start);
        let map_root = map_root && identity.user.is_some();
        let counted = self.0.controller.kind != Kind::Measured;
        let walls = Walls {
            identity,
            namespaces,
            landlock: facts.landlock > 0,
            calls: facts.calls,
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
        Ok(self.plan_within(level, limits, Some(walls)))
    }

    fn plan_within(&self, level: Level, limits: &Limits, walls: Option<Walls>) -> Plan {
        let others = self.others(level);
        let JailerState { temp, controller, .. } = self.0.as_ref();
        let bounds = TreeBounds {
            memory_bytes: limits.memory_mb.saturating_mul(MIB),
            processes: limits.processes,
            cpu_seconds: limits.cpu_seconds,
        };
        let temp_bytes = limits.temp_mb.saturating_mul(MIB);
        Plan { temp: temp.clone(), temp_bytes, controller: controller.clone(), bounds, others, walls }
    }

    /// Describes for people what counts the resources that skills use, and why nothing better does.
    pub fn describe_counting(&self) -> String {
        let controller = &self.0.controller;
        match controller.reason.as_str() {
            "" => controller.to_string(),
            reason => format!("{controller} ({reason})"),
        }
    }

    /// Removes the worker's control groups. Called when it ends.
    pub fn close(&self) {
        self.0.controller.close();
    }

    /// Returns how well processes with these requirements are isolated here: `strict`, `standard`, `partial` (less
    /// than `standard`) or `off`.
    pub fn isolation_level(&self, level: Level, network: &Network) -> &'static str {
        match level {
            Level::Off => Level::Off.as_str(),
            _ => match self.decide(network).level() {
                Level::Off | Level::Auto => "partial",
                level => level.as_str(),
            },
        }
    }

    /// Returns the limit on the skill user's processes that leaves the skill this many processes.
    pub fn most_processes(&self, level: Level, processes: u64) -> u64 {
        self.others(level).saturating_add(processes)
    }

    /// Returns how many other processes a skill's user has, if the limit counts them too.
    fn others(&self, level: Level) -> u64 {
        let alone =
            counts_alone(self.0.facts.namespaces, level, is_5_14(&rustix::system::uname().release().to_string_lossy()));
        if alone { 0 } else { self.0.others.load(Ordering::Relaxed).saturating_add(UNCOUNTED_PROCESSES) }
    }

    /// Returns the paths that the skills' user has no permission to read or to write. Checks the parent of
    /// temporary folders together with the readable paths.
    pub fn out_of_reach<'a>(
        &'a self,
        read: impl Iterator<Item = &'a PathBuf>,
        write: impl Iterator<Item = &'a PathBuf>,
    ) -> Vec<PathBuf> {
        let user = self.0.users.shared_user();
        let read = read.chain([&self.0.temp]).filter(|it| !reach::reaches(user, it, READ));
        read.chain(write.filter(|it| !reach::reaches(user, it, WRITE))).cloned().collect()
    }

    /// Returns the walls that are missing for a process that can still run.
    pub fn lacking(&self, level: Level, network: &Network) -> Vec<&'static str> {
        if level == Level::Off { Vec::new() } else { self.decide(network).lacking }
    }

    /// Decides for a process whose paths are all within reach.
    fn decide(&self, network: &Network) -> JailDecision {
        decide(self.0.facts, self.0.users.shared_user(), network, || true)
    }

    /// Removes the remains of killed supervisors, and counts the processes of the skills' user. Reads folders, so
    /// do not call it on a thread that serves requests.
    pub fn look_after(&self) {
        temp::sweep(&self.0.temp);
        self.0.controller.sweep();
        let user =
            if self.0.facts.own_user { self.0.users.shared_user().uid } else { rustix::process::geteuid().as_raw() };
        self.0.others.store(tasks_of(user), Ordering::Relaxed);
    }
}

/// The walls of a process's jail, and what is missing.
#[derive(Debug, PartialEq, Eq)]
struct JailDecision {
    identity: Identity,
    network: Network,
    /// The parts of `standard` that this jail lacks, for people, worst first.
    lacking: Vec<&'static str>,
    /// Why the level is `standard` rather than `strict`.
    not_strict: Option<String>,
}

impl JailDecision {
    fn level(&self) -> Level {
        match (self.lacking.as_slice(), &self.not_strict) {
            ([], None) => Level::Strict,
            ([], Some(_)) => Level::Standard,
            _ => Level::Auto,
        }
    }

    /// Returns why the jail does not reach a level.
    fn falls_short_of(&self, level: Level) -> Option<String> {
        match level {
            Level::Off | Level::Auto => None,
            Level::Standard => self.lacking.first().map(|it| (*it).to_owned()),
            Level::Strict => self.lacking.first().map(|it| (*it).to_owned()).or_else(|| self.not_strict.clone()),
        }
    }
}

/// Decides on a jail. `in_reach`: whether the skills' user has permission for all paths that the skill needs.
fn decide(facts: SystemSupport, user: User, network: &Network, in_reach: impl FnOnce() -> bool) -> JailDecision {
    let mut lacking = Vec::new();
    let apart = facts.namespaces == Namespaces::Given;
    let all_of_files = apart || facts.landlock >= SystemSupport::ALL_OF_FILES;
    if !all_of_files {
        lacking.push("it can't restrict a process to its files (namespaces, or Landlock, ABI 3 of Linux 6.2)");
    }
    if !facts.calls {
        lacking.push("it can't filter system calls (seccomp)");
    }
    let mut identity = Identity { user: None, override_files: false, divides: false };
    if facts.own_user {
        let out_of_reach = !in_reach();
        // Unless Landlock restricts it, a user that bypasses all permissions would be worse than no separate user.
        let override_files = out_of_reach && facts.landlock >= SystemSupport::ALL_OF_FILES;
        // Running as root is no alternative, because in namespaces it would still own the settings in `/proc/sys`.
        if override_files || !out_of_reach || apart {
            identity = Identity { user: Some(user), override_files, divides: false };
        }
        if out_of_reach && apart && !override_files {
            lacking.push(
                "its user can't reach all the files that it needs, and must not bypass file permissions (Landlock, ABI 3 of Linux 6.2)",
            );
        }
    }
    if facts.root && identity.user.is_none() {
        lacking.push("root can't give a process its own user, and its processes are not counted");
    }
    if identity.user.is_none() && !facts.signals && !apart {
        lacking
            .push("it can't keep a process from signalling the worker (namespaces, or Landlock, ABI 6 of Linux 6.12)");
    }
    let network = match network {
        Network::Connect(_) if !(facts.tcp && facts.calls) => {
            lacking.push("it can't enforce a list of ports (Landlock, ABI 4 of Linux 6.7): no network");
            Network::None
        }
        network => network.clone(),
    };
    let not_strict = (!apart).then(|| format!("a strict jail needs namespaces, but there are {}", facts.namespaces));
    JailDecision { identity, network, lacking, not_strict }
}

/// Returns whether the limit on processes counts only what a skill itself starts. This is so in its own
/// namespaces, if the kernel counts by user namespace (Linux 5.14).
fn counts_alone(namespaces: Namespaces, level: Level, by_namespace: bool) -> bool {
    level != Level::Off && namespaces == Namespaces::Given && by_namespace
}

/// Returns whether a Linux release such as `6.1.0-18-amd64` is at least 5.14.
fn is_5_14(release: &str) -> bool {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map_while(|it| it.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 14)
}

/// Counts a user's processes and threads in the same way as the limit on processes.
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
    const ALL: SystemSupport = SystemSupport {
        root: true,
        own_user: true,
        landlock: 7,
        tcp: true,
        signals: true,
        calls: true,
        namespaces: Namespaces::NotMade(1),
        maps_users: false,
    };

    fn decided(facts: SystemSupport, network: Network, in_reach: bool) -> JailDecision {
        decide(facts, USER, &network, || in_reach)
    }

    #[test]
    fn with_everything_there_nothing_is_lacking() {
        let decision = decided(ALL, Network::Connect(vec![443]), true);
        assert_eq!(decision.lacking, [""; 0]);
        assert_eq!(decision.network, Network::Connect(vec![443]));
        assert_eq!(decision.identity, Identity { user: Some(USER), override_files: false, divides: false });
        let as_user = SystemSupport { root: false, own_user: false, ..ALL };
        assert_eq!(decided(as_user, Network::None, true).lacking, [""; 0]);
    }

    #[test]
    fn permissions_are_passed_only_within_landlock() {
        for namespaces in [Namespaces::NotMade(1), Namespaces::Given] {
            let decision = decided(SystemSupport { namespaces, ..ALL }, Network::None, false);
            assert_eq!(decision.identity, Identity { user: Some(USER), override_files: true, divides: false });
            assert!(decision.lacking.is_empty());
        }
        for landlock in 0..3 {
            // In namespaces it is not root either, because root owns the settings in `/proc/sys`.
            let decision =
                decided(SystemSupport { landlock, namespaces: Namespaces::Given, ..ALL }, Network::None, false);
            assert_eq!(decision.identity, Identity { user: Some(USER), override_files: false, divides: false });
            assert!(decision.lacking.iter().any(|it| it.contains("can't reach")), "{decision:?}");
            let decision = decided(SystemSupport { landlock, ..ALL }, Network::None, false);
            assert_eq!(decision.identity, Identity { user: None, override_files: false, divides: false });
            assert!(decision.lacking.iter().any(|it| it.contains("its own user")), "{decision:?}");
        }
    }

    #[test]
    fn a_list_of_ports_that_can_not_be_kept_is_no_network() {
        for facts in [SystemSupport { tcp: false, ..ALL }, SystemSupport { calls: false, ..ALL }] {
            let decision = decided(facts, Network::Connect(vec![443]), true);
            assert_eq!(decision.network, Network::None);
            assert!(decision.lacking.iter().any(|it| it.contains("list of ports")), "{decision:?}");
        }
        assert_eq!(decided(SystemSupport { tcp: false, ..ALL }, Network::None, true).lacking, [""; 0]);
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
        assert!(lacking(SystemSupport { landlock: 0, ..ALL }).contains("files"));
        assert!(lacking(SystemSupport { calls: false, ..ALL }).contains("seccomp"));
        assert!(lacking(SystemSupport { own_user: false, ..ALL }).contains("its own user"));
        assert_eq!(lacking(SystemSupport { signals: false, ..ALL }), "");
        assert!(lacking(SystemSupport { signals: false, root: false, own_user: false, ..ALL }).contains("signalling"));
    }
}
