//! The ejections of one worker, polled from the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openskill_proto::v1::WorkerStatus;
use tokio::task::JoinSet;

use crate::gateway_log::now;
use crate::stage::{Stage, worker_id};

/// Between two polls.
const LOOK: Duration = Duration::from_millis(20);

/// Two ends that differ by less are the same: the answer has whole milliseconds, and takes a while.
const SAME: Duration = Duration::from_millis(300);

/// One ejection. Times since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ejection {
    /// When it was first seen.
    pub(super) seen: Duration,
    pub(super) until: Duration,
}

impl Ejection {
    pub(super) fn length(&self) -> Duration {
        self.until - self.seen
    }
}

/// Stops when it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    task: JoinSet<Vec<Ejection>>,
}

impl Watch {
    pub(super) fn start(stage: Arc<Stage>, worker: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut task, stopped) = (JoinSet::new(), Arc::clone(&stop));
        task.spawn(async move {
            let mut ejections = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                if let Some(left) = left_out_for(&stage, worker).await {
                    let seen = now();
                    add(&mut ejections, Ejection { seen, until: seen + left });
                }
                tokio::time::sleep(LOOK).await;
            }
            ejections
        });
        Self { stop, task }
    }

    pub(super) async fn stop(mut self) -> Vec<Ejection> {
        self.stop.store(true, Ordering::Relaxed);
        let ejections = self.task.join_next().await.expect("it was started");
        ejections.expect("watching does not panic")
    }
}

/// How much longer the worker stays ejected. None if it is not, or only until the next call.
async fn left_out_for(stage: &Stage, worker: usize) -> Option<Duration> {
    let known = stage.known_workers().await;
    let it = known.iter().find(|it| it.worker_id == worker_id(worker) && it.status() == WorkerStatus::Ejected)?;
    // "...; a call tries it again in 1234 ms"
    let left: u64 = it.reason.strip_suffix(" ms")?.rsplit(' ').next()?.parse().ok()?;
    (left > 0).then(|| Duration::from_millis(left))
}

fn add(ejections: &mut Vec<Ejection>, found: Ejection) {
    match ejections.last_mut() {
        Some(last) if found.until < last.until + SAME => last.until = last.until.min(found.until),
        _ => ejections.push(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ejection_is_told_from_the_next_one() {
        let at = |seen, until| Ejection { seen: Duration::from_millis(seen), until: Duration::from_millis(until) };
        let mut ejections = Vec::new();
        for (seen, until) in [(0, 1010), (500, 1005), (1100, 3100), (2000, 3105)] {
            add(&mut ejections, at(seen, until));
        }
        assert_eq!(ejections, [at(0, 1005), at(1100, 3100)]);
    }
}
