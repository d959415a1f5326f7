//! Threads that work in the background.

use std::thread::{Builder, JoinHandle};

/// A thread. Dropping it asks the thread to end, and joins it.
pub(crate) struct BackgroundThread {
    stop: Option<Box<dyn FnOnce() + Send>>,
    handle: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    /// Starts a thread that ends soon after `stop` was called.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn start(
        name: &str,
        stop: impl FnOnce() + Send + 'static,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let handle = Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { stop: Some(Box::new(stop)), handle: Some(handle) })
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop();
        }
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}
