//! Skill processes: started clean, bounded, and ended whole.
//!
//! Every run has a small supervisor process of its own (`openskill supervise`), a child of the worker and the parent
//! of the skill. The supervisor adopts whatever the skill leaves behind, also a daemon that forked twice and called
//! `setsid`, because it is a *subreaper* (prctl(2)). So "the process tree of this call" is exact: it is what descends
//! from the supervisor.
//!
//! ```text
//! worker ──control socket──> supervisor ──> skill ──> its children
//!    │                           │ adopts orphans, kills and reaps all of them when
//!    │                           │ the skill ends, or the control socket closes
//!    └── stdin, stdout, stderr (pipes), events (a socket) ──> skill
//! ```
//!
//! The socket closes when the call is dropped (deadline, cancellation) and when the worker dies, whatever killed it.
//! If a skill kills its supervisor, its orphans come to the worker, a subreaper too, and [`strays`] kills and reaps them.
//! What these processes say to each other is in [`protocol`].
//!
//! - [`jail`]: what a skill's process may reach
//! - [`bounds`]: how much memory and how many processes a whole tree may have
//! - [`launch`]: the worker's side: start a supervisor, give it the descriptors, read its report
//! - [`forkserver`]: a process that forks one for each call
//! - [`supervise`]: the supervisor itself
//! - [`mod@run`]: one whole run: input in, output out, within bounds
//! - [`given_secrets`]: whether what a process writes may be logged
//! - [`protocol`], [`packet`]: the messages, and how they are framed
//! - [`sockets`]: what skills can't send over them
//! - [`tree`]: who descends from whom
//! - [`strays`]: orphans whose supervisor or worker was killed

pub(crate) mod bounds;
pub(crate) mod forkserver;
pub(crate) mod given_secrets;
pub mod jail;
pub(crate) mod launch;
mod packet;
pub(crate) mod protocol;
pub(crate) mod run;
pub(crate) mod sockets;
pub mod strays;
mod streams;
pub mod supervise;
pub(crate) mod tree;

pub use protocol::Exit;
