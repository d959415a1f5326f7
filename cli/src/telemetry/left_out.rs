//! Reports the number of suppressed log lines of each kind once a second.

use std::io::Result;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use openskill_log::quota;

/// The interval between reports of suppressed lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// The reporting thread. Dropping it reports the rest and joins the thread.
#[derive(Debug)]
pub(super) struct LeftOutReporter {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the thread. `limit` is the maximum number of lines of one kind logged per second. 0 means no limit.
///
/// # Errors
/// The system cannot start another thread.
pub(super) fn start(limit: u32) -> Result<LeftOutReporter> {
    quota::set_limit(limit);
    let (stop, stopped) = sync_channel(1);
    let thread = std::thread::Builder::new().name("log-quota".to_owned()).spawn(move || {
        while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            quota::report();
        }
        quota::report();
    })?;
    Ok(LeftOutReporter { stop: Some(stop), thread: Some(thread) })
}

impl Drop for LeftOutReporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
