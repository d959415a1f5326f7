//! Keeps a process tree within its bounds: a control group counts it, or this process looks at it now and then.

use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::process::bounds::{Bounds, Exceeded, Group, Kind, Meter, Usage};
use crate::process::jail::plan::Plan;
use crate::process::tree;

/// Between two looks at a tree, and how old a tree is when it is looked at first: most have ended by then.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The processes of a tree that are not the skill's: the supervisor, and what waits as process 1 of a namespace.
const OURS: u64 = 2;

/// The name of a supervisor's only group.
const NAME: &str = "tree";

/// The control group of a tree, where there are such groups. Dropping it kills what is left in there.
///
/// # Errors
/// The group cannot be made. Nothing may run then: nobody would count it.
pub(super) fn group(plan: Option<&Plan>) -> std::io::Result<Option<Group>> {
    let Some((controller, bounds)) = plan.map(Plan::bounds) else { return Ok(None) };
    if controller.kind() == Kind::Measured {
        return Ok(None);
    }
    let processes = bounds.processes.saturating_add(OURS);
    Group::create(controller, NAME, Bounds { processes, ..bounds }).map(Some)
}

/// Looks at one tree, if nothing else counts it.
pub(super) struct Measured {
    bounds: Bounds,
    /// Those of the processes from which the tree descends.
    meters: Vec<Meter>,
    roots: Vec<Pid>,
    next: Instant,
}

impl Measured {
    /// A tree that has just been started: all that descends from these processes.
    pub(super) fn new(bounds: Bounds, roots: impl IntoIterator<Item = Pid>) -> Self {
        let roots = roots.into_iter().collect();
        Self { bounds, meters: Vec::new(), roots, next: Instant::now() + LOOK }
    }

    /// Looks, if it is time to. What the tree has too much of, in words for the caller.
    pub(super) fn look(&mut self) -> Option<String> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + LOOK;
        if self.meters.is_empty() {
            let meter = |root: &Pid| Meter::of_tree(self.bounds, root.as_raw_nonzero().get()).ok();
            self.meters = self.roots.iter().filter_map(meter).collect();
        }
        let mut all = Usage::default();
        for usage in self.meters.iter_mut().filter_map(|it| it.measure().ok()) {
            all.memory_bytes = all.memory_bytes.saturating_add(usage.memory_bytes);
            all.processes = all.processes.saturating_add(usage.processes);
        }
        let most = Bounds { processes: self.bounds.processes.saturating_add(OURS), ..self.bounds };
        all.exceeds(&most).map(|it| it.explain(&self.bounds))
    }
}

/// What a group says about a run that was killed, in words for the caller.
pub(super) fn explain(group: Option<&Group>, plan: Option<&Plan>) -> Option<String> {
    let (_, bounds) = plan?.bounds();
    let exceeded = group?.events().exceeded()?;
    (exceeded != Exceeded::Processes).then(|| exceeded.explain(&bounds))
}

/// The process in which all of a supervisor's tree begins.
pub(super) fn own() -> Option<Pid> {
    Pid::from_raw(tree::own_pid())
}
