//! Runs skill processes. Each starts in a clean environment, stays within its limits, and ends with its
//! descendants.
//!
//! Each run has its own small supervisor process (`openskill supervise`), which is a child of the worker and the
//! parent of the skill. The supervisor is a *subreaper* (prctl(2)), so it adopts all processes that the skill
//! leaves behind, even a daemon that forked twice and called `setsid`. So a call's process tree consists of
//! exactly the supervisor's descendants.
//!
//! ```text
//! worker ──control socket──> supervisor ──> skill ──> its children
//!    │                           │ adopts orphans, kills and reaps all of them when
//!    │                           │ the skill ends, or the control socket closes
//!    └── stdin, stdout, stderr (pipes), events (a socket) ──> skill
//! ```
//!
//! The socket closes when the call is dropped (deadline, cancellation) or when the worker dies for whatever
//! reason. If a skill kills its supervisor, the worker, which is also a subreaper, adopts the orphans, and
//! [`strays`] kills and reaps them. [`protocol`] defines the messages between these processes.
//!
//! - [`jail`]: what a skill's process may access
//! - [`bounds`]: limits on the memory, processes and CPU time of a whole process tree
//! - [`launch`]: the worker's side: starts a supervisor, passes it the descriptors, reads its report
//! - [`forkserver`]: a process that forks a child for each call
//! - [`supervise`]: the supervisor itself
//! - [`mod@run`]: one complete run: writes the input and reads the output, within bounds
//! - [`given_secrets`]: whether a process's output may be logged
//! - [`protocol`], [`packet`]: the messages and their framing; `readiness`: waits for them without a runtime
//! - [`sockets`]: refuses descriptors that skills send over sockets
//! - [`event_channel`]: receives a process's event lines
//! - [`tree`]: reads process trees; `folder_owner`: which process made a folder
//! - [`strays`]: orphans whose supervisor or worker was killed
//! - [`allowed_root`]: the folder that skills work in, as a descriptor; [`plain_file`]: reads files that others may
//!   replace; [`trusted_folder`]: folders that others can't write to; `beneath`: opens paths below a folder
//! - [`sessions`]: which processes are kept between calls, and for whom; [`untrusted_json`]: parses processes'
//!   output
//!
//! This crate knows paths and limits. It does not know manifests, runners, or the settings of a worker.

pub mod allowed_root;
mod beneath;
mod bounds;
pub mod event_channel;
mod folder_owner;
pub mod forkserver;
pub mod given_secrets;
pub mod jail;
pub mod launch;
mod limits;
pub mod packet;
pub mod plain_file;
pub mod protocol;
mod readiness;
pub mod run;
pub mod sessions;
pub mod sockets;
pub mod strays;
mod streams;
pub mod supervise;
pub mod tree;
pub mod trusted_folder;
pub mod untrusted_json;

// Unit tests use the same rules for skips as integration tests.
#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../../../tests/src/require.rs"]
mod require;

pub use limits::Limits;
