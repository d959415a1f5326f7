//! Limits a whole process tree: its memory and number of processes at any time, and its total CPU time.
//!
//! Limits on a single process (setrlimit(2)) do not add up: `RLIMIT_AS` does not count a memfd, `RLIMIT_AS` and
//! `RLIMIT_CPU` start again in each child, and `RLIMIT_NPROC` counts all of a user's processes. So either the
//! kernel counts each tree in a control group, or the supervisor measures it.
//!
//! | [`Kind`] | who counts | memory beyond the bound | processes beyond the bound |
//! |---|---|---|---|
//! | `V2` | the kernel, cgroup v2 | the kernel kills the whole tree | fork(2) fails with `EAGAIN` |
//! | `V1` | the kernel, cgroup v1 | the kernel kills the largest process of the tree | fork(2) fails with `EAGAIN` |
//! | `Measured` | the supervisor, by a [`Meter`] | the supervisor ends the tree | the supervisor ends the tree |
//!
//! The kernel counts CPU time on v2, and on v1 if `cpuacct` is available. Otherwise a [`Meter`] measures it.
//! Control groups cannot limit total CPU time, so the supervisor polls it, and ends a tree that has used up its
//! limit.
//!
//! ```text
//! worker:      Controller::find ── once, by trying ──> Controller ── in its message ──> supervisor
//!              Controller::sweep, at the start and periodically;  Controller::close, at the end
//! supervisor:  Group::create -> add or GroupHandle::enter -> (the tree runs) -> cpu, events -> drop: kills the rest, removes it
//!              or, if Measured: Meter::for_tree -> measure, every 50 ms -> Usage::exceeds
//! ```
//!
//! All folders are in the worker's cgroup folder, which `/proc/self/cgroup` and `/proc/self/mountinfo` name:
//!
//! ```text
//! <own cgroup>/openskill-worker/                       v2 only: the worker's processes, if it had to move them
//! <own cgroup>/openskill-SPACE-PID-START-N/            one for each worker: holds no process
//!              └─ run-SPACE-PID-START-NAME/            one for each tree, made by its supervisor
//! ```
//!
//! SPACE is the process-id namespace. PID and START identify the process that created the folder. From these, a
//! sweep can tell whether that process is dead, as for temporary folders.
//!
//! - `amounts`: the numbers; `controller`: how this machine limits trees; `group`: one limited tree
//! - `find`: finds the controller; `mounts`: where hierarchies are mounted; `delegation`: v2's rules about which
//!   groups may hold processes
//! - `folder`: a cgroup's files, by descriptor; `settings`: which files hold limits; `events`: which limits were hit
//! - `removal`: kills the processes in a group and removes it; `sweep`: removes the folders of dead processes
//! - `meter`: measures without control groups; `spent`: the CPU time used; `proc`: the files it reads
//! - `fork_server`: the limits of processes that run at the same time
//!
//! The rules come from the kernel's documentation: `Documentation/admin-guide/cgroup-v2.rst`,
//! `Documentation/admin-guide/cgroup-v1/{cgroups,cpuacct,memory,pids}.rst` and
//! `Documentation/filesystems/proc.rst`. Each file names the section it follows.
//!
//! # What a control group does not do
//! - It does not protect its own files. If a skill runs as the user that created the folders, the rest of the jail must
//!   keep it out of `/sys/fs/cgroup`.
//! - Memory is whatever the kernel charges to the tree: anonymous and shared memory, memfd, files on tmpfs, page
//!   tables, buffers of pipes and sockets, and page cache, which the kernel reclaims before it kills anything. A
//!   temporary folder on tmpfs counts towards the limit.

mod amounts;
mod controller;
mod delegation;
mod events;
mod find;
mod folder;
mod fork_server;
mod group;
mod meter;
mod mounts;
mod proc;
mod removal;
mod settings;
mod spent;
mod sweep;

#[cfg(test)]
mod tests;

pub(crate) use amounts::{ExceededLimit, TreeBounds, Usage};
pub(crate) use controller::{Controller, Kind};
pub(crate) use fork_server::ForkServerBounds;
pub(crate) use group::{Group, GroupHandle};
pub(crate) use meter::Meter;
