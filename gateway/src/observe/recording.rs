//! Everything that is known of a call that has ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use openskill_proto::v1::ExecuteResult;

use super::call_event::CallEvent;
use crate::call::request::Call;

/// How many events of a call are kept. Those after them are counted.
const MAX_EVENTS: usize = 256;

/// A call that has ended, from its arrival to its end.
#[allow(dead_code, reason = "nobody keeps recordings yet")]
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) call: Arc<Call>,
    /// The call names a skill that exists.
    pub(crate) has_skill: bool,
    /// In the order in which they happened.
    pub(crate) events: Vec<(Instant, CallEvent)>,
    /// Events that were too many to keep.
    pub(crate) left_out: usize,
    /// The result as the worker or the gateway made it, before it was put into the form that the caller wants.
    pub(crate) result: ExecuteResult,
    pub(crate) attempts: u32,
    /// When the call arrived: `Call::received` by the wall clock.
    pub(crate) received: SystemTime,
    pub(crate) ended: Instant,
}

/// The events of a call that runs, bounded.
#[derive(Debug, Default)]
pub(super) struct Timeline(Mutex<Kept>);

/// What is kept, and how much more there was.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) events: Vec<(Instant, CallEvent)>,
    pub(super) left_out: usize,
}

impl Timeline {
    pub(super) fn note(&self, event: impl FnOnce() -> CallEvent) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.events.len() < MAX_EVENTS {
            kept.events.push((Instant::now(), event()));
        } else {
            kept.left_out += 1;
        }
    }

    /// How many attempts have begun.
    pub(super) fn attempts(&self) -> u32 {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = kept.events.iter().filter_map(|(_, event)| match event {
            CallEvent::AttemptBegan { number, .. } => Some(*number),
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }

    /// Takes what is kept.
    pub(super) fn take(&self) -> Kept {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
