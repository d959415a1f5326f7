//! Tracks calls whose process has exited until all processes that they left behind have ended.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};

use super::super::super::protocol::Exit;
use super::super::super::tree;
use super::running::RunningCall;

/// How often to list the orphans again while new ones appear.
const LOOKS: usize = 100;

/// The calls, in the order in which they exited.
#[derive(Default)]
pub(super) struct FinishingCalls(pub(super) Vec<FinishingCall>);

/// A call whose process has exited.
pub(super) struct FinishingCall {
    pub(super) call: u64,
    pid: i32,
    pub(super) exit: Exit,
    /// The name of its temporary directory.
    pub(super) folder: String,
    /// Explains the limit that it exceeded, if any.
    pub(super) exceeded: Option<String>,
    /// The time until which its orphans may exit on their own.
    until: Instant,
    /// The number of processes that were killed in its namespace before it was added.
    pub(super) leftovers: u32,
    pub(super) killed: BTreeSet<i32>,
}

impl FinishingCalls {
    /// Adds a call, whose orphans have `patience` to exit on their own.
    pub(super) fn add(&mut self, call: u64, process: RunningCall, exit: Exit, leftovers: u32, patience: Duration) {
        let RunningCall { pid, folder, exceeded, .. } = process;
        let until = Instant::now() + patience;
        self.0.push(FinishingCall { call, pid, exit, folder, exceeded, until, leftovers, killed: BTreeSet::new() });
    }

    /// Kills orphans whose time is over, and removes calls whose processes have all ended. `is_known`: whether a process is not
    /// an orphan.
    pub(super) fn take_over(&mut self, is_known: impl Fn(i32) -> bool) -> Vec<FinishingCall> {
        let orphans = orphans(is_known);
        let owners: Vec<Option<u64>> = orphans.iter().map(|orphan| self.owner(*orphan)).collect();
        self.end_orphans(&orphans, &owners);
        // A daemon has its own session, so its call is unknown. All ended calls wait until it has ended.
        let unclaimed = owners.contains(&None);
        self.0.extract_if(.., |it| !unclaimed && !owners.contains(&Some(it.call))).collect()
    }

    /// Returns the call to whose session a process belongs.
    fn owner(&self, orphan: i32) -> Option<u64> {
        let session = tree::session(orphan)?;
        self.0.iter().find(|it| it.pid == session).map(|it| it.call)
    }

    /// Kills orphans whose time is over. An orphan without an owner is attributed to the call that ended first.
    fn end_orphans(&mut self, orphans: &[i32], owners: &[Option<u64>]) {
        let (mut snapshot, now) = (None, Instant::now());
        for (orphan, owner) in orphans.iter().zip(owners) {
            let call = self.0.iter_mut().find(|it| owner.is_none_or(|owner| it.call == owner));
            let Some(call) = call.filter(|it| it.until <= now) else { continue };
            call.killed.insert(*orphan);
            let all = snapshot.get_or_insert_with(tree::Snapshot::take);
            for process in all.descendants(*orphan).into_iter().filter(|it| !it.zombie) {
                tree::kill(process.pid);
                call.killed.insert(process.pid);
            }
            tree::kill(*orphan);
        }
    }
}

/// Lists the processes that ended calls left behind, and reaps dead ones. An empty list means that none is left: a
/// process that exits at this moment has passed on its orphans before the next call.
fn orphans(is_known: impl Fn(i32) -> bool) -> Vec<i32> {
    let list = || tree::own_children().into_iter().filter(|pid| !is_known(*pid)).collect::<Vec<_>>();
    for _ in 0..LOOKS {
        let mut orphans = list();
        let count = orphans.len();
        orphans.retain(|pid| !is_reaped(*pid));
        if orphans.len() == count || !orphans.is_empty() {
            return orphans;
        }
    }
    // Orphans appear as fast as they are reaped, because a process keeps forking.
    list()
}

fn is_reaped(pid: i32) -> bool {
    !matches!(Pid::from_raw(pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG)), Some(Ok(None)))
}
