//! What a filter is for: who the process is, and what it is granted.

use crate::manifest::Network;

/// What a process may do to the files it owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process::jail) enum Owner {
    /// It has a user of its own, which owns nothing outside.
    Itself,
    /// The same, but its user may pass file permissions: only Landlock bounds it.
    Overriding,
    /// It is the worker's user, which may own anything.
    Worker,
}

/// What a process makes for its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process::jail) enum Makes {
    Nothing,
    /// Mounts and namespaces.
    Namespaces,
    /// A sandbox: users, processes and a network of their own, and a root without files.
    Sandbox,
}

/// A process, as far as the system calls that it may make depend on it.
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
/// `network` is that of the manifest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Profile<'a> {
    pub(super) network: &'a Network,
    pub(super) owner: Owner,
    pub(super) makes: Makes,
    /// By the kernel, in all its memory; else by looking.
    pub(super) counted: bool,
}

/// System calls that a profile allows or refuses together.
#[derive(Debug)]
pub(super) struct Group {
    /// What they are for, and why they are allowed or refused.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test that every group has one"))]
    pub(super) reason: &'static str,
    pub(super) calls: &'static [i64],
}

/// System calls by their names, for a file that has imported their numbers as `n`.
macro_rules! calls {
    ($($call:ident)*) => { &[$(n::$call),*] };
}
pub(super) use calls;

/// What programs are told that make a call which is refused.
pub(super) mod errno {
    /// As if it had been done.
    pub(in crate::process::jail::calls) const DONE: u32 = 0;
    pub(in crate::process::jail::calls) const EPERM: u32 = 1;
    pub(in crate::process::jail::calls) const ENOMEM: u32 = 12;
    pub(in crate::process::jail::calls) const EACCES: u32 = 13;
    pub(in crate::process::jail::calls) const EINVAL: u32 = 22;
    pub(in crate::process::jail::calls) const ENOSYS: u32 = 38;
    pub(in crate::process::jail::calls) const EOPNOTSUPP: u32 = 95;
}
