//! When a process of each call was last seen. One thread polls all processes.

use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openskill_tests::processes;

/// Between two polls.
const LOOK: Duration = Duration::from_millis(100);

/// Polls until it is asked for its result, or dropped.
#[derive(Debug)]
pub(crate) struct Sightings {
    stop: SyncSender<()>,
    thread: JoinHandle<HashMap<String, Instant>>,
}

impl Sightings {
    /// Of calls whose ids begin with `prefix`.
    pub(crate) fn start(prefix: String) -> Self {
        let (stop, stopped) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            let mut seen = HashMap::new();
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let found = processes::of_calls(&prefix);
                let now = Instant::now();
                seen.extend(found.into_iter().map(|(_, call_id)| (call_id, now)));
            }
            seen
        });
        Self { stop, thread }
    }

    /// When each call's processes were last seen. Calls that never had one are missing.
    pub(crate) fn stop(self) -> HashMap<String, Instant> {
        let Self { stop, thread } = self;
        drop(stop);
        thread.join().expect("looking does not panic")
    }
}
