//! From what the kernel gives and what a manifest asks for to what its process gets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::identity::{Identity, User};
use super::plan::{Plan, Walls};
use super::probe::Facts;
use super::roots::Roots;
use super::{reach, temp};
use crate::config::Config;
use crate::environment::Surroundings;
use crate::manifest::{Jail, Level, Manifest, Network};
use crate::runners::python::interpreter::Interpreter;

/// Decides for each skill of a worker. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Jailer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    facts: Facts,
    user: User,
    surroundings: Surroundings,
    roots: Roots,
    temp: PathBuf,
    /// How many processes and threads the user of skills had at the last look: a skill is not to suffer from another
    /// that has many, nor from what else the worker's user does.
    others: AtomicU64,
}

impl Jailer {
    /// Finds out what the kernel gives: takes some milliseconds, once.
    pub(crate) fn new(config: &Config, surroundings: Surroundings) -> Self {
        let facts = Facts::find(&config.supervisor, config.skill_user);
        let temp = std::env::temp_dir();
        let temp = temp.canonicalize().unwrap_or(temp);
        let (user, roots) = (config.skill_user, Roots::default());
        roots.in_reach(user, &surroundings.whole_root());
        let jailer = Self(Arc::new(Inner { facts, user, surroundings, roots, temp, others: AtomicU64::new(0) }));
        jailer.look_after();
        tracing::info!(?facts, "isolation that this machine supports");
        jailer
    }

    /// What was found.
    pub(crate) fn facts(&self) -> Facts {
        self.0.facts
    }

    /// The user that skills have, where the worker is root.
    pub(crate) fn user(&self) -> User {
        self.0.user
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
        let Inner { user, surroundings, roots, temp, others, .. } = self.0.as_ref();
        let plan = |walls| Some(Plan { temp: temp.clone(), others: others.load(Ordering::Relaxed), walls });
        if manifest.jail.level == Level::Off {
            return Ok(plan(None));
        }
        let library = surroundings.library().map(Path::to_owned);
        let named = manifest.jail.readable.iter().filter_map(|path| surroundings.unless_replaced(path));
        let readable = existing(readable.iter().cloned().chain(named).chain(library));
        let (root, writable) = (surroundings.root(manifest).to_owned(), writable.to_vec());
        let in_reach = || {
            // Decided once: a skill may change the mode of its root.
            roots.in_reach(*user, &surroundings.run_root(manifest))
                && readable.iter().chain([&surroundings.start_folder().to_owned()]).all(|it| reach::reads(*user, it))
                && writable.iter().all(|it| reach::writes(*user, it))
                && reach::reads(*user, temp)
        };
        let Decision { identity, network, lacking } = self.decide(&manifest.jail, in_reach);
        match lacking.as_slice() {
            [first, ..] if manifest.jail.level == Level::Required => {
                Err(format!("it requires a jail that this worker can't give: {first}"))
            }
            _ => {
                let Facts { landlock, calls, .. } = self.0.facts;
                let root = Some(root);
                Ok(plan(Some(Walls { identity, landlock: landlock > 0, calls, readable, root, writable, network })))
            }
        }
    }

    /// The limit on all processes of the skills' user that leaves a skill so many of its own.
    pub(crate) fn most_processes(&self, own: u64) -> u64 {
        self.0.others.load(Ordering::Relaxed).saturating_add(own)
    }

    /// Says in the log what a skill that can run goes without.
    pub(crate) fn announce(&self, manifest: &Manifest) {
        for lacking in self.lacking(manifest) {
            tracing::warn!(skill_id = manifest.id, "jailed only in part: {lacking}");
        }
    }

    /// What the skills' user does not reach by its permissions, of what all skills need.
    pub(crate) fn out_of_reach(&self, config: &Config, python: Option<&Interpreter>) -> Vec<PathBuf> {
        let user = self.0.user;
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
        decide(self.0.facts, self.0.user, jail, in_reach)
    }

