use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::controller::TREE_PREFIX;
use super::find::try_v2;
use super::folder::{CgroupFolder, PROCESSES};
use super::mounts::Sources;
use super::{Controller, ExceededLimit, Group, Kind, Meter, TreeBounds, Usage, events, removal, settings};
use crate::folder_owner::FolderOwner;
use crate::require::{Need, skip};
use crate::tree;

mod actor;
mod cpu;

use actor::Actor;

const MIB: u64 = 1024 * 1024;

const BOUNDS: TreeBounds = TreeBounds { memory_bytes: 64 * MIB, processes: 32, cpu_seconds: 60 };

/// A controller whose folders are removed when the test ends.
struct Found(Controller);

impl Found {
    /// Finds a controller. Returns `None` if this machine provides no control groups, so that the test is skipped.
    fn here() -> Option<Self> {
        let controller = Controller::find_with(&|| Command::new("cat"));
        if controller.kind == Kind::Measured {
            skip(Need::Cgroups, &controller.reason);
            return None;
        }
        Some(Self(controller))
    }

    fn group(&self, name: &str, bounds: TreeBounds) -> Group {
        Group::create(&self.0, name, bounds).unwrap()
    }

    /// Returns the existing folders with this name.
    fn folders(&self, name: &str) -> Vec<PathBuf> {
        let all = self.0.bases.iter().flat_map(|base| std::fs::read_dir(base).unwrap().flatten());
        let found = all.filter(|it| it.file_name().to_string_lossy().ends_with(&format!("-{name}")));
        found.map(|it| it.path()).collect()
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        self.0.close();
        assert!(!self.0.bases.iter().any(|base| base.exists()), "{} is left", self.0);
    }
}

/// Creates a controller without folders.
fn without_folders(kind: Kind) -> Controller {
    Controller { kind, bases: Vec::new(), memory: 0, cpu: None, reason: String::new() }
}

/// Kills everything in the group except the caller. Returns whether it is empty after at most `patience`.
fn kill(group: &Group, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    group.cgroups.iter().filter(|it| !removal::kill(&it.folder, until)).count() == 0
}

fn is_dead(pid: i32) -> bool {
    matches!(tree::state(pid), None | Some('Z' | 'X'))
}

#[test]
fn memory_in_a_memfd_is_bounded() {
    let Some(found) = Found::here() else { return };
    let group = found.group("memfd", BOUNDS);
    assert_eq!(group.likely_cause(), None);
    let mut actor = Actor::start("memfd");
    group.add(actor.pid()).unwrap();
    assert!(group.holds(actor.pid()).unwrap());
    actor.tell("200");
    assert_eq!(actor.hear(), None, "it was killed");
    assert_eq!(actor.child.wait().unwrap().signal(), Some(9));
    let exceeded = group.likely_cause().unwrap();
    assert_eq!(exceeded.explain(&BOUNDS), "the skill exceeded its memory_mb limit: 64 MiB");
    assert!(!found.folders("memfd").is_empty());
    drop(group);
    assert!(found.folders("memfd").is_empty());
}

#[test]
fn memory_within_the_bound_is_no_event() {
    let Some(found) = Found::here() else { return };
    let group = found.group("within", BOUNDS);
    let mut actor = Actor::start("memfd");
    group.add(actor.pid()).unwrap();
    actor.tell("32");
    assert_eq!(actor.hear().as_deref(), Some("full"));
    assert_eq!(group.likely_cause(), None);
}

#[test]
fn a_bomb_hits_its_own_bound_and_not_its_neighbours() {
    let Some(found) = Found::here() else { return };
    let bounds = TreeBounds { processes: 10, ..BOUNDS };
    let (bombed, spared) = (found.group("bombed", bounds), found.group("spared", bounds));
    let (mut bomb, mut neighbour) = (Actor::start("bomb"), Actor::start("bomb"));
    bombed.add(bomb.pid()).unwrap();
    spared.add(neighbour.pid()).unwrap();
    bomb.tell("100");
    let started: u64 = bomb.hear().unwrap().parse().unwrap();
    assert!((1..10).contains(&started), "{started}");
    neighbour.tell("5");
    assert_eq!(neighbour.hear().as_deref(), Some("5"));
    assert_eq!(bombed.likely_cause(), Some(ExceededLimit::Processes));
    assert_eq!(spared.likely_cause(), None);
}

