//! The jail around a skill's process: what it may reach.
//!
//! Four walls, each for what the others do not cover. The supervisor sets them up before the program starts:
//!
//! - namespaces (`namespaces`), where this machine allows them: no other process, no other mount, and a root of its own
//!   (`view`, by `mount`)
//! - a user of its own (`identity`), where the worker is root, and no capability
//! - Landlock (`files`): which files it may read and write, which TCP ports it may connect to, which processes it may signal
//! - system calls (`calls`, `program`, by `numbers`): the network beyond TCP, namespaces, mounts, tracing, and the ways around
//!   Landlock
//!
//! Jailed or not, each process has a private temporary directory (`temp`, emptied by `removal`).
//!
//! [`probe`] finds out once what the kernel supports, by trying it. From that [`jailer`] makes the [`plan`] of each skill, or
//! refuses a skill that asks for more; `prepared` carries the plan out. See `docs/runners/jail.md`.

mod calls;
mod files;
pub(crate) mod identity;
pub(crate) mod jailer;
mod mount;
mod named;
pub(super) mod namespaces;
mod numbers;
pub(crate) mod plan;
pub(super) mod prepared;
pub(crate) mod probe;
mod program;
mod reach;
mod removal;
mod roots;
mod system;
pub(crate) mod temp;
mod users;
mod view;

pub use probe::{Facts, Namespaces};
pub use users::SkillUsers;