    /// Removes what killed supervisors left, and counts the processes of the skills' user. Reads folders: not for a thread that serves.
    pub(crate) fn look_after(&self) {
        temp::sweep(&self.0.temp);
        let user = if self.0.facts.own_user { self.0.user.uid } else { rustix::process::geteuid().as_raw() };
        self.0.others.store(tasks_of(user), Ordering::Relaxed);
    }
}

/// What a process gets, and what it goes without.
#[derive(Debug, PartialEq, Eq)]
struct Decision {
    identity: Identity,
    network: Network,
    /// For people, the worst first.
    lacking: Vec<&'static str>,
}

/// `in_reach`: whether the skills' user reaches all that the skill needs, by its permissions.
fn decide(facts: Facts, user: User, jail: &Jail, in_reach: impl FnOnce() -> bool) -> Decision {
    let mut lacking = Vec::new();
    let all_of_files = facts.landlock >= Facts::ALL_OF_FILES;
    if !all_of_files {
        lacking.push("it can't keep a process to its files (Landlock, ABI 3 of Linux 6.2)");
    }
    if !facts.calls {
        lacking.push("it can't filter system calls (seccomp)");
    }
    let mut identity = Identity { user: None, override_files: false };
    if facts.own_user {
        let override_files = !in_reach();
        // Without Landlock to bound it, a user that passes all permissions would be worse than none.
        if !override_files || all_of_files {
            identity = Identity { user: Some(user), override_files };
        }
    }
    if facts.root && identity.user.is_none() {
        lacking.push("root can't give a process a user of its own, and does not count processes of its own");
    }
    if identity.user.is_none() && !facts.signals {
        lacking.push("it can't keep a process from signalling the worker (Landlock, ABI 6 of Linux 6.12)");
    }
    let network = match &jail.network {
        Network::Connect(_) if !(facts.tcp && facts.calls) => {
            lacking.push("it can't keep to a list of ports (Landlock, ABI 4 of Linux 6.7): no network");
            Network::None
        }
        network => network.clone(),
    };
    Decision { identity, network, lacking }
}

/// Each once, links resolved as well: what a link leads to is another path to Landlock.
fn existing(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths.filter_map(|path| path.canonicalize().ok()) {
        // "/" would be everything; an interpreter beneath it is among the system's programs.
        if path.parent().is_some() && !found.contains(&path) {
            found.push(path);
        }
    }
    found
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
    const ALL: Facts = Facts { root: true, own_user: true, landlock: 7, tcp: true, signals: true, calls: true };

    fn decided(facts: Facts, network: Network, in_reach: bool) -> Decision {
        decide(facts, USER, &Jail { network, ..Jail::default() }, || in_reach)
    }

    #[test]
    fn with_everything_there_nothing_is_lacking() {
        let decision = decided(ALL, Network::Connect(vec![443]), true);
        assert_eq!(decision.lacking, [""; 0]);
        assert_eq!(decision.network, Network::Connect(vec![443]));
        assert_eq!(decision.identity, Identity { user: Some(USER), override_files: false });
        let as_user = Facts { root: false, own_user: false, ..ALL };
        assert_eq!(decided(as_user, Network::None, true).lacking, [""; 0]);
    }

    #[test]
    fn permissions_are_passed_only_within_landlock() {
        let decision = decided(ALL, Network::None, false);
        assert_eq!(decision.identity, Identity { user: Some(USER), override_files: true });
        assert!(decision.lacking.is_empty());
        for landlock in 0..3 {
            let decision = decided(Facts { landlock, ..ALL }, Network::None, false);
            assert_eq!(decision.identity, Identity { user: None, override_files: false });
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
    fn what_is_lacking_is_named() {
        let lacking = |facts| decided(facts, Network::None, true).lacking.join("; ");
        assert!(lacking(Facts { landlock: 0, ..ALL }).contains("files"));
        assert!(lacking(Facts { calls: false, ..ALL }).contains("seccomp"));
        assert!(lacking(Facts { own_user: false, ..ALL }).contains("user of its own"));
        assert_eq!(lacking(Facts { signals: false, ..ALL }), "");
        assert!(lacking(Facts { signals: false, root: false, own_user: false, ..ALL }).contains("signalling"));
    }
}