#[test]
fn what_is_left_in_a_group_is_killed_with_it() {
    let Some(found) = Found::here() else { return };
    let group = found.group("dropped", BOUNDS);
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    group.add(child.id() as i32).unwrap();
    drop(group);
    assert!(is_dead(child.id() as i32));
    assert!(found.folders("dropped").is_empty());
    child.wait().unwrap();
}

#[test]
fn a_process_whose_first_thread_has_exited_is_killed_and_counted() {
    let Some(found) = Found::here() else { return };
    let program = "import ctypes, os, platform, threading, time\n\
                   memory = bytearray(b'x' * 100_000_000)\n\
                   def act():\n\
                   \x20   while ' Z ' not in open('/proc/self/stat').read():\n\
                   \x20       time.sleep(0.001)\n\
                   \x20   print('ACTOR alive', flush=True)\n\
                   \x20   time.sleep(60)\n\
                   threading.Thread(target=act, daemon=True).start()\n\
                   input()\n\
                   ctypes.CDLL(None).syscall({'x86_64': 60}.get(platform.machine(), 93), 0)\n";
    let Some(mut actor) = Actor::python(program) else { return skip(Need::Python, "no python3") };
    let group = found.group("headless", TreeBounds { memory_bytes: 512 * MIB, ..BOUNDS });
    group.add(actor.pid()).unwrap();
    actor.tell("");
    assert_eq!(actor.hear().as_deref(), Some("alive"));
    assert_eq!(tree::state(actor.pid()), Some('Z'), "it looks dead");
    let mut meter = Meter::for_tree(BOUNDS, actor.pid(), None);
    assert_eq!(meter.measure().exceeds(&BOUNDS), Some(ExceededLimit::Memory));
    assert!(kill(&group, Duration::from_secs(5)));
    assert_eq!(actor.hear(), None);
}

#[test]
fn nothing_is_started_in_a_group_that_was_killed() {
    let Some(found) = Found::here() else { return };
    let group = found.group("killed", BOUNDS);
    assert!(kill(&group, Duration::ZERO), "there was nothing to wait for");
    let mut actor = Actor::start("bomb");
    group.add(actor.pid()).unwrap();
    actor.tell("3");
    assert_eq!(actor.hear().as_deref(), Some("0"));
}

#[test]
fn a_sweep_takes_what_a_killed_supervisor_left_and_nothing_else() {
    let Some(found) = Found::here() else { return };
    let alive = found.group("alive", BOUNDS);
    let mut owner = Actor::start("owner");
    owner.tell(&serde_json::to_string(&found.0).unwrap());
    let orphan: i32 = owner.hear().unwrap().parse().unwrap();
    found.0.sweep();
    assert!(!found.folders("left").is_empty(), "it lives");
    owner.child.kill().unwrap();
    owner.child.wait().unwrap();
    assert!(!is_dead(orphan) && !found.folders("left").is_empty());
    // Concerns only this test's folder, because other tests sweep only its siblings.
    assert!(found.0.sweep() >= found.0.bases.len());
    assert!(is_dead(orphan) && found.folders("left").is_empty());
    assert!(!found.folders("alive").is_empty());
    drop(alive);
}

#[test]
fn a_supervisor_in_its_own_group_is_not_killed_with_it() {
    let Some(found) = Found::here() else { return };
    let mut guest = Actor::start("guest");
    guest.tell(&serde_json::to_string(&found.0).unwrap());
    assert_eq!(guest.hear().as_deref(), Some("alive"));
    assert!(guest.child.wait().unwrap().success());
    found.0.sweep();
    assert!(found.folders("guest").is_empty());
}

