//! Keeps a process tree within its bounds: a control group counts it, or this process looks at it now and then.

use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::process::bounds::{Bounds, Controller, Exceeded, Group, Kind, Meter, Usage};
use crate::process::forkserver::MOST_CALLS;
use crate::process::jail::plan::Plan;

/// Between two looks at a tree, and how old a tree is when it is looked at first: most have ended by then.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The processes of a tree that are not the skill's: the supervisor, and what waits as process 1 of a namespace.
const OURS: u64 = 2;

const MIB: u64 = 1024 * 1024;

/// The name of a supervisor's only group.
const NAME: &str = "tree";

/// What a group counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// A process with all that descends from it.
    OneRun,
    /// A fork server with all its calls: for what looking at each of them does not show, such as buffers of sockets.
    AllCalls,
}

/// The control group of a tree, where there are such groups. Dropping it kills what is left in there.
///
/// # Errors
/// The group cannot be made. Nothing may run then: nobody would count it.
pub(super) fn group(plan: Option<&Plan>, counting: Counting) -> std::io::Result<Option<Group>> {
    let Some(plan) = plan else { return Ok(None) };
    let (controller, bounds) = plan.bounds();
    if controller.kind() == Kind::Measured {
        return Ok(None);
    }
    let bounds = match counting {
        Counting::OneRun => bounds,
        Counting::AllCalls => of_calls(bounds, plan.temp_bytes(), memory_there(controller)),
    };
    let processes = bounds.processes.saturating_add(OURS);
    Group::create(controller, NAME, Bounds { processes, ..bounds }).map(Some)
}

/// What a fork server may have with all its calls: what each of them may, and no more than most of what is `there`.
fn of_calls(one: Bounds, temp_bytes: u64, there: u64) -> Bounds {
    let of_one = one.memory_bytes.saturating_add(temp_bytes);
    // The fork server itself is one more.
    let all = of_one.saturating_mul(MOST_CALLS as u64).saturating_add(one.memory_bytes);
    let memory_bytes = all.min(there / 4 * 3).max(of_one.saturating_add(one.memory_bytes));
    // Those that wait for a call, and process 1 of each namespace.
    let processes = one.processes.saturating_add(2).saturating_mul(2 * MOST_CALLS as u64);
    Bounds { memory_bytes, processes }
}

/// The memory of the machine, or of the container.
fn memory_there(controller: &Controller) -> u64 {
    let machine = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion, reason = "the numbers are narrower on some machines")]
    let machine = u64::from(machine.totalram).saturating_mul(machine.mem_unit.into());
    controller.memory_around().map_or(machine, |around| around.min(machine))
}

/// Looks at one tree, if nothing else counts it.
pub(super) struct Measured {
    bounds: Bounds,
    /// None before the first look.
    meter: Option<Meter>,
    root: Pid,
    above: Option<i32>,
    next: Instant,
}

impl Measured {
    /// A tree that has just been started: `root`, and all that descends from it or from the process `above`.
    pub(super) fn new(bounds: Bounds, root: Pid, above: Option<i32>) -> Self {
        Self { bounds, meter: None, root, above, next: Instant::now() + LOOK }
    }

    /// Looks, if it is time to. What the tree has too much of, in words for the caller.
    pub(super) fn look(&mut self) -> Option<String> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + LOOK;
        let most = Bounds { processes: self.bounds.processes.saturating_add(OURS), ..self.bounds };
        if self.meter.is_none() {
            self.meter = Meter::of_tree(most, self.root.as_raw_nonzero().get(), self.above).ok();
        }
        let usage: Usage = self.meter.as_mut()?.measure().ok()?;
        usage.exceeds(&most).map(|it| it.explain(&self.bounds))
    }
}

/// What a group says about a run that was killed, in words for the caller.
pub(super) fn explain(group: Option<&Group>, counting: Counting) -> Option<String> {
    let group = group?;
    match (group.events().exceeded()?, counting) {
        (Exceeded::Processes, _) => None,
        (Exceeded::Memory, Counting::AllCalls) => {
            let most = group.bounds().memory_bytes / MIB;
            Some(format!("the calls of the skill that ran together used more memory than they may: {most} MiB"))
        }
        (exceeded, _) => Some(exceeded.explain(group.bounds())),
    }
}

/// The process in which all of a supervisor's tree begins.
pub(super) fn own() -> Pid {
    rustix::process::getpid()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Bounds = Bounds { memory_bytes: 512 * MIB, processes: 64 };

    #[test]
    fn calls_together_may_have_what_each_may_and_leave_the_machine_some() {
        let memory = |there| of_calls(ONE, 64 * MIB, there * MIB).memory_bytes / MIB;
        assert_eq!(memory(1_000_000), 64 * (512 + 64) + 512);
        assert_eq!(memory(8000), 6000);
        assert_eq!(memory(1000), 512 + 64 + 512, "one call has its share whatever there is");
        assert!(of_calls(ONE, 0, u64::MAX).processes >= 64 * 64);
        let none = Bounds { memory_bytes: u64::MAX, processes: u64::MAX };
        assert_eq!(of_calls(none, u64::MAX, 4000).processes, u64::MAX);
    }
}
