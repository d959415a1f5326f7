//! Sessions: processes that are kept between calls, each for one caller and one name.
//!
//! ```text
//! principal + call session + toolset = Owner;  Owner + name = Key
//!
//! runner ── take(Key) ──> Book ──> Lease: the process, if it is there, for one call at a time
//!   └── drive(Lease, Cell), in a task of its own that outlives a dropped call
//!         ├── starts the process, if there is none      (process.rs: a child of a fork server, in its jail)
//!         ├── control stream: the cell goes in; events, questions and the end of the cell come out     (line.rs)
//!         ├── stdout, stderr: to the caller as they come, and bounded into the result                (output.rs)
//!         └── the deadline, a dropped call or too much output: SIGINT, two seconds, SIGKILL            (cell.rs)
//! Lease ──> back into the Book, or gone
//! tend ──> Book: what is idle or old, or whose process has ended, goes
//! ```
//!
//! The process runs code that nobody trusts. What it says is bounded and parsed, and decides about its own session only.
//! Whoever drops a `Process` kills it; the supervisor does so when the worker dies.
//!
//! - [`key`]: whose a session is; [`book`]: which there are, within their bounds; [`tally`]: what is counted of each caller
//! - [`process`]: one process; [`mod@line`]: what it says; [`output`]: what it prints
//! - [`cell`]: one call of it; [`drive`]: from a lease to its end
//! - [`packages`]: the folder of packages that a process sees; [`allowed`]: which an operator allows
//! - `host/`: the process's side, in Python

pub(crate) mod allowed;
pub(crate) mod book;
pub(crate) mod cell;
mod clock;
pub(crate) mod drive;
pub(crate) mod key;
pub(crate) mod line;
pub(crate) mod output;
pub(crate) mod packages;
pub(crate) mod process;
pub(crate) mod tally;

/// The program of the process: a part of that of a fork server.
pub(crate) const HOST: &str = concat!(
    include_str!("sessions/host/session.py"),
    include_str!("sessions/host/artifacts.py"),
    include_str!("sessions/host/errors.py"),
    include_str!("sessions/host/hosting.py"),
);
