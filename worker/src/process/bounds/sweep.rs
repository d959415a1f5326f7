//! Removes the folders of dead supervisors and dead workers, with what still runs in there.

use std::path::Path;
use std::time::{Duration, Instant};

use super::controller::{Controller, TREE_PREFIX, WORKER_PREFIX};
use super::folder::Folder;
use super::owner::Owner;
use super::removal;

/// How long one sweep takes at most.
const SWEEP: Duration = Duration::from_secs(1);

/// How long one folder takes at most: what can't be killed must not keep the others.
const FOLDER: Duration = Duration::from_millis(50);

/// How many folders of a folder one sweep looks at.
const MOST_FOLDERS: usize = 10_000;

impl Controller {
    /// Removes the groups whose supervisor is dead, and the folders of dead workers. How many there were. Reads folders and
    /// waits for processes to end, a second at most: not for a thread that serves.
    pub(crate) fn sweep(&self) -> usize {
        let Ok(own) = Owner::own() else { return 0 };
        let until = Instant::now() + SWEEP;
        self.place.bases().into_iter().map(|base| sweep_beside(base, &own, until)).sum()
    }

    /// Removes the worker's own folder, at its end. What supervisors that still live have in there stays, for the sweep of
    /// the next worker.
    pub(crate) fn close(&self) {
        self.sweep();
        for base in self.place.bases() {
            let _ = std::fs::remove_dir(base);
        }
    }
}

/// Sweeps a worker's own folder and those beside it.
fn sweep_beside(base: &Path, own: &Owner, until: Instant) -> usize {
    let Some(Ok(top)) = base.parent().map(Folder::open) else { return 0 };
    let mut swept = 0;
    for name in top.subs(MOST_FOLDERS).unwrap_or_default() {
        let Some(owner) = Owner::of(&name, WORKER_PREFIX) else { continue };
        let is_own = base.ends_with(&name);
        let is_dead = owner.is_gone(own);
        if (is_own || is_dead)
            && let Ok(folder) = top.sub(&name)
        {
            swept += sweep_within(&folder, own, until);
        }
        // Not with what is in there: supervisors outlive a worker that was killed, for a moment.
        if is_dead && !is_own && top.remove(&name).is_ok() {
            swept += 1;
        }
    }
    swept
}

/// Removes what dead supervisors have left in a worker's folder.
fn sweep_within(folder: &Folder, own: &Owner, until: Instant) -> usize {
    let names = folder.subs(MOST_FOLDERS).unwrap_or_default();
    let dead = names.iter().filter(|name| Owner::of(name, TREE_PREFIX).is_some_and(|owner| owner.is_gone(own)));
    let removed = dead.filter(|name| {
        let now = Instant::now();
        now < until && removal::remove(folder, name, until.min(now + FOLDER))
    });
    removed.count()
}
