//! Identifies the process that created a folder by its id, its start time, and the namespace of its id.
//!
//! They are part of the folder's name. They distinguish the remains of a killed process from folders in use.

use std::fmt;
use std::io;

use crate::tree;

/// The process that created a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FolderOwner {
    space: u64,
    pid: u32,
    start: u64,
}

impl FolderOwner {
    /// Identifies this process.
    ///
    /// # Errors
    /// Fails if `/proc` does not show this process.
    pub(crate) fn own() -> io::Result<Self> {
        let pid = std::process::id();
        let start = tree::start_time(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { space: id_space()?, pid, start })
    }

    /// Parses a folder's name: `prefix`, the three numbers and any suffix, separated by hyphens.
    pub(crate) fn parse_name(name: &str, prefix: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(prefix)?.splitn(4, '-');
        let (space, pid, start) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next()?;
        Some(Self { space: space.parse().ok()?, pid: pid.parse().ok()?, start: start.parse().ok()? })
    }

    /// Returns whether the process has ended. Returns false for a process in another namespace, which this process
    /// cannot see.
    pub(crate) fn is_gone(&self, own: &Self) -> bool {
        self.space == own.space && tree::start_time(self.pid) != Some(self.start)
    }
}

impl fmt::Display for FolderOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.space, self.pid, self.start)
    }
}

/// Returns the number of this process's process-id namespace, from `pid:[4026531836]`.
fn id_space() -> io::Result<u64> {
    let link = std::fs::read_link("/proc/self/ns/pid")?;
    let number = link.to_str().and_then(|it| it.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whether_its_owner_lives() {
        let own = FolderOwner::own().unwrap();
        let parsed = FolderOwner::parse_name(&format!("run-{own}-a-b"), "run-").unwrap();
        assert_eq!(parsed, own);
        assert!(!parsed.is_gone(&own));
        assert!(FolderOwner { start: own.start + 1, ..own }.is_gone(&own), "the id is another process's by now");
        assert!(!FolderOwner { start: own.start + 1, space: 1, ..own }.is_gone(&own), "not ours to judge");
        for name in ["run-1-2", "run-1-2-3", "run-1-x-3-a", "1-2-3-a", "memory.max"] {
            assert_eq!(FolderOwner::parse_name(name, "run-"), None, "{name}");
        }
    }
}
