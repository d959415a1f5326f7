//! The labels of containers, which name their worker: any process can find out whether it still runs.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openskill_proto::trace::{hex, random_id};
use openskill_sandbox::tree;

/// The label that all containers of one worker share.
pub(super) const INSTANCE: &str = "openskill.instance";

const WORKER: &str = "openskill.worker";
const OWNER: &str = "openskill.owner";
const UNTIL: &str = "openskill.until";
const SKILL: &str = "openskill.skill";

/// How much longer a container is kept after its deadline, in seconds, because clocks differ.
const SLACK_S: u64 = 60;

/// Identifies a worker's process.
///
/// A process id alone is insufficient: ids are reused, differ between PID namespaces, and mean nothing on another
/// machine. So a worker is identified by its kernel's boot id, its namespace, its process id and its start time. Where
/// these can't be checked, a container is removed only some time after its call's deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerOwner {
    /// A random id, unique to this process.
    pub(super) instance: String,
    worker_id: String,
    /// The kernel and namespace in which the process id is meaningful.
    boot: String,
    namespace: String,
    pid: u32,
    /// The process's start time, in clock ticks since boot.
    started: u64,
}

impl ContainerOwner {
    /// Identifies the current process.
    pub(super) fn this(worker_id: &str) -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default().to_string_lossy().into_owned();
        let pid = std::process::id();
        let started = tree::start_time(pid).unwrap_or_default();
        Self { instance: hex(&random_id::<8>()), worker_id: worker_id.to_owned(), boot, namespace, pid, started }
    }

    /// Returns the labels of a container that is no longer needed after `life`.
    pub(super) fn labels(&self, skill_id: &str, life: Duration) -> HashMap<String, String> {
        let Self { boot, namespace, pid, started, .. } = self;
        let labels = [
            (WORKER, self.worker_id.clone()),
            (INSTANCE, self.instance.clone()),
            (OWNER, format!("{boot} {namespace} {pid} {started}")),
            (UNTIL, (now_s() + life.as_secs()).to_string()),
            (SKILL, skill_id.to_owned()),
        ];
        labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns whether the container with these labels is no longer needed. `local`: the engine uses this
    /// machine's kernel.
    pub(super) fn is_abandoned(&self, labels: &HashMap<String, String>, local: bool) -> bool {
        let over = labels.get(UNTIL).and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| it + SLACK_S < now_s());
        over || labels.get(OWNER).and_then(|owner| self.is_dead(owner, local)) == Some(true)
    }

    /// Returns whether the worker that a label describes no longer runs. Returns `None` if it does not describe one.
    fn is_dead(&self, owner: &str, local: bool) -> Option<bool> {
        let mut parts = owner.split(' ');
        let (boot, namespace) = (parts.next()?, parts.next()?);
        let (pid, started) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(if boot == self.boot && namespace == self.namespace {
            tree::start_time(pid) != Some(started)
        } else {
            // If the machine has rebooted, the worker no longer runs.
            local && boot != self.boot
        })
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(labels: &HashMap<String, String>, name: &str, change: impl Fn(&str) -> String) -> HashMap<String, String> {
        let mut labels = labels.clone();
        let value = change(&labels[name]);
        labels.insert(name.to_owned(), value);
        labels
    }

    #[test]
    fn a_container_of_a_living_worker_is_left_alone() {
        let owner = ContainerOwner::this("w");
        let labels = owner.labels("s", Duration::from_secs(10));
        assert!(!owner.is_abandoned(&labels, true));
        assert!(!ContainerOwner::this("another").is_abandoned(&labels, true));
    }

    #[test]
    fn one_whose_worker_is_dead_or_had_its_id_before_is_abandoned() {
        let owner = ContainerOwner::this("w");
        let labels = owner.labels("s", Duration::from_secs(10));
        let ContainerOwner { boot, namespace, pid, started, .. } = &owner;
        let reused = with(&labels, OWNER, |_| format!("{boot} {namespace} {pid} {}", started + 1));
        assert!(owner.is_abandoned(&reused, true));
        let gone = with(&labels, OWNER, |_| format!("{boot} {namespace} 4194305 1"));
        assert!(owner.is_abandoned(&gone, true));
    }

    #[test]
    fn what_can_not_be_judged_is_left_until_its_time_is_over() {
        let owner = ContainerOwner::this("w");
        let labels = owner.labels("s", Duration::from_secs(10));
        let elsewhere = with(&labels, OWNER, |text| text.replace("pid:", "other:"));
        assert!(!owner.is_abandoned(&elsewhere, true));
        let other_boot = with(&labels, OWNER, |text| format!("x{text}"));
        assert!(!owner.is_abandoned(&other_boot, false));
        assert!(owner.is_abandoned(&other_boot, true));
        let late = with(&elsewhere, UNTIL, |_| (now_s() - 2 * SLACK_S).to_string());
        assert!(owner.is_abandoned(&late, false));
        assert!(!owner.is_abandoned(&HashMap::new(), true));
    }
}
