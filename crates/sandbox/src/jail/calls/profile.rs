//! The profile of a process, which determines its filter: its user, and what it may do.

use crate::jail::requirement::Network;

/// What a process may do to the files that its user owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jail) enum FileOwner {
    /// The process has its own user, which owns nothing outside the jail.
    Itself,
    /// Like `Itself`, but the user bypasses file permissions, so that only Landlock restricts it.
    Overriding,
    /// The process runs as the worker's user, which may own anything.
    Worker,
}

/// What a process creates for its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jail) enum Makes {
    Nothing,
    /// Mounts and namespaces for each child.
    Namespaces,
    /// A sandbox: separate users, processes and network, and a root without files.
    Sandbox,
}

/// The properties of a process that determine which system calls it may make.
///
/// | process | `owner` | `makes` | `counted` |
/// |---|---|---|---|
/// | a program or script in namespaces (`strict`) | `Itself` | `Nothing` | whether a cgroup counts it |
/// | the same without namespaces (`standard`) | any | `Nothing` | whether a cgroup counts it |
/// | a fork server in namespaces | `Itself` | `Namespaces` | no |
/// | a call of a fork server in namespaces | `Itself` | `Nothing` | no |
/// | a browser in namespaces | `Itself` | `Sandbox` | whether a cgroup counts it |
/// | a fork server without namespaces, and its calls | any | `Nothing` | no |
///
/// `network` comes from the manifest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Profile<'a> {
    pub(super) network: &'a Network,
    pub(super) owner: FileOwner,
    pub(super) makes: Makes,
    /// Whether the kernel, rather than a meter, counts all its memory.
    pub(super) counted: bool,
}

/// System calls that a profile allows or refuses together.
#[derive(Debug)]
pub(super) struct Group {
    /// What the calls do, and why they are allowed or refused.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test that every group has one"))]
    pub(super) reason: &'static str,
    pub(super) calls: &'static [i64],
}

/// Returns the numbers of system calls, given their names. Requires that the file imports the numbers as `n`.
macro_rules! calls {
    ($($call:ident)*) => { &[$(n::$call),*] };
}
pub(super) use calls;

/// The errors that refused calls return.
pub(super) mod errno {
    /// Makes the call appear to succeed.
    pub(in crate::jail::calls) const DONE: u32 = 0;
    pub(in crate::jail::calls) const EPERM: u32 = 1;
    pub(in crate::jail::calls) const ENOMEM: u32 = 12;
    pub(in crate::jail::calls) const EACCES: u32 = 13;
    pub(in crate::jail::calls) const EINVAL: u32 = 22;
    pub(in crate::jail::calls) const ENOSYS: u32 = 38;
    pub(in crate::jail::calls) const EOPNOTSUPP: u32 = 95;
}
