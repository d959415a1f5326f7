//! One bounded process tree: its group is made before it starts, and removed when it has ended.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::amounts::Bounds;
use super::controller::{Controller, Place, TREE_PREFIX};
use super::events::{self, Events};
use super::folder::{Folder, PROCESSES, put};
use super::owner::Owner;
use super::{removal, settings};
use crate::process::tree;

/// How long a group may take to be removed when it is dropped, in each hierarchy. The worker sweeps up what is left.
const AT_END: Duration = Duration::from_millis(100);

/// The longest name of a group, in bytes.
const LONGEST_NAME: usize = 64;

/// A process tree with bounds. Dropping it, in the process that made it, kills what is left and removes it.
///
/// It works by descriptors, which are all opened here and closed on exec: it does not matter whether the root or the
/// namespaces of the process change.
#[derive(Debug)]
pub(crate) struct Group {
    bounds: Bounds,
    // In this order: see `Place::bases`.
    /// None: the controller is in the folder of the memory.
    pids: Option<Part>,
    memory: Part,
    cpu: Cpu,
    is_v2: bool,
}

/// Where a group's CPU time is counted.
#[derive(Debug)]
enum Cpu {
    /// In its folder of the memory, with it.
    WithMemory,
    /// In its folder of the processes.
    WithProcesses,
    /// In a folder of its own.
    Apart(Part),
    /// Nowhere, or it has no bound.
    Nowhere,
}

impl Group {
    /// Makes a group, empty and bounded. `name` is at most 64 ASCII letters, digits, `-` and `_`, and of no other group of
    /// this process.
    ///
    /// # Errors
    /// The controller only measures (`Unsupported`), the name is none (`InvalidInput`), the group is there, or the kernel
    /// refuses it. Nothing is left then.
    pub(crate) fn create(controller: &Controller, name: &str, bounds: Bounds) -> io::Result<Self> {
        let is_fit = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_fit) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let name = format!("{TREE_PREFIX}{}-{name}", Owner::own()?);
        let part = |base: &Path| Part::make(base, &name);
        let group = match &controller.place {
            Place::V2 { base } => Self { bounds, pids: None, memory: part(base)?, cpu: Cpu::WithMemory, is_v2: true },
            Place::V1 { memory, pids, cpuacct } => {
                let cpu = match cpuacct.as_ref().filter(|_| bounds.cpu().is_some()) {
                    None => Cpu::Nowhere,
                    Some(base) if base == memory => Cpu::WithMemory,
                    Some(base) if base == pids => Cpu::WithProcesses,
                    Some(base) => Cpu::Apart(part(base)?),
                };
                let pids = if pids == memory { None } else { Some(part(pids)?) };
                Self { bounds, pids, memory: part(memory)?, cpu, is_v2: false }
            }
            Place::Measured => return Err(io::ErrorKind::Unsupported.into()),
        };
        group.bound()?;
        Ok(group)
    }

    fn bound(&self) -> io::Result<()> {
        if self.is_v2 {
            return settings::bound_v2(self.memory_folder(), &self.bounds);
        }
        settings::bound_memory_v1(self.memory_folder(), &self.bounds)?;
        settings::bound_processes(self.pids_folder(), &self.bounds)
    }

    /// Moves a process into the group, with all its threads, and so all that it starts from here on. What it has allocated
    /// stays where it was counted. The id is of the caller's namespace.
    ///
    /// # Errors
    /// There is no such process, or the kernel refuses it.
    pub(crate) fn add(&self, pid: i32) -> io::Result<()> {
        // Zero would be the caller itself.
        if pid <= 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let pid = pid.to_string();
        self.parts().try_for_each(|part| put(&part.entrance, pid.as_bytes()))
    }

    #[cfg(test)]
    /// Moves the caller into the group. Dropping the group does not kill the caller then, nor remove the group.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(crate) fn add_self(&self) -> io::Result<()> {
        self.parts().try_for_each(|part| put(&part.entrance, OWN))
    }

    /// A way in, for a child that enters before it becomes another program.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub(crate) fn entrance(&self) -> io::Result<Entrance> {
        let pids = self.pids.as_ref().map(|part| part.entrance.try_clone()).transpose()?;
        let cpu = self.cpu_part().map(|part| part.entrance.try_clone()).transpose()?;
        Ok(Entrance { pids, memory: self.memory.entrance.try_clone()?, cpu })
    }

    /// Whether this process is in the group, in all its hierarchies.
    ///
    /// # Errors
    /// The group is gone.
    pub(crate) fn holds(&self, pid: i32) -> io::Result<bool> {
        for part in self.parts() {
            if !part.folder.processes()?.contains(&pid) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What all in it may have.
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// What hit its bounds so far.
    pub(crate) fn events(&self) -> Events {
        match self.is_v2 {
            true => Events::of_v2(self.memory_folder(), &self.bounds),
            false => Events::of_v1(self.memory_folder(), self.pids_folder(), &self.bounds),
        }
    }

    /// The CPU time that all in it have used so far, also those that have ended. None: it is not counted, or has no bound.
    ///
    /// v2: cgroup-v2.rst, `cpu.stat`, which each group has whatever its controllers are. v1: cpuacct.rst.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.bounds.cpu()?;
        let folder = match &self.cpu {
            Cpu::WithMemory => self.memory_folder(),
            Cpu::WithProcesses => self.pids_folder(),
            Cpu::Apart(part) => &part.folder,
            Cpu::Nowhere => return None,
        };
        match self.is_v2 {
            true => events::number(&folder.read("cpu.stat").ok()?, "usage_usec").map(Duration::from_micros),
            false => folder.read("cpuacct.usage").ok()?.trim().parse().ok().map(Duration::from_nanos),
        }
    }

    #[cfg(test)]
    /// Kills all that is in the group except the caller, also a process whose first thread has exited, and waits for its
    /// end, `patience` at most. Nothing can be started in the group afterwards. Whether nothing is left.
    pub(crate) fn kill(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let left = self.parts().filter(|part| !removal::kill(&part.folder, until)).count();
        left == 0
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.pids.iter().chain([&self.memory]).chain(self.cpu_part())
    }

    fn cpu_part(&self) -> Option<&Part> {
        match &self.cpu {
            Cpu::Apart(part) => Some(part),
            _ => None,
        }
    }

    fn memory_folder(&self) -> &Folder {
        &self.memory.folder
    }

    fn pids_folder(&self) -> &Folder {
        &self.pids.as_ref().unwrap_or(&self.memory).folder
    }
}

