//! Keeps a process tree within its limits. Either a control group counts its usage, or this process polls it.
//! Groups do not limit total CPU time, so this process always polls that.

use std::time::{Duration, Instant};

use rustix::thread::sched_getaffinity;

use crate::bounds::{ExceededLimit, ForkServerBounds, Group, Kind, Meter, TreeBounds, Usage};
use crate::forkserver::MOST_CALLS;
use crate::protocol::{Command, Exit};
use crate::tree;

/// The pause between two checks of a tree, and before the first one. Most trees end before the first check.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The maximum pause between two checks of a group.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The number of processes in a tree that do not belong to the skill: the supervisor, and process 1 of the
/// namespace.
const OURS: u64 = 2;

const MIB: u64 = 1024 * 1024;

/// The name of the only group that a supervisor creates.
const NAME: &str = "tree";

/// The processes that a group counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// One process with all its descendants.
    OneRun,
    /// A fork server with all its calls, to include usage that checks of single calls do not see, such as socket
    /// buffers.
    AllCalls,
}

/// Creates the control group of a run, or of a fork server with all its calls, if this machine has control groups.
/// Dropping it kills the processes that are left in it.
///
/// # Errors
/// Fails if the group can't be created. Then nothing may run, because its usage would not be counted.
pub(super) fn group(command: &Command) -> std::io::Result<Option<Group>> {
    let (Some(plan), Some(bounds)) = (&command.jail, bounds(command)) else { return Ok(None) };
    let controller = &plan.controller;
    if controller.kind == Kind::Measured {
        return Ok(None);
    }
    let all_calls = ForkServerBounds { one: bounds, temp_bytes: plan.temp_bytes, most: MOST_CALLS };
    let bounds = if command.forks { all_calls.bounds(controller.memory_there()) } else { bounds };
    Group::create(controller, NAME, with_ours(bounds)).map(Some)
}

/// Returns the limits of a tree that contains the processes that do not belong to the skill.
fn with_ours(bounds: TreeBounds) -> TreeBounds {
    TreeBounds { processes: bounds.processes.saturating_add(OURS), ..bounds }
}

/// Returns the limits of a command's tree, or of each call for a fork server.
pub(super) fn bounds(command: &Command) -> Option<TreeBounds> {
    let bounds = command.jail.as_ref()?.bounds;
    // A process that serves many calls has no limit on CPU time, whatever the manifest sets.
    let cpu_seconds = if command.forks { bounds.cpu_seconds } else { command.limits.cpu_seconds };
    Some(TreeBounds { cpu_seconds, ..bounds })
}

/// Polls the usage of a tree that nothing else limits.
pub(super) struct UsageWatch<'a> {
    bounds: TreeBounds,
    source: UsageSource<'a>,
    next: Instant,
}

/// The source of the usage.
enum UsageSource<'a> {
    /// The group, which itself limits everything except CPU time.
    Group(&'a Group),
    /// The processes.
    Processes(Box<Meter>),
}

impl<'a> UsageWatch<'a> {
    /// Watches a run that has just started, with all descendants of this process. Returns `None` if the group
    /// limits everything.
    pub(super) fn for_run(bounds: TreeBounds, group: Option<&'a Group>) -> Option<Self> {
        match group {
            None => Some(Self::for_call(bounds, tree::own_pid(), None)),
            Some(_) if bounds.cpu().is_none() => None,
            Some(group) if group.cpu().is_some() => Some(Self::new(bounds, UsageSource::Group(group))),
            // The group counts everything except CPU time.
            Some(_) => {
                let bounds = TreeBounds { memory_bytes: u64::MAX, processes: u64::MAX, ..bounds };
                Some(Self::for_call(bounds, tree::own_pid(), None))
            }
        }
    }

    /// Watches a call that has just started: `root`, and all descendants of `root` and of the process `above`.
    pub(super) fn for_call(bounds: TreeBounds, root: i32, above: Option<i32>) -> Self {
        Self::new(bounds, UsageSource::Processes(Box::new(Meter::for_tree(with_ours(bounds), root, above))))
    }

