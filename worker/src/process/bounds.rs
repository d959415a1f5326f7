//! Bounds on one whole process tree: how much memory and how many processes all of it may have at one time, and how much
//! CPU time it may use from its start to its end.
//!
//! Limits of a single process (setrlimit(2)) do not add up: `RLIMIT_AS` knows no memfd and starts again in each child, as
//! `RLIMIT_CPU` does, and `RLIMIT_NPROC` counts all processes of a user. So the kernel counts each tree in a control group,
//! or the supervisor measures it.
//!
//! | [`Kind`] | who counts | memory beyond the bound | processes beyond the bound |
//! |---|---|---|---|
//! | `V2` | the kernel, cgroup v2 | the kernel kills the whole tree | fork(2) fails with `EAGAIN` |
//! | `V1` | the kernel, cgroup v1 | the kernel kills the largest process of the tree | fork(2) fails with `EAGAIN` |
//! | `Measured` | the supervisor, by a [`Meter`] | the supervisor ends the tree | the supervisor ends the tree |
//!
//! The kernel counts CPU time on v2, and on v1 where `cpuacct` is to be had; elsewhere a [`Meter`] does. No kernel bounds it:
//! the supervisor asks now and then, and ends a tree that has used up what it may.
//!
//! ```text
//! worker:      Controller::find ── once, by trying ──> Controller ── in its message ──> supervisor
//!              Controller::sweep, at the start and now and then;  Controller::close, at the end
//! supervisor:  Group::create -> add or Entrance::enter -> (the tree runs) -> cpu, events -> drop: kills the rest, removes it
//!              or, if Measured: Meter::of_tree -> measure, every 50 ms -> Usage::exceeds
//! ```
//!
//! Folders, in the hierarchy's folder of the worker itself, as `/proc/self/cgroup` and `/proc/self/mountinfo` say it:
//!
//! ```text
//! <own cgroup>/openskill-worker/                       v2 only: the worker's processes, if it had to move them
//! <own cgroup>/openskill-SPACE-PID-START-N/            one for each worker: holds no process
//!              └─ run-SPACE-PID-START-NAME/            one for each tree, made by its supervisor
//! ```
//!
//! SPACE is the process-id namespace, PID and START are the process that made the folder: so a sweep knows whose maker is
//! dead, as it does for temporary folders.
//!
//! - `amounts`: the numbers; `controller`: what this machine gives; `group`: one bounded tree
//! - `find`: finds the controller; `mounts`: where hierarchies are; `delegation`: v2's rules about who may live where
//! - `folder`: a cgroup's files, by descriptor; `settings`: which of them are written; `events`: what they say later
//! - `removal`: killing what is in a folder and removing it; `sweep`: the folders of the dead; `owner`: whose a folder is
//! - `meter`: counting without control groups, `spent` what CPU time was used; `proc`: the files it reads
//! - `together`: the limits of processes that run side by side
//!
//! The rules come from the kernel's documentation: `Documentation/admin-guide/cgroup-v2.rst`,
//! `Documentation/admin-guide/cgroup-v1/{cgroups,cpuacct,memory,pids}.rst` and `Documentation/filesystems/proc.rst`. Each
//! file names the section it follows.
//!
//! # What a control group does not do
//! - It keeps nobody from its own files. Where a skill runs as the user that made the folders, its other walls must keep
//!   `/sys/fs/cgroup` from it.
//! - Memory is whatever the kernel charges to the tree: anonymous and shared memory, memfd, files on tmpfs, page tables,
//!   buffers of pipes and sockets, and page cache, which is reclaimed before anything is killed. A temporary folder on
//!   tmpfs is part of the bound.

mod amounts;
mod controller;
mod delegation;
mod events;
mod find;
mod folder;
mod group;
mod meter;
mod mounts;
mod owner;
mod proc;
mod removal;
mod settings;
mod spent;
mod sweep;
mod together;

#[cfg(test)]
mod tests;

pub(crate) use amounts::{Bounds, Exceeded, Usage};
pub(crate) use controller::{Controller, Kind};
pub(crate) use group::{Entrance, Group};
pub(crate) use meter::Meter;
pub(crate) use together::Together;
