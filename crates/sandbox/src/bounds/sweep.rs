//! Removes the folders of dead supervisors and workers, and kills the processes in them.

use std::path::Path;
use std::time::{Duration, Instant};

use super::controller::{Controller, TREE_PREFIX, WORKER_PREFIX};
use super::folder::CgroupFolder;
use super::removal;
use crate::folder_owner::FolderOwner;

/// The time limit for a whole sweep.
const SWEEP: Duration = Duration::from_secs(1);

/// The time limit for one folder, so that a process that can't be killed does not delay the other folders.
const FOLDER: Duration = Duration::from_millis(50);

/// The maximum number of subfolders that one sweep looks at.
const MOST_FOLDERS: usize = 10_000;

impl Controller {
    /// Removes dead supervisors' groups and dead workers' folders. Returns the number of removed folders. Reads
    /// folders, and waits at most one second for processes to end, so do not call it on a thread that serves
    /// requests.
    pub(crate) fn sweep(&self) -> usize {
        let Ok(own) = FolderOwner::own() else { return 0 };
        let until = Instant::now() + SWEEP;
        self.bases.iter().map(|base| sweep_beside(base, &own, until)).sum()
    }

    /// Removes the worker's folder. Called when the worker ends. The next worker's sweep removes the groups of
    /// supervisors that are still alive.
    pub(crate) fn close(&self) {
        self.sweep();
        for base in &self.bases {
            let _ = std::fs::remove_dir(base);
        }
    }
}

/// Sweeps a worker's folder and its sibling folders.
fn sweep_beside(base: &Path, own: &FolderOwner, until: Instant) -> usize {
    let Some(Ok(top)) = base.parent().map(CgroupFolder::open) else { return 0 };
    let mut swept = 0;
    for name in top.subs(MOST_FOLDERS).unwrap_or_default() {
        let Some(owner) = FolderOwner::parse_name(&name, WORKER_PREFIX) else { continue };
        let is_own = base.ends_with(&name);
        let is_dead = owner.is_gone(own);
        if (is_own || is_dead)
            && let Ok(folder) = top.sub(&name)
        {
            swept += sweep_within(&folder, own, until);
        }
        // Remove only an empty folder: supervisors briefly outlive a worker that was killed.
        if is_dead && !is_own && top.remove(&name).is_ok() {
            swept += 1;
        }
    }
    swept
}

/// Removes the groups of dead supervisors from a worker's folder.
fn sweep_within(folder: &CgroupFolder, own: &FolderOwner, until: Instant) -> usize {
    let names = folder.subs(MOST_FOLDERS).unwrap_or_default();
    let dead =
        names.iter().filter(|name| FolderOwner::parse_name(name, TREE_PREFIX).is_some_and(|owner| owner.is_gone(own)));
    let removed = dead.filter(|name| {
        let now = Instant::now();
        now < until && removal::remove(folder, name, until.min(now + FOLDER))
    });
    removed.count()
}