#[test]
fn a_sweep_takes_the_folder_of_a_dead_worker() {
    let Some(found) = Found::here() else { return };
    let own = FolderOwner::own().unwrap().to_string();
    let mut child = Command::new("true").spawn().unwrap();
    let dead = own.replace(&format!("-{}-", std::process::id()), &format!("-{}-", child.id()));
    child.wait().unwrap();
    for base in &found.0.bases {
        let folder = base.with_file_name(format!("openskill-{dead}-0"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir(folder.join(format!("{TREE_PREFIX}{dead}-x"))).unwrap();
    }
    found.0.sweep();
    for base in &found.0.bases {
        assert!(!base.with_file_name(format!("openskill-{dead}-0")).exists() && base.exists());
    }
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let controller = Controller { bases: vec!["/".into()], ..without_folders(Kind::V2) };
    for name in ["", "../x", "a/b", "a b", &"a".repeat(65)] {
        let refused = Group::create(&controller, name, BOUNDS).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput, "{name}");
    }
    let measured = without_folders(Kind::Measured);
    assert_eq!(Group::create(&measured, "a", BOUNDS).unwrap_err().kind(), std::io::ErrorKind::Unsupported);
}

#[test]
fn a_controller_that_is_not_taken_says_why() {
    let sources = Sources::read().unwrap();
    match try_v2(&sources, &|| Command::new("cat")) {
        Ok(found) => found.close(),
        Err(reason) => assert!(!reason.is_empty()),
    }
    let nowhere = Sources { cgroup: "0::/\n".to_owned(), mountinfo: String::new() };
    let reason = try_v2(&nowhere, &|| Command::new("cat")).unwrap_err();
    assert_eq!(reason, "not mounted, or only a part of it that does not contain this process");
    // On a v1 machine, v2 is often mounted too, without the controllers that v1 has.
    let hybrid = folder("hybrid", &[("cgroup.controllers", "hugetlb\n"), (PROCESSES, &tree::own_pid().to_string())]);
    let mountinfo = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", hybrid.display());
    let reason = try_v2(&Sources { mountinfo, ..nowhere }, &|| Command::new("cat")).unwrap_err();
    assert!(reason.ends_with("has no controller memory, pids; it has: hugetlb"), "{reason}");
    std::fs::remove_dir_all(hybrid).unwrap();
}

/// Creates a folder with files, which may look like a v2 group.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("openskill-bounds-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    files.iter().for_each(|(file, text)| std::fs::write(path.join(file), text).unwrap());
    path
}

