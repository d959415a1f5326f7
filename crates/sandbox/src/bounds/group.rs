//! One limited process tree. Its group is created before the tree starts, and removed after it has ended.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::amounts::{ExceededLimit, TreeBounds};
use super::controller::{Controller, Kind, TREE_PREFIX};
use super::events;
use super::folder::{CgroupFolder, PROCESSES, put};
use super::{removal, settings};
use crate::folder_owner::FolderOwner;
use crate::tree;

/// The time limit for removing a dropped group in each hierarchy. The worker's sweep removes the rest.
const AT_END: Duration = Duration::from_millis(100);

/// The maximum length of a group's name, in bytes.
const LONGEST_NAME: usize = 64;

/// A process tree with limits. Dropping it in the process that created it kills the remaining processes and
/// removes the group.
///
/// It works with descriptors. All of them are opened here and are close-on-exec. So the process may later change
/// its root or its namespaces.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) bounds: TreeBounds,
    kind: Kind,
    /// In the order of [`Controller::bases`].
    pub(super) cgroups: Vec<Cgroup>,
    /// Which of them limits memory.
    memory: usize,
    /// Which of them counts CPU time. `None` if none does or CPU time has no limit.
    cpu: Option<usize>,
}

impl Group {
    /// Creates an empty group with limits. `name` consists of at most 64 ASCII letters, digits, `-` and `_`, and
    /// is unique among this process's groups.
    ///
    /// # Errors
    /// Fails if the controller only measures (`Unsupported`), the name is invalid (`InvalidInput`), the group
    /// exists, or the kernel refuses it. A failure leaves nothing behind.
    pub(crate) fn create(controller: &Controller, name: &str, bounds: TreeBounds) -> io::Result<Self> {
        let is_fit = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_fit) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let name = format!("{TREE_PREFIX}{}-{name}", FolderOwner::own()?);
        let (kind, memory, cpu) =
            (controller.kind, controller.memory, controller.cpu.filter(|_| bounds.cpu().is_some()));
        // A folder that only counts CPU time is the last one, and not used without a limit.
        let used = cpu.unwrap_or(0).max(memory) + 1;
        let cgroups = controller.bases.iter().take(used).map(|base| Cgroup::make(base, &name));
        let group = Self { bounds, kind, cgroups: cgroups.collect::<io::Result<_>>()?, memory, cpu };
        if group.cgroups.len() < used {
            return Err(io::ErrorKind::Unsupported.into());
        }
        match kind {
            Kind::V2 => settings::bound_v2(group.memory_folder(), &bounds)?,
            _ => {
                settings::bound_memory_v1(group.memory_folder(), &bounds)?;
                settings::bound_processes(group.pids_folder(), &bounds)?;
            }
        }
        Ok(group)
    }

    /// Moves a process and all its threads, and thereby everything that it starts later, into the group. Memory
    /// that it has already allocated stays charged to its previous group. The id is in the caller's namespace.
    ///
    /// # Errors
    /// Fails if the process does not exist or the kernel refuses it.
    pub(crate) fn add(&self, pid: i32) -> io::Result<()> {
        // Zero would be the caller itself.
        if pid <= 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let pid = pid.to_string();
        self.cgroups.iter().try_for_each(|cgroup| put(&cgroup.procs, pid.as_bytes()))
    }

    /// Creates a handle for a child that enters the group before it executes another program.
    ///
    /// # Errors
    /// Fails if the process has no descriptors left.
    pub(crate) fn handle(&self) -> io::Result<GroupHandle> {
        Ok(GroupHandle(self.cgroups.iter().map(|cgroup| cgroup.procs.try_clone()).collect::<io::Result<_>>()?))
    }

    /// Returns whether the group contains this process, in all its hierarchies.
    ///
    /// # Errors
    /// Fails if the group was removed.
    pub(crate) fn holds(&self, pid: i32) -> io::Result<bool> {
        for cgroup in &self.cgroups {
            if !cgroup.folder.processes()?.contains(&pid) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the most likely reason why the run failed. Meaningless for a run that succeeded.
    pub(crate) fn likely_cause(&self) -> Option<ExceededLimit> {
        match self.kind {
            Kind::V2 => events::likely_cause_v2(self.memory_folder(), &self.bounds),
            _ => events::likely_cause_v1(self.memory_folder(), self.pids_folder(), &self.bounds),
        }
    }

    /// Returns the CPU time that all of the group's processes have used, including ended ones. Returns `None` if
    /// it is not counted or has no limit.
    ///
    /// v2: cgroup-v2.rst, `cpu.stat`, which exists in every group regardless of its controllers. v1: cpuacct.rst.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let folder = &self.cgroups[self.cpu?].folder;
        match self.kind {
            Kind::V2 => events::number(&folder.read("cpu.stat").ok()?, "usage_usec").map(Duration::from_micros),
            _ => folder.read("cpuacct.usage").ok()?.trim().parse().ok().map(Duration::from_nanos),
        }
    }

    fn memory_folder(&self) -> &CgroupFolder {
        &self.cgroups[self.memory].folder
    }

    fn pids_folder(&self) -> &CgroupFolder {
        &self.cgroups[0].folder
    }
}

/// Represents the writing process when written to a list of processes.
const OWN: &[u8] = b"0";

/// Lets a child enter a group.
#[derive(Debug)]
pub(crate) struct GroupHandle(Vec<OwnedFd>);

impl GroupHandle {
    /// Moves the caller into the group. Only makes system calls, so that a child may call it between fork(2) and
    /// execve(2).
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub(crate) fn enter(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|procs| put(procs, OWN))
    }
}

/// The group's folder in one hierarchy.
#[derive(Debug)]
pub(super) struct Cgroup {
    parent: CgroupFolder,
    name: String,
    pub(super) folder: CgroupFolder,
    procs: OwnedFd,
    /// The process that created the group. A forked child has a copy of this value, and must not remove the group.
    maker: i32,
}

impl Cgroup {
    fn make(base: &Path, name: &str) -> io::Result<Self> {
        let parent = CgroupFolder::open(base)?;
        parent.make(name)?;
        let open = || {
            let folder = parent.sub(name)?;
            let procs = folder.writer(PROCESSES)?;
            Ok((folder, procs))
        };
        match open() {
            Ok((folder, procs)) => Ok(Self { parent, name: name.to_owned(), folder, procs, maker: tree::own_pid() }),
            Err(error) => {
                let _ = parent.remove(name);
                Err(error)
            }
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if tree::own_pid() == self.maker {
            removal::remove(&self.parent, &self.name, Instant::now() + AT_END);
        }
    }
}
