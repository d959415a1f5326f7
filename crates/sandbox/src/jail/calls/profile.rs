//! The profile of a process, which determines its filter: its user, and what it may do.

use serde::Deserialize;

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

/// How a refused call fails, by the error's number.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Refusal {
    /// The call appears to succeed.
    Done = 0,
    Eperm = 1,
    Enomem = 12,
    Eacces = 13,
    Einval = 22,
    /// The call appears not to exist.
    #[default]
    Enosys = 38,
    Eopnotsupp = 95,
}