/// What stands for the writer itself in a list of processes.
const OWN: &[u8] = b"0";

/// A way into a group.
#[derive(Debug)]
pub(crate) struct Entrance {
    pids: Option<OwnedFd>,
    memory: OwnedFd,
    cpu: Option<OwnedFd>,
}

impl Entrance {
    /// Moves the caller into the group. Some system calls and nothing else: fit for a child between fork(2) and execve(2).
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(crate) fn enter(&self) -> io::Result<()> {
        if let Some(pids) = &self.pids {
            put(pids, OWN)?;
        }
        put(&self.memory, OWN)?;
        self.cpu.as_ref().map_or(Ok(()), |cpu| put(cpu, OWN))
    }
}

/// A group in one hierarchy.
#[derive(Debug)]
struct Part {
    parent: Folder,
    name: String,
    folder: Folder,
    entrance: OwnedFd,
    /// A child that was forked has this value too, and must not remove the group it may be in.
    maker: i32,
}

impl Part {
    fn make(base: &Path, name: &str) -> io::Result<Self> {
        let parent = Folder::open(base)?;
        parent.make(name)?;
        let open = || {
            let folder = parent.sub(name)?;
            let entrance = folder.writer(PROCESSES)?;
            Ok((folder, entrance))
        };
        match open() {
            Ok((folder, entrance)) => {
                Ok(Self { parent, name: name.to_owned(), folder, entrance, maker: tree::own_pid() })
            }
            Err(error) => {
                let _ = parent.remove(name);
                Err(error)
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if tree::own_pid() == self.maker {
            removal::remove(&self.parent, &self.name, Instant::now() + AT_END);
        }
    }
}
