//! The jail around a skill's process: what it may access.
//!
//! The jail has four walls, each for what the others do not cover. The supervisor sets them up before the program
//! starts:
//!
//! - namespaces (`namespaces`), where this machine allows them: the process sees no foreign processes or mounts,
//!   and has its own root (`view`, by `mount`)
//! - a separate user (`identity`), where the worker is root, without capabilities
//! - Landlock (`files`): which files it may read and write, which TCP ports it may connect to, which processes it
//!   may signal
//! - a filter of system calls (`calls`, `program`): for the network beyond TCP, namespaces, mounts,
//!   tracing, and ways around Landlock
//!
//! With or without a jail, each process has a private temporary directory (`temp`, emptied by `removal`).
//!
//! [`probe`] finds out once what the kernel supports. With this, [`jailer`] creates each skill's [`plan`], or
//! rejects a skill that requires more. `prepared` executes the plan. See `docs/runners/jail.md`.

mod calls;
mod files;
pub(crate) mod identity;
pub mod jailer;
pub(super) mod mount;
pub(super) mod namespaces;
pub mod plan;
pub(super) mod prepared;
pub mod probe;
mod program;
mod reach;
mod readable;
mod removal;
mod requirement;
mod roots;
mod system;
pub(crate) mod temp;
mod users;
mod view;

pub use probe::{Namespaces, SystemSupport};
pub use requirement::{Level, Network, NoLevel};
pub use users::SkillUsers;
