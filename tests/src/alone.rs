//! Timed tests run alone: the load of other tests is not the product's.
//!
//! A test holds a turn while its openskill runs. A test that runs alone waits until no other test holds a turn, and no other
//! test gets a turn until it ends. A test, which is a thread, that holds a turn gets further ones at once, so that none
//! waits for itself.
//!
//! `tests/suite.py` runs each test in a process of its own, so there are no others to wait for here: a test that must run alone
//! ends at once, and the suite starts it again after all others.

use std::collections::HashMap;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{ThreadId, current};

static TURNS: LazyLock<Mutex<Turns>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();

#[derive(Default)]
struct Turns {
    /// The number of turns that each test holds.
    taken: HashMap<ThreadId, usize>,
    /// The test that runs alone, or waits to. Tests without a turn wait for it.
    alone: Option<ThreadId>,
}

/// The right of a test to run processes, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    test: ThreadId,
    alone: bool,
}

/// Set by the suite: `later` while other tests run, `now` once none does.
const VARIABLE: &str = "OPENSKILL_TEST_ALONE";
/// The exit code by which a test asks the suite to run it later.
const LATER: i32 = 75;

/// Waits until no other test holds a turn, and keeps others from getting one.
#[must_use]
pub fn alone() -> Turn {
    if std::env::var_os(VARIABLE).is_some_and(|it| it == "later") {
        assert!(lock().taken.is_empty(), "call alone() before the test starts anything");
        #[allow(clippy::disallowed_methods, reason = "nothing runs yet that has to be dropped")]
        std::process::exit(LATER);
    }
    let test = current().id();
    let mut turns = wait_while(lock(), |turns| turns.alone.is_some());
    assert!(!turns.taken.contains_key(&test), "call alone() before the test starts anything");
    turns.alone = Some(test);
    drop(wait_while(turns, |turns| !turns.taken.is_empty()));
    Turn { test, alone: true }
}

/// Waits until no other test runs alone.
#[must_use]
pub fn beside_others() -> Turn {
    let test = current().id();
    let mut turns =
        wait_while(lock(), |turns| turns.alone.is_some_and(|alone| alone != test) && !turns.taken.contains_key(&test));
    *turns.taken.entry(test).or_default() += 1;
    Turn { test, alone: false }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = lock();
        if self.alone {
            turns.alone = None;
        } else if let Some(count) = turns.taken.get_mut(&self.test) {
            *count -= 1;
            if *count == 0 {
                turns.taken.remove(&self.test);
            }
        }
        CHANGED.notify_all();
    }
}

fn lock() -> MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_while<'a>(turns: MutexGuard<'a, Turns>, condition: impl Fn(&Turns) -> bool) -> MutexGuard<'a, Turns> {
    CHANGED.wait_while(turns, |turns| condition(turns)).unwrap_or_else(PoisonError::into_inner)
}
