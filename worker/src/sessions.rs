//! Sessions are processes that are kept between calls. Each belongs to one caller and has a name.
//!
//! ```text
//! principal + call session + toolset = SessionOwner;  SessionOwner + name = Key
//!
//! runner ── take(Key) ──> SessionBook ──> Lease: the process, if it is there, for one call at a time
//!   └── drive(Lease, Cell), in a separate task that outlives a dropped call
//!         ├── starts the process, if there is none      (process.rs: a child of a fork server, in its jail)
//!         ├── control stream: the cell goes in; events, questions and the end of the cell come out     (line.rs)
//!         ├── stdout, stderr: to the caller as they come, and bounded into the result                (output.rs)
//!         └── the deadline, a dropped call or too much output: SIGINT, two seconds, SIGKILL            (cell.rs)
//! Lease ──> back into the SessionBook, or gone
//! maintain ──> SessionBook: removes sessions that are idle, old, or have no process any more
//! ```
//!
//! The process runs untrusted code. Its messages are limited and parsed, and affect only its own session. Dropping
//! a `SessionProcess` kills the process. If the worker dies, the supervisor kills it.
//!
//! - [`tally`]: counters for each caller; [`SessionBook`](openskill_sandbox::sessions) is in `openskill-sandbox`
//! - [`process`]: one process; [`mod@line`]: its messages; [`output`]: its printed output
//! - [`cell`]: one call of it; [`drive`]: the life of a lease
//! - [`packages`]: the folder of packages that a process sees
//! - `host/`: the process's side, in Python

pub(crate) mod cell;
mod clock;
pub(crate) mod drive;
pub(crate) mod line;
pub(crate) mod output;
pub(crate) mod packages;
pub(crate) mod process;
pub(crate) mod tally;

/// The source of the process's program, which is part of the fork server's program.
pub(crate) const HOST: &str = concat!(
    include_str!("sessions/host/session.py"),
    include_str!("sessions/host/artifacts.py"),
    include_str!("sessions/host/errors.py"),
    include_str!("sessions/host/hosting.py"),
);
