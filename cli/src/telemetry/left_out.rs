//! Says once a second which log lines were left out, and how many.

use std::io::Result;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use openskill_log::quota;

/// How often lines that were left out are reported.
const INTERVAL: Duration = Duration::from_secs(1);

/// The thread that reports. Dropping it reports the rest and joins the thread.
#[derive(Debug)]
pub(super) struct Reports {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the thread. `limit`: how many lines of one kind are logged in a second; 0 means all.
///
/// # Errors
/// The system has no thread left.
pub(super) fn start(limit: u32) -> Result<Reports> {
    quota::set_limit(limit);
    let (stop, stopped) = sync_channel(1);
    let thread = std::thread::Builder::new().name("log-quota".to_owned()).spawn(move || {
        while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            quota::report();
        }
        quota::report();
    })?;
    Ok(Reports { stop: Some(stop), thread: Some(thread) })
}

impl Drop for Reports {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
