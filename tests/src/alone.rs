//! Tests that hold the product to a time run without others beside them: what those cost is not the product's.
//!
//! Whoever starts openskill has a turn until that has ended. A test that wants to be alone waits for the turns of all
//! others, and new ones wait for its end. A test, which is a thread, that has a turn gets more of them at once: none waits
//! for itself.

use std::collections::HashMap;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{ThreadId, current};

static TURNS: LazyLock<Mutex<Turns>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();

#[derive(Default)]
struct Turns {
    /// How many turns each test has.
    taken: HashMap<ThreadId, usize>,
    /// The test that is alone, or is waiting to be: all that have no turn yet wait for it.
    alone: Option<ThreadId>,
}

/// The right of a test to run things, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    test: ThreadId,
    alone: bool,
}

/// Waits until no other test has a turn, and keeps them from one.
#[must_use]
pub fn alone() -> Turn {
    let test = current().id();
    let mut turns = wait_while(lock(), |turns| turns.alone.is_some());
    assert!(!turns.taken.contains_key(&test), "a test is alone before it starts anything");
    turns.alone = Some(test);
    drop(wait_while(turns, |turns| !turns.taken.is_empty()));
    Turn { test, alone: true }
}

/// Waits until no other test is alone.
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
