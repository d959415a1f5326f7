//! A thread for load that stands for other machines: it must not delay what this process times.

use tokio::runtime::{Builder, Handle};

/// As nice as what openskill itself runs beside its calls.
const NICE: i32 = 10;

/// A runtime on a thread of its own, with a low priority. It runs until the process ends.
pub fn elsewhere() -> Handle {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let handle = runtime.handle().clone();
    std::thread::spawn(move || {
        // Of this thread alone, on Linux.
        rustix::process::nice(NICE).expect("a thread may be nicer");
        runtime.block_on(std::future::pending::<()>());
    });
    handle
}