    fn new(bounds: TreeBounds, source: UsageSource<'a>) -> Self {
        Self { bounds, source, next: Instant::now() + LOOK }
    }

    /// Returns the time until the next check.
    pub(super) fn pause(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Checks the usage if a check is due. Returns the exceeded limit as a sentence for the caller.
    pub(super) fn look(&mut self) -> Option<String> {
        if self.pause().is_zero() { self.look_now() } else { None }
    }

    /// Checks once more after the tree has ended. Returns the exceeded limit.
    pub(super) fn look_back(&mut self, exit: Exit) -> Option<String> {
        self.look_now().or_else(|| self.explain(exit))
    }

    /// Explains an exit by SIGXCPU, which enforces the kernel's limit on one process's CPU time. The kernel counts
    /// less exactly than a check, so the signal may come first.
    pub(super) fn explain(&self, exit: Exit) -> Option<String> {
        (exit == Exit::Signal(libc::SIGXCPU) && self.bounds.cpu().is_some())
            .then(|| ExceededLimit::Cpu.explain(&self.bounds))
    }

    fn look_now(&mut self) -> Option<String> {
        let now = Instant::now();
        self.next = now + LOOK;
        let usage = match &mut self.source {
            UsageSource::Group(group) => {
                let cpu = group.cpu()?;
                self.next = now + pause(self.bounds, cpu);
                Usage { cpu, ..Usage::default() }
            }
            UsageSource::Processes(meter) => meter.measure(),
        };
        usage.exceeds(&with_ours(self.bounds)).map(|it| it.explain(&self.bounds))
    }
}

/// Returns how long the tree needs to use up its remaining CPU time on all processors, within a minimum and a
/// maximum.
fn pause(bounds: TreeBounds, used: Duration) -> Duration {
    let left = bounds.cpu().unwrap_or(Duration::MAX).saturating_sub(used);
    let processors = sched_getaffinity(None).map_or(1, |it| it.count().max(1));
    (left / processors).clamp(LOOK, LONGEST_PAUSE)
}

/// Returns what the group shows about a run that was killed, as a sentence for the caller.
pub(super) fn explain(group: Option<&Group>, counting: Counting) -> Option<String> {
    let group = group?;
    match (group.likely_cause()?, counting) {
        (ExceededLimit::Processes, _) => None,
        (ExceededLimit::Memory, Counting::AllCalls) => {
            let most = group.bounds.memory_bytes / MIB;
            Some(format!("the skill's concurrent calls exceeded their memory limit: {most} MiB"))
        }
        (exceeded, _) => Some(exceeded.explain(&group.bounds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: TreeBounds = TreeBounds { memory_bytes: 512 * MIB, processes: 64, cpu_seconds: 300 };

    #[test]
    fn only_the_kernels_signal_for_cpu_time_is_explained() {
        let explain = |cpu_seconds, signal| {
            UsageWatch::for_call(TreeBounds { cpu_seconds, ..ONE }, 1, None).explain(Exit::Signal(signal))
        };
        let reason = "the skill exceeded its cpu_seconds limit: 3000 s of CPU time";
        assert_eq!(explain(3000, libc::SIGXCPU).as_deref(), Some(reason));
        assert_eq!(explain(3000, libc::SIGKILL), None);
        assert_eq!(explain(u64::MAX, libc::SIGXCPU), None, "without a bound, the skill has sent it");
    }

    #[test]
    fn a_look_at_a_group_comes_before_its_cpu_time_can_be_used_up() {
        let after = |used_ms| pause(TreeBounds { cpu_seconds: 60, ..ONE }, Duration::from_millis(used_ms));
        assert!((LOOK..=LONGEST_PAUSE).contains(&after(0)));
        assert_eq!([after(59_990), after(70_000)], [LOOK; 2]);
    }
}