#[test]
fn the_bounds_of_v2_are_in_its_files() {
    let files = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max"].map(|file| (file, ""));
    let path = folder("v2", &files);
    let read = |file: &str| std::fs::read_to_string(path.join(file)).unwrap();
    let group = CgroupFolder::open(&path).unwrap();
    settings::bound_v2(&group, &BOUNDS).unwrap();
    assert_eq!(files.map(|(file, _)| read(file)), ["67108864", "0", "1", "32"]);
    // As on a machine without swap and with an old kernel.
    std::fs::remove_file(path.join("memory.swap.max")).unwrap();
    std::fs::remove_file(path.join("memory.oom.group")).unwrap();
    settings::bound_v2(&group, &TreeBounds { processes: u64::MAX, ..BOUNDS }).unwrap();
    assert_eq!(read("pids.max"), "max");
    std::fs::remove_file(path.join("memory.max")).unwrap();
    assert!(settings::bound_v2(&group, &BOUNDS).is_err());
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn the_events_of_v2_tell_the_own_bound_from_that_of_others() {
    let path = folder("events", &[("pids.events", "max 3\n"), ("pids.peak", "31\n")]);
    let group = CgroupFolder::open(&path).unwrap();
    let events = |text: &str| {
        std::fs::write(path.join("memory.events"), text).unwrap();
        events::likely_cause_v2(&group, &BOUNDS)
    };
    assert_eq!(events("max 9\noom 1\noom_kill 2\n"), Some(ExceededLimit::Memory));
    assert_eq!(events("max 0\noom 0\noom_kill 1\n"), Some(ExceededLimit::SharedMemory));
    assert_eq!(events("max 9\noom 0\noom_kill 0\n"), None, "another's bound on processes was hit");
    std::fs::write(path.join("pids.peak"), "32\n").unwrap();
    assert_eq!(events("max 9\noom 0\noom_kill 0\n"), Some(ExceededLimit::Processes));
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_group_of_v2_is_killed_and_removed_without_controllers_too() {
    let own = Sources::read().unwrap().v2().into_iter().next();
    let name = format!("openskill-kill-{}", std::process::id());
    let made = own.as_deref().map(CgroupFolder::open).and_then(Result::ok).filter(|it| it.make(&name).is_ok());
    let Some(parent) = made else { return skip(Need::Cgroups, "no cgroup v2 to write to") };
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    parent.sub(&name).unwrap().write(PROCESSES, &child.id().to_string()).unwrap();
    assert!(parent.remove(&name).is_err(), "somebody lives there");
    assert!(removal::remove(&parent, &name, Instant::now() + Duration::from_secs(5)));
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn a_controller_reaches_its_supervisor_without_the_reason() {
    let bases = ["/p", "/m", "/c"].map(PathBuf::from).to_vec();
    let reason = "cgroup v2: not mounted".to_owned();
    let controller = Controller { bases, memory: 1, cpu: Some(2), reason, ..without_folders(Kind::V1) };
    let text = serde_json::to_string(&controller).unwrap();
    let sent: Controller = serde_json::from_str(&text).unwrap();
    assert_eq!(sent, Controller { reason: String::new(), ..controller.clone() });
    assert_eq!(controller.to_string(), "cgroup v1 at /p and /m and /c");
}

#[test]
fn a_meter_counts_what_a_tree_has_allocated() {
    let mut actor = Actor::start("allocate");
    let mut meter = Meter::for_tree(BOUNDS, actor.pid(), None);
    let before = meter.measure();
    assert_eq!(before.exceeds(&BOUNDS), None, "{before:?}");
    actor.tell("100");
    assert_eq!(actor.hear().as_deref(), Some("allocated"));
    let after = meter.measure();
    assert_eq!(after.exceeds(&BOUNDS), Some(ExceededLimit::Memory));
    assert!((100 * MIB..120 * MIB).contains(&after.memory_bytes), "{after:?}");
}

#[test]
fn a_meter_counts_once_what_processes_share() {
    let program = "import os, time\n\
                   input()\n\
                   memory = bytearray(b'x' * 100_000_000)\n\
                   for _ in range(3):\n    if os.fork() == 0:\n        time.sleep(60)\n\
                   print('ACTOR forked', flush=True)\n\
                   time.sleep(60)\n";
    let Some(mut actor) = Actor::python(program) else { return skip(Need::Python, "no python3") };
    let bounds = TreeBounds { memory_bytes: 160 * MIB, ..BOUNDS };
    let mut meter = Meter::for_tree(bounds, actor.pid(), None);
    actor.tell("");
    assert_eq!(actor.hear().as_deref(), Some("forked"));
    let tree: Vec<i32> = tree::Snapshot::take().descendants(actor.pid()).iter().map(|it| it.pid).collect();
    let now = Instant::now();
    let all: Vec<i32> = tree.iter().copied().chain([actor.pid()]).collect();
    meter.measure_listed(&all, now);
    // No process is newborn any more.
    let usage = meter.measure_listed(&all, now + Duration::from_secs(1));
    assert_eq!(usage.exceeds(&bounds), None, "{usage:?}");
    assert!(usage.memory_bytes > 95 * MIB, "{usage:?}");
    tree.into_iter().for_each(tree::kill);
}

#[test]
fn a_process_above_a_tree_counts_only_by_what_came_to_it() {
    let mut above = Actor::start("bomb");
    above.tell("3");
    assert_eq!(above.hear().as_deref(), Some("3"));
    let mut actor = Actor::start("allocate");
    actor.tell("100");
    assert_eq!(actor.hear().as_deref(), Some("allocated"));
    let alone = Meter::for_tree(BOUNDS, actor.pid(), None).measure();
    let mut meter = Meter::for_tree(BOUNDS, actor.pid(), Some(above.pid()));
    assert_eq!(meter.measure().processes, alone.processes + 3);
    // `actor` is above this tree, so its own memory does not count.
    let mut shared = Meter::for_tree(BOUNDS, above.pid(), Some(actor.pid()));
    assert!(shared.measure().memory_bytes < 64 * MIB, "{shared:?}");
    above.tell("");
    above.child.wait().unwrap();
}

#[test]
fn a_meter_looks_no_further_than_the_bound_on_processes() {
    let mut actor = Actor::start("bomb");
    let bounds = TreeBounds { processes: 6, ..BOUNDS };
    let mut meter = Meter::for_tree(bounds, actor.pid(), None);
    actor.tell("20");
    assert_eq!(actor.hear().as_deref(), Some("20"));
    assert_eq!(meter.measure(), Usage { processes: 7, ..Usage::default() });
    assert_eq!(meter.measure().exceeds(&bounds), Some(ExceededLimit::Processes));
    actor.tell("");
    actor.child.wait().unwrap();
}
