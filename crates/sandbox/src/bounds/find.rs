//! Finds out by trial how to limit process trees here: creates a group with limits, moves a process into it, and
//! removes both. Asking the kernel what it supports is not enough, because a container may mount control groups
//! read-only or not at all.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::amounts::TreeBounds;
use super::controller::{Controller, Kind, WORKER_PREFIX};
use super::delegation;
use super::folder::CgroupFolder;
use super::group::Group;
use super::mounts::Sources;
use crate::folder_owner::FolderOwner;
use crate::{protocol, tree};

/// The controllers that limiting a tree requires.
const REQUIRED: [&str; 2] = ["memory", "pids"];

/// An optional controller with which trees share the processors evenly, however many processes each has.
const WELCOME: [&str; 1] = ["cpu"];

/// The v1 controller that counts CPU time. On v2, every group counts it.
const CPU_TIME: &str = "cpuacct";

/// The limits of the group in the trial.
const TRIAL: TreeBounds = TreeBounds { memory_bytes: 64 * 1024 * 1024, processes: 16, cpu_seconds: 60 };

/// How an operator can provide missing control groups.
const ADVICE: &str = "For the kernel to limit skills, give openskill its own writable cgroup (systemd: Delegate=yes)";

/// The maximum number of folders that this worker may have created before, one per search.
const MOST_BASES: u32 = 1000;

impl Controller {
    /// Finds the controller and creates the worker's folder, which [`close`](Self::close) removes. `supervisor`:
    /// the openskill binary. Blocks for some milliseconds.
    ///
    /// Call this when the worker starts, before it has other children. On v2, the worker may have to move itself
    /// to another group.
    pub(crate) fn find(supervisor: &Path) -> Self {
        Self::find_with(&|| {
            // This process waits for a message that never arrives.
            let mut command = Command::new(supervisor);
            command.arg(protocol::ARGUMENT);
            command
        })
    }

    /// Works like [`find`](Self::find), with any program that waits until its standard input, a socket, is closed.
    pub(super) fn find_with(program: &dyn Fn() -> Command) -> Self {
        let measured = |reason| Self { kind: Kind::Measured, bases: Vec::new(), memory: 0, cpu: None, reason };
        let sources = match Sources::read() {
            Ok(sources) => sources,
            Err(error) => return measured(format!("/proc cannot be read: {error}")),
        };
        let no_v2 = match try_v2(&sources, program) {
            Ok(found) => return found,
            Err(reason) => reason,
        };
        match try_v1(&sources, program) {
            Ok(found) => Self { reason: format!("cgroup v2: {no_v2}"), ..found },
            Err(no_v1) => measured(format!("cgroup v2: {no_v2}; cgroup v1: {no_v1}. {ADVICE}")),
        }
    }
}

/// Finds the folder for groups of v2, and verifies it with a trial.
///
/// # Errors
/// Returns why v2 cannot limit trees here.
pub(super) fn try_v2(sources: &Sources, program: &dyn Fn() -> Command) -> Result<Controller, String> {
    let own = own_folder(sources.v2())?;
    let top = delegation::prepare(&own, &REQUIRED, &WELCOME)?;
    verify(make(Kind::V2, &top, &top, Some(&top))?, program)
}

/// Finds the folders for groups of v1, and verifies them with a trial.
///
/// # Errors
/// Returns why v1 cannot limit trees here.
pub(super) fn try_v1(sources: &Sources, program: &dyn Fn() -> Command) -> Result<Controller, String> {
    // Limits on memory and processes also work without a counter of CPU time.
    try_v1_with(Some(CPU_TIME), sources, program).or_else(|_| try_v1_with(None, sources, program))
}

fn try_v1_with(cpu: Option<&str>, sources: &Sources, program: &dyn Fn() -> Command) -> Result<Controller, String> {
    let own = |controller: &str| own_folder(sources.v1(controller)).map_err(|reason| format!("{controller}: {reason}"));
    let [memory, pids] = REQUIRED.map(own);
    let (memory, pids, cpuacct) = (memory?, pids?, cpu.map(own).transpose()?);
    verify(make(Kind::V1, &pids, &memory, cpuacct.as_deref())?, program)
}

/// Creates the worker's folder in each of these groups. One hierarchy may have several controllers.
fn make(kind: Kind, pids: &Path, memory: &Path, cpu: Option<&Path>) -> Result<Controller, String> {
    let mut groups = vec![pids];
    let mut place = |group| {
        groups.iter().position(|it| *it == group).unwrap_or_else(|| {
            groups.push(group);
            groups.len() - 1
        })
    };
    let (memory, cpu) = (place(memory), cpu.map(place));
    let mut controller = Controller { kind, bases: Vec::new(), memory, cpu, reason: String::new() };
    for group in groups {
        match make_base(group, kind) {
            Ok(base) => controller.bases.push(base),
            Err(error) => {
                controller.close();
                return Err(format!("{}: {error}", group.display()));
            }
        }
    }
    Ok(controller)
}

/// Returns the folder whose group contains this process.
fn own_folder(folders: Vec<PathBuf>) -> Result<PathBuf, String> {
    if folders.is_empty() {
        return Err("not mounted, or only a part of it that does not contain this process".to_owned());
    }
    let mut reason = String::new();
    for folder in folders {
        match CgroupFolder::open(&folder).and_then(|it| it.processes()) {
            Ok(processes) if processes.contains(&tree::own_pid()) => return Ok(folder),
            Ok(_) => reason = format!("{} does not list this process", folder.display()),
            Err(error) => reason = format!("{}: {error}", folder.display()),
        }
    }
    Err(reason)
}

/// Creates the worker's folder in a group. On v2, the folder enables controllers for the groups inside it.
fn make_base(top: &Path, kind: Kind) -> io::Result<PathBuf> {
    let (parent, own) = (CgroupFolder::open(top)?, FolderOwner::own()?);
    for number in 0..MOST_BASES {
        let name = format!("{WORKER_PREFIX}{own}-{number}");
        match parent.make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                made?;
                if kind == Kind::V2
                    && let Err(error) = prepare_base(&parent, &name)
                {
                    let _ = parent.remove(&name);
                    return Err(error);
                }
                return Ok(top.join(name));
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn prepare_base(parent: &CgroupFolder, name: &str) -> io::Result<()> {
    let folder = parent.sub(name)?;
    delegation::enable(&folder, &REQUIRED)?;
    let _ = delegation::enable(&folder, &WELCOME);
    Ok(())
}

/// Returns the controller if it can limit a tree. Otherwise removes the folders.
fn verify(controller: Controller, program: &dyn Fn() -> Command) -> Result<Controller, String> {
    try_out(&controller, program()).map_err(|error| {
        controller.close();
        format!("{controller}: {error}")
    })?;
    Ok(controller)
}

fn try_out(controller: &Controller, mut program: Command) -> io::Result<()> {
    let group = Group::create(controller, "trial", TRIAL)?;
    let (open, theirs) = UnixStream::pair()?;
    program.env_clear().stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = program.spawn()?;
    let moved = group.add(child.id() as i32).and_then(|()| group.holds(child.id() as i32));
    let _ = child.kill();
    let waited = child.wait();
    drop((open, group));
    waited?;
    if !moved? {
        return Err(io::Error::other("a process that was moved is not listed"));
    }
    // Dropping a group does not report errors, so check that it was removed.
    for base in &controller.bases {
        if !CgroupFolder::open(base)?.subs(1)?.is_empty() {
            return Err(io::Error::other("a group cannot be removed"));
        }
    }
    Ok(())
}
