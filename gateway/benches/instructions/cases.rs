//! What is counted.

use std::sync::atomic::{AtomicBool, Ordering};

use super::calls;

/// Something that is counted. What is random in it (hashes, the choice among workers, ids) evens out over its calls.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) times: u32,
    /// Makes what one call needs, and returns the call.
    prepare: fn() -> Box<dyn FnMut()>,
}

pub(super) const ALL: &[Case] = &[
    Case { name: "arguments_valid", times: 500, prepare: calls::arguments_valid },
    Case { name: "arguments_repaired", times: 500, prepare: calls::arguments_repaired },
    Case { name: "arguments_refused", times: 500, prepare: calls::arguments_refused },
    Case { name: "invoke", times: 300, prepare: || calls::invoke(1) },
    Case { name: "invoke_16_workers", times: 300, prepare: || calls::invoke(16) },
    Case { name: "invoke_recorded", times: 300, prepare: calls::invoke_recorded },
    Case { name: "invoke_unsampled", times: 300, prepare: calls::invoke_unsampled },
    Case { name: "invoke_sampled", times: 300, prepare: calls::invoke_sampled },
    Case { name: "invoke_struct", times: 300, prepare: calls::invoke_struct },
    Case { name: "invoke_stream", times: 300, prepare: calls::invoke_stream },
    Case { name: "rest", times: 300, prepare: calls::rest },
    Case { name: "mcp", times: 300, prepare: calls::mcp },
];

/// Calls before those that count, which make what is made once.
const WARM_UP: u32 = 20;

impl Case {
    pub(super) fn run(&self, times: u32) {
        let mut call = (self.prepare)();
        (0..WARM_UP).for_each(|_| call());
        COUNTS.store(true, Ordering::Relaxed);
        counted_calls(times, &mut *call);
        COUNTS.store(false, Ordering::Relaxed);
    }
}

/// Counted calls are under way. Callgrind toggles: outside of them, [`left_uncounted`] would turn counting on.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// Callgrind counts while this runs. It finds it by its name.
#[inline(never)]
fn counted_calls(times: u32, call: &mut dyn FnMut()) {
    for _ in 0..times {
        call();
    }
}

/// Callgrind does not count this. It finds it by its name.
#[inline(never)]
fn left_uncounted(work: &mut dyn FnMut()) {
    work();
}

/// Does work that is not the gateway's, such as its worker's, without counting it.
pub(super) fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let (mut work, mut done) = (Some(work), None);
    let mut once = || done = work.take().map(|work| work());
    if COUNTS.load(Ordering::Relaxed) {
        left_uncounted(&mut once)
    } else {
        once()
    }
    done.unwrap()
}
