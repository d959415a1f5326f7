//! What is counted, and how often it runs for that.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{steps, whole};

/// Something that is counted. All that is random in it (hashes, the choice among workers, ids) evens out over its calls.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) times: u32,
    /// Makes what one call needs, and gives the call.
    prepare: fn() -> Box<dyn FnMut()>,
}

/// In the order of a call's way.
pub(super) const ALL: &[Case] = &[
    Case { name: "arguments_valid", times: 500, prepare: steps::arguments_valid },
    Case { name: "arguments_repaired", times: 500, prepare: steps::arguments_repaired },
    Case { name: "arguments_refused", times: 500, prepare: steps::arguments_refused },
    Case { name: "circuit_check", times: 2000, prepare: steps::circuit_check },
    Case { name: "pick_of_1", times: 5000, prepare: || steps::pick_of(1) },
    Case { name: "pick_of_4", times: 5000, prepare: || steps::pick_of(4) },
    Case { name: "pick_of_16", times: 5000, prepare: || steps::pick_of(16) },
    Case { name: "relay_json", times: 1000, prepare: steps::relay_json },
    Case { name: "relay_value", times: 1000, prepare: steps::relay_value },
    Case { name: "relay_event", times: 1000, prepare: steps::relay_event },
    Case { name: "invoke", times: 300, prepare: whole::invoke },
    Case { name: "invoke_stream", times: 300, prepare: whole::invoke_stream },
];

/// Calls before those that count: what is made once is made then.
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

/// Counted calls are under way. Callgrind only knows to count from now on if it did not, and not to if it did.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// Callgrind counts while this runs. It knows it by its name.
#[inline(never)]
fn counted_calls(times: u32, call: &mut dyn FnMut()) {
    for _ in 0..times {
        call();
    }
}

/// Callgrind leaves this out, within counted calls. It knows it by its name.
#[inline(never)]
fn left_uncounted(work: &mut dyn FnMut()) {
    work();
}

/// Does what is not the gateway's: what its worker does, say. It is not counted.
pub(super) fn aside<T>(work: impl FnOnce() -> T) -> T {
    let (mut work, mut done) = (Some(work), None);
    let mut once = || done = work.take().map(|work| work());
    if COUNTS.load(Ordering::Relaxed) {
        left_uncounted(&mut once)
    } else {
        once()
    }
    done.unwrap()
}
