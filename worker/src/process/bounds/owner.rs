//! Whose a folder is: a process, by its id, the time it was started, and the space its id belongs to.
//!
//! The name of a folder says it, so that what a killed process left can be told from what is in use.

use std::fmt;
use std::io;

use crate::process::tree;

/// A process that made a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    space: u64,
    pid: u32,
    start: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// `/proc` does not show it.
    pub(super) fn own() -> io::Result<Self> {
        let pid = std::process::id();
        let start = tree::started(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { space: id_space()?, pid, start })
    }

    /// Whose the folder with this name is: `prefix`, then the three numbers and anything, with hyphens between.
    pub(super) fn of(name: &str, prefix: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(prefix)?.splitn(4, '-');
        let (space, pid, start) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next()?;
        Some(Self { space: space.parse().ok()?, pid: pid.parse().ok()?, start: start.parse().ok()? })
    }

    /// Whether it has ended, as this process sees it. Of another space it cannot say, so: no.
    pub(super) fn is_gone(&self, own: &Self) -> bool {
        self.space == own.space && tree::started(self.pid) != Some(self.start)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.space, self.pid, self.start)
    }
}

/// The space of process ids this process belongs to: `pid:[4026531836]`.
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
        let own = Owner::own().unwrap();
        let parsed = Owner::of(&format!("run-{own}-a-b"), "run-").unwrap();
        assert_eq!(parsed, own);
        assert!(!parsed.is_gone(&own));
        assert!(Owner { start: own.start + 1, ..own }.is_gone(&own), "the id is another process's by now");
        assert!(!Owner { start: own.start + 1, space: 1, ..own }.is_gone(&own), "not ours to judge");
        for name in ["run-1-2", "run-1-2-3", "run-1-x-3-a", "1-2-3-a", "memory.max"] {
            assert_eq!(Owner::of(name, "run-"), None, "{name}");
        }
    }
}
