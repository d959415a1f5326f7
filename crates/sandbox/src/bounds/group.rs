//! One limited process tree. Its group is created before the tree starts, and removed after it has ended.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::amounts::TreeBounds;
use super::controller::{CgroupLayout, Controller, TREE_PREFIX};
use super::events::{self, Events};
use super::folder::{CgroupFolder, PROCESSES, put};
use super::owner::FolderOwner;
use super::{removal, settings};
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
    bounds: TreeBounds,
    // The fields are in the order of `CgroupLayout::bases`. `None` if the controller shares its folder with the
    // memory controller.
    pids: Option<Cgroup>,
    memory: Cgroup,
    cpu: Cpu,
    is_v2: bool,
}

/// The folder in which a group's CPU time is counted.
#[derive(Debug)]
enum Cpu {
    /// The memory controller's folder.
    WithMemory,
    /// The process controller's folder.
    WithProcesses,
    /// A separate folder.
    Separate(Cgroup),
    /// None: CPU time is not counted or has no limit.
    Nowhere,
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
        let cgroup = |base: &Path| Cgroup::make(base, &name);
        let group = match &controller.place {
            CgroupLayout::V2 { base } => {
                Self { bounds, pids: None, memory: cgroup(base)?, cpu: Cpu::WithMemory, is_v2: true }
            }
            CgroupLayout::V1 { memory, pids, cpuacct } => {
                let cpu = match cpuacct.as_ref().filter(|_| bounds.cpu().is_some()) {
                    None => Cpu::Nowhere,
                    Some(base) if base == memory => Cpu::WithMemory,
                    Some(base) if base == pids => Cpu::WithProcesses,
                    Some(base) => Cpu::Separate(cgroup(base)?),
                };
                let pids = if pids == memory { None } else { Some(cgroup(pids)?) };
                Self { bounds, pids, memory: cgroup(memory)?, cpu, is_v2: false }
            }
            CgroupLayout::Measured => return Err(io::ErrorKind::Unsupported.into()),
        };
        group.apply_bounds()?;
        Ok(group)
    }

    fn apply_bounds(&self) -> io::Result<()> {
        if self.is_v2 {
            return settings::bound_v2(self.memory_folder(), &self.bounds);
        }
        settings::bound_memory_v1(self.memory_folder(), &self.bounds)?;
        settings::bound_processes(self.pids_folder(), &self.bounds)
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
        self.cgroups().try_for_each(|cgroup| put(&cgroup.procs, pid.as_bytes()))
    }

    #[cfg(test)]
    /// Moves the caller into the group. Afterwards, dropping the group neither kills the caller nor removes the
    /// group.
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub(crate) fn add_self(&self) -> io::Result<()> {
        self.cgroups().try_for_each(|cgroup| put(&cgroup.procs, OWN))
    }

    /// Creates a handle for a child that enters the group before it executes another program.
    ///
    /// # Errors
    /// Fails if the process has no descriptors left.
    pub(crate) fn handle(&self) -> io::Result<GroupHandle> {
        let pids = self.pids.as_ref().map(|cgroup| cgroup.procs.try_clone()).transpose()?;
        let cpu = self.cpu_cgroup().map(|cgroup| cgroup.procs.try_clone()).transpose()?;
        Ok(GroupHandle { pids, memory: self.memory.procs.try_clone()?, cpu })
    }

    /// Returns whether the group contains this process, in all its hierarchies.
    ///
    /// # Errors
    /// Fails if the group was removed.
    pub(crate) fn holds(&self, pid: i32) -> io::Result<bool> {
        for cgroup in self.cgroups() {
            if !cgroup.folder.processes()?.contains(&pid) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the limits of the group.
    pub(crate) fn bounds(&self) -> &TreeBounds {
        &self.bounds
    }

    /// Returns which limits were hit.
    pub(crate) fn events(&self) -> Events {
        match self.is_v2 {
            true => Events::read_v2(self.memory_folder(), &self.bounds),
            false => Events::read_v1(self.memory_folder(), self.pids_folder(), &self.bounds),
        }
    }

    /// Returns the CPU time that all of the group's processes have used, including ended ones. Returns `None` if
    /// it is not counted or has no limit.
    ///
    /// v2: cgroup-v2.rst, `cpu.stat`, which exists in every group regardless of its controllers. v1: cpuacct.rst.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.bounds.cpu()?;
        let folder = match &self.cpu {
            Cpu::WithMemory => self.memory_folder(),
            Cpu::WithProcesses => self.pids_folder(),
            Cpu::Separate(cgroup) => &cgroup.folder,
            Cpu::Nowhere => return None,
        };
        match self.is_v2 {
            true => events::number(&folder.read("cpu.stat").ok()?, "usage_usec").map(Duration::from_micros),
            false => folder.read("cpuacct.usage").ok()?.trim().parse().ok().map(Duration::from_nanos),
        }
    }

    #[cfg(test)]
    /// Kills everything in the group except the caller, including processes whose first thread has exited. Waits
    /// at most `patience` until they have ended. Afterwards the group cannot start processes. Returns whether it
    /// is empty.
    pub(crate) fn kill(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let left = self.cgroups().filter(|cgroup| !removal::kill(&cgroup.folder, until)).count();
        left == 0
    }

    fn cgroups(&self) -> impl Iterator<Item = &Cgroup> {
        self.pids.iter().chain([&self.memory]).chain(self.cpu_cgroup())
    }

    fn cpu_cgroup(&self) -> Option<&Cgroup> {
        match &self.cpu {
            Cpu::Separate(cgroup) => Some(cgroup),
            _ => None,
        }
    }

    fn memory_folder(&self) -> &CgroupFolder {
        &self.memory.folder
    }

    fn pids_folder(&self) -> &CgroupFolder {
        &self.pids.as_ref().unwrap_or(&self.memory).folder
    }
}

/// Represents the writing process when written to a list of processes.
const OWN: &[u8] = b"0";

/// Lets a child enter a group.
#[derive(Debug)]
pub(crate) struct GroupHandle {
    pids: Option<OwnedFd>,
    memory: OwnedFd,
    cpu: Option<OwnedFd>,
}

impl GroupHandle {
    /// Moves the caller into the group. Only makes system calls, so that a child may call it between fork(2) and
    /// execve(2).
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub(crate) fn enter(&self) -> io::Result<()> {
        if let Some(pids) = &self.pids {
            put(pids, OWN)?;
        }
        put(&self.memory, OWN)?;
        self.cpu.as_ref().map_or(Ok(()), |cpu| put(cpu, OWN))
    }
}

/// The group's folder in one hierarchy.
#[derive(Debug)]
struct Cgroup {
    parent: CgroupFolder,
    name: String,
    folder: CgroupFolder,
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
