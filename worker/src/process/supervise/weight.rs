//! How little of the processors a skill's processes get beside the gateway, the worker, and other callers.

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, getpriority_process, nice};

/// The nice value that every skill's process has at least: the gateway and the worker come first, so that a full machine
/// still refuses calls at once.
const SKILL_NICE: i32 = 5;

/// What a process and its session are given. Without it the process runs all the same.
pub(super) struct Weight {
    nice: i32,
    /// The nice value as text, made before the fork.
    text: String,
}

impl Weight {
    /// `nice`: on top of what each skill has.
    pub(super) fn of(nice: u8) -> Self {
        let nice = (SKILL_NICE + i32::from(nice)).min(19);
        Self { nice, text: nice.to_string() }
    }

    /// For this process and its session. Only system calls.
    pub(super) fn apply(&self) {
        let _ = nice(self.nice);
        weigh_session(c"/proc/self/autogroup", &self.text);
    }
}

/// Gives the session of a child of a fork server the nice value that the child has. Where the kernel schedules by session
/// (autogroup in sched(7)), the child's own value counts only within it, and the child may not change the session's at will.
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
