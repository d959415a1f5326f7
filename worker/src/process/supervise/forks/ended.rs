//! Calls whose process has exited, until nothing that they left behind is there.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};

use super::super::super::protocol::Exit;
use super::super::super::tree;
use super::running::Running;

/// How often the orphans are listed again while they come and go.
const LOOKS: usize = 100;

/// The calls, in the order in which they ended.
#[derive(Default)]
pub(super) struct Ended(Vec<Call>);

struct Call {
    call: u64,
    pid: i32,
    exit: Exit,
    folder: String,
    exceeded: Option<String>,
    /// Until then its orphans may end by themselves.
    until: Instant,
    /// How many were killed in its namespace before it came here.
    leftovers: u32,
    killed: BTreeSet<i32>,
}

/// A call of which nothing is left.
pub(super) struct Over {
    pub(super) call: u64,
    pub(super) exit: Exit,
    /// How many processes it had left running, which had to be killed.
    pub(super) leftovers: u32,
    /// The name of its temporary directory.
    pub(super) folder: String,
    /// What it had too much of.
    pub(super) exceeded: Option<String>,
}

impl Ended {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The calls, by number.
    pub(super) fn calls(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|it| it.call)
    }

    /// Its orphans have `patience` to end by themselves.
    pub(super) fn add(&mut self, call: u64, process: Running, (exit, leftovers): (Exit, u32), patience: Duration) {
        let Running { pid, folder, exceeded, .. } = process;
        let until = Instant::now() + patience;
        self.0.push(Call { call, pid, exit, folder, exceeded, until, leftovers, killed: BTreeSet::new() });
    }

    /// Ends orphans whose time is over, and takes out the calls that have none. `is_known`: processes that are no orphans.
    pub(super) fn take_over(&mut self, is_known: impl Fn(i32) -> bool) -> Vec<Over> {
        let orphans = orphans(is_known);
        let owners: Vec<Option<u64>> = orphans.iter().map(|orphan| self.owner(*orphan)).collect();
        self.end_orphans(&orphans, &owners);
        // A daemon has a session of its own. Nobody can tell whose it is, so all calls that have ended wait for its end.
        let unclaimed = owners.contains(&None);
        let over = self.0.extract_if(.., |it| !unclaimed && !owners.contains(&Some(it.call)));
        over.map(|it| Over {
            call: it.call,
            exit: it.exit,
            leftovers: it.leftovers.saturating_add(it.killed.len() as u32),
            folder: it.folder,
            exceeded: it.exceeded,
        })
        .collect()
    }

    /// The call in whose session a process is.
    fn owner(&self, orphan: i32) -> Option<u64> {
        let session = tree::session(orphan)?;
        self.0.iter().find(|it| it.pid == session).map(|it| it.call)
    }

    /// Kills orphans whose time is over. One without an owner counts for the call that ended first.
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

/// What calls that have ended left behind; those that are dead are reaped. When this is empty, nothing is left: what a
/// process that ends at this moment leaves has come here by the next look.
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
    // They come as fast as they go: something forks on and on.
    list()
}

fn is_reaped(pid: i32) -> bool {
    !matches!(Pid::from_raw(pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG)), Some(Ok(None)))
}
