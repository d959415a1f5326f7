//! A thread of its own for load, so that no hand-over between threads is measured.

use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Runs this on a current-thread runtime on a thread of its own.
pub async fn on_own_thread<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Result<T, String>
where
    T: Send + 'static,
    F: Future<Output = Result<T, String>>,
{
    let (sender, receiver) = oneshot::channel();
    let thread = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let ended = match runtime {
            Ok(runtime) => LocalSet::new().block_on(&runtime, work()),
            Err(error) => Err(error.to_string()),
        };
        let _ = sender.send(ended);
    };
    std::thread::Builder::new().name("load".to_owned()).spawn(thread).map_err(|error| error.to_string())?;
    receiver.await.map_err(|_| "the load's thread panicked".to_owned())?
}
