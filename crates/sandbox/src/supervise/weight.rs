//! Sets the CPU priority of skills' processes: below the gateway and the worker, and evenly shared among callers.

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, getpriority_process, nice};

/// The minimum nice value of all skill processes. The gateway and the worker have priority, so that a fully loaded
/// machine still refuses calls quickly.
const SKILL_NICE: i32 = 5;

/// The priority of a process and its session. A process also runs if this can't be set.
pub(super) struct Weight {
    nice: i32,
    /// The nice value as text, formatted before the fork.
    text: String,
}

impl Weight {
    /// Creates a priority. `nice`: added to the value that all skills have.
    pub(super) fn new(nice: u8) -> Self {
        let nice = (SKILL_NICE + i32::from(nice)).min(19);
        Self { nice, text: nice.to_string() }
    }

    /// Sets the priority of this process and its session. Only makes system calls.
    pub(super) fn apply(&self) {
        let _ = nice(self.nice);
        weigh_session(c"/proc/self/autogroup", &self.text);
    }
}

/// Sets the nice value of a fork server's child for its whole session. If the kernel schedules by session
/// (autogroup in sched(7)), the child's value counts only within the session, and the child may not change the
/// session's value freely.
pub(super) fn weigh_session_of(child: i32) {
    if let Ok(nice) = getpriority_process(Pid::from_raw(child)) {
        weigh_session(format!("/proc/{child}/autogroup"), &nice.clamp(0, 19).to_string());
    }
}

fn weigh_session(file: impl rustix::path::Arg, nice: &str) {
    if let Ok(group) = rustix::fs::open(file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::io::write(group, nice.as_bytes());
    }
}
