//! Finds what bounds process trees here, by trying it: a group is made and bounded, a process is moved into it, and both
//! are removed. Asking would not do: a container may mount its control groups to be read only, or not at all.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::amounts::Bounds;
use super::controller::{Controller, Kind, Place, WORKER_PREFIX};
use super::delegation;
use super::folder::Folder;
use super::group::Group;
use super::mounts::Sources;
use super::owner::Owner;
use crate::process::{protocol, tree};

/// The controllers that bound a tree.
const REQUIRED: [&str; 2] = ["memory", "pids"];

/// With it, trees share the processors evenly, whatever number of processes they have.
const WELCOME: [&str; 1] = ["cpu"];

/// The controller of v1 that counts CPU time. On v2 every group counts it.
const CPU_TIME: &str = "cpuacct";

/// The bounds of the group that is tried.
const TRIAL: Bounds = Bounds { memory_bytes: 64 * 1024 * 1024, processes: 16, cpu_seconds: 60 };

/// What an operator can do.
const ADVICE: &str =
    "To have the kernel bound skills, give openskill a cgroup of its own that it may write (systemd: Delegate=yes)";

/// How many folders a worker may have made before: one for each time it looked.
const MOST_BASES: u32 = 1000;

impl Controller {
    /// Finds it, and makes the worker's own folder, which [`close`](Self::close) removes. `supervisor` is the openskill
    /// binary. Takes some milliseconds and blocks.
    ///
    /// For the start of the worker, before it has other children: on v2 it may have to move itself.
    pub(crate) fn find(supervisor: &Path) -> Self {
        Self::find_with(&|| {
            // It waits for its message, which never comes.
            let mut command = Command::new(supervisor);
            command.arg(protocol::ARGUMENT);
            command
        })
    }

    /// As [`find`](Self::find), with any program that waits until its standard input, a socket, is closed.
    pub(super) fn find_with(program: &dyn Fn() -> Command) -> Self {
        let sources = match Sources::read() {
            Ok(sources) => sources,
            Err(error) => return Self { place: Place::Measured, reason: format!("/proc cannot be read: {error}") },
        };
        let no_v2 = match try_v2(&sources, program) {
            Ok(place) => return Self { place, reason: String::new() },
            Err(reason) => reason,
        };
        match try_v1(&sources, program) {
            Ok(place) => Self { place, reason: format!("cgroup v2: {no_v2}") },
            Err(no_v1) => {
                let reason = format!("cgroup v2: {no_v2}; cgroup v1: {no_v1}. {ADVICE}");
                Self { place: Place::Measured, reason }
            }
        }
    }
}

/// # Errors
/// Why v2 bounds nothing here.
pub(super) fn try_v2(sources: &Sources, program: &dyn Fn() -> Command) -> Result<Place, String> {
    let own = own_folder(sources.v2())?;
    let top = delegation::prepare(&own, &REQUIRED, &WELCOME)?;
    let base = make_base(&top, Kind::V2).map_err(|error| format!("{}: {error}", top.display()))?;
    tried(Place::V2 { base }, program)
}

/// # Errors
/// Why v1 bounds nothing here.
pub(super) fn try_v1(sources: &Sources, program: &dyn Fn() -> Command) -> Result<Place, String> {
    // That CPU time is not counted is no reason not to have memory and processes bounded.
    try_v1_with(Some(CPU_TIME), sources, program).or_else(|_| try_v1_with(None, sources, program))
}

fn try_v1_with(cpu: Option<&str>, sources: &Sources, program: &dyn Fn() -> Command) -> Result<Place, String> {
    let own = |controller: &str| own_folder(sources.v1(controller)).map_err(|reason| format!("{controller}: {reason}"));
    let [memory, pids] = REQUIRED.map(own);
    let (memory, pids, cpuacct) = (memory?, pids?, cpu.map(own).transpose()?);
    let mut made = Made::default();
    let mut place = || {
        let (memory, pids) = (made.base_in(&memory)?, made.base_in(&pids)?);
        Ok(Place::V1 { memory, pids, cpuacct: cpuacct.as_deref().map(|it| made.base_in(it)).transpose()? })
    };
    match place() {
        Ok(place) => tried(place, program),
        Err(error) => {
            made.remove();
            Err(error)
        }
    }
}

/// The worker's own folders in the hierarchies of v1, by the groups they are in. Several controllers may be in one.
#[derive(Default)]
struct Made(Vec<(PathBuf, PathBuf)>);

impl Made {
    fn base_in(&mut self, own: &Path) -> Result<PathBuf, String> {
        if let Some((_, base)) = self.0.iter().find(|(group, _)| group == own) {
            return Ok(base.clone());
        }
        let base = make_base(own, Kind::V1).map_err(|error| format!("{}: {error}", own.display()))?;
        self.0.push((own.to_owned(), base.clone()));
        Ok(base)
    }

    fn remove(self) {
        for (_, base) in self.0 {
            let _ = std::fs::remove_dir(base);
        }
    }
}

/// The one of these folders that this process is in.
fn own_folder(folders: Vec<PathBuf>) -> Result<PathBuf, String> {
    if folders.is_empty() {
        return Err("not mounted, or only a part that this process is not in".to_owned());
    }
    let mut reason = String::new();
    for folder in folders {
        match Folder::open(&folder).and_then(|it| it.processes()) {
            Ok(processes) if processes.contains(&tree::own_pid()) => return Ok(folder),
            Ok(_) => reason = format!("{} does not list this process", folder.display()),
            Err(error) => reason = format!("{}: {error}", folder.display()),
        }
    }
    Err(reason)
}

/// Makes the worker's own folder in a group; on v2, with controllers for the groups in it.
fn make_base(top: &Path, kind: Kind) -> io::Result<PathBuf> {
    let (parent, own) = (Folder::open(top)?, Owner::own()?);
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

fn prepare_base(parent: &Folder, name: &str) -> io::Result<()> {
    let folder = parent.sub(name)?;
    delegation::enable(&folder, &REQUIRED)?;
    let _ = delegation::enable(&folder, &WELCOME);
    Ok(())
}

/// A place where a tree was bounded, or nothing of it.
fn tried(place: Place, program: &dyn Fn() -> Command) -> Result<Place, String> {
    let controller = Controller { place, reason: String::new() };
    match try_out(&controller, program()) {
        Ok(()) => Ok(controller.place),
        Err(error) => {
            let reason = format!("{controller}: {error}");
            controller.close();
            Err(reason)
        }
    }
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
    // Dropped, a group says nothing.
    for base in controller.place.bases() {
        if !Folder::open(base)?.subs(1)?.is_empty() {
            return Err(io::Error::other("a group cannot be removed"));
        }
    }
    Ok(())
}
