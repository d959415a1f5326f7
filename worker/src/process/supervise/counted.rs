//! Keeps a process tree within its bounds: a control group counts it, or this process looks at it now and then. No group
//! bounds CPU time: this process looks how much the group has counted.

use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::sched_getaffinity;

use crate::process::bounds::{Bounds, Exceeded, Group, Kind, Meter, Together, Usage};
use crate::process::forkserver::MOST_CALLS;
use crate::process::protocol::{Command, Exit};

/// Between two looks at a tree, and how old a tree is when it is looked at first: most have ended by then.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The longest time between two looks at a group.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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
pub(super) fn group(command: &Command, counting: Counting) -> std::io::Result<Option<Group>> {
    let (Some(plan), Some(bounds)) = (&command.jail, bounds(command)) else { return Ok(None) };
    let (controller, _) = plan.bounds();
    if controller.kind() == Kind::Measured {
        return Ok(None);
    }
    let bounds = match counting {
        Counting::OneRun => bounds,
        Counting::AllCalls => {
            Together { one: bounds, temp_bytes: plan.temp_bytes(), most: MOST_CALLS }.bounds(controller)
        }
    };
    let processes = bounds.processes.saturating_add(OURS);
    Group::create(controller, NAME, Bounds { processes, ..bounds }).map(Some)
}

/// What the tree of a command may have; of a fork server, each call.
pub(super) fn bounds(command: &Command) -> Option<Bounds> {
    let (_, bounds) = command.jail.as_ref()?.bounds();
    // A process that serves many calls has no limit on its CPU time, whatever the manifest says.
    let cpu_seconds = if command.forks { bounds.cpu_seconds } else { command.limits.cpu_seconds };
    Some(Bounds { cpu_seconds, ..bounds })
}

/// Looks at one tree, for what nothing else bounds.
pub(super) struct Measured<'a> {
    bounds: Bounds,
    means: Means<'a>,
    next: Instant,
}

/// Where a look is taken.
enum Means<'a> {
    /// At the group, which bounds all but CPU time.
    Group(&'a Group),
    /// At the processes: `root`, and all that descends from it or from the process `above`.
    Processes {
        root: Pid,
        above: Option<i32>,
        /// None before the first look.
        meter: Option<Box<Meter>>,
    },
}

impl<'a> Measured<'a> {
    /// For a run that has just been started: all that descends from this process. None: the group bounds all of it.
    pub(super) fn of_run(bounds: Bounds, group: Option<&'a Group>) -> Option<Self> {
        let processes = Means::Processes { root: own(), above: None, meter: None };
        let (bounds, means) = match group {
            None => (bounds, processes),
            Some(_) if bounds.cpu().is_none() => return None,
            Some(group) if group.cpu().is_some() => (bounds, Means::Group(group)),
            // Its CPU time alone is not counted.
            Some(_) => (Bounds { memory_bytes: u64::MAX, processes: u64::MAX, ..bounds }, processes),
        };
        Some(Self::new(bounds, means))
    }

    /// For a call that has just been started: `root`, and all that descends from it or from the process `above`.
    pub(super) fn of_call(bounds: Bounds, root: Pid, above: Option<i32>) -> Self {
        Self::new(bounds, Means::Processes { root, above, meter: None })
    }

    fn new(bounds: Bounds, means: Means<'a>) -> Self {
        Self { bounds, means, next: Instant::now() + LOOK }
    }

    /// How long until the next look.
    pub(super) fn pause(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Looks, if it is time to. What the tree has too much of, in words for the caller.
    pub(super) fn look(&mut self) -> Option<String> {
        if self.pause().is_zero() { self.look_now() } else { None }
    }

    /// Looks once more when nothing of the tree is left: what it had too much of.
    pub(super) fn look_back(&mut self, exit: Exit) -> Option<String> {
        self.look_now().or_else(|| self.explain(exit))
    }

    /// What explains that a process was ended by a signal of the kernel: its limit on the CPU time of one process. The kernel
    /// counts less exactly than a look does, so it may come first.
    pub(super) fn explain(&self, exit: Exit) -> Option<String> {
        (exit == Exit::Signal(libc::SIGXCPU) && self.bounds.cpu().is_some())
            .then(|| Exceeded::Cpu.explain(&self.bounds))
    }

    fn look_now(&mut self) -> Option<String> {
        let now = Instant::now();
        self.next = now + LOOK;
        let most = Bounds { processes: self.bounds.processes.saturating_add(OURS), ..self.bounds };
        let usage = match &mut self.means {
            Means::Group(group) => {
                let cpu = group.cpu()?;
                self.next = now + pause(self.bounds, cpu);
                Usage { cpu, ..Usage::default() }
            }
            Means::Processes { root, above, meter } => {
                if meter.is_none() {
                    *meter = Meter::of_tree(most, root.as_raw_nonzero().get(), *above).ok().map(Box::new);
                }
                meter.as_mut()?.measure().ok()?
            }
        };
        usage.exceeds(&most).map(|it| it.explain(&self.bounds))
    }
}

/// How long a tree needs to use up the CPU time it is still to have, if it has all processors. Within reason.
fn pause(bounds: Bounds, used: Duration) -> Duration {
    let left = bounds.cpu().unwrap_or(Duration::MAX).saturating_sub(used);
    let processors = sched_getaffinity(None).map_or(1, |it| it.count().max(1));
    (left / processors).clamp(LOOK, LONGEST_PAUSE)
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

    const ONE: Bounds = Bounds { memory_bytes: 512 * MIB, processes: 64, cpu_seconds: 300 };

    #[test]
    fn the_kernels_signal_for_cpu_time_is_explained_and_another_one_is_not() {
        let explain = |cpu_seconds, signal| {
            Measured::of_call(Bounds { cpu_seconds, ..ONE }, own(), None).explain(Exit::Signal(signal))
        };
        let reason = "the skill used more than its cpu_seconds: 3000 s of CPU time";
        assert_eq!(explain(3000, libc::SIGXCPU).as_deref(), Some(reason));
        assert_eq!(explain(3000, libc::SIGKILL), None);
        assert_eq!(explain(u64::MAX, libc::SIGXCPU), None, "without a bound, the skill has sent it");
    }

    #[test]
    fn a_look_at_a_group_comes_before_its_cpu_time_can_be_used_up() {
        let after = |used_ms| pause(Bounds { cpu_seconds: 60, ..ONE }, Duration::from_millis(used_ms));
        assert!((LOOK..=LONGEST_PAUSE).contains(&after(0)));
        assert_eq!([after(59_990), after(70_000)], [LOOK; 2]);
    }
}
