//! What the client saw of each attempt of each call: the first of the ledger's witnesses.

use std::sync::{Arc, Mutex};
use std::time::Instant;

/// How an attempt ended for its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// A result: success.
    Ok,
    /// A result: a failure with this code.
    Failed(String),
    /// A status from the gateway itself, with this code: it did not run the call.
    Refused(String),
    /// The request cannot have reached the gateway.
    NotSent(String),
    /// The connection broke, or a status that does not tell whether the call ran.
    Broken(String),
    /// The client cancelled it.
    Dropped,
}

impl End {
    /// Whether the gateway answered.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Ok | Self::Failed(_) | Self::Refused(_))
    }

    /// Whether the skill certainly did not start, so that the call may be retried.
    pub(crate) fn was_not_run(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::Refused(_) => true,
            Self::Failed(code) => code == "OVERLOADED",
            Self::Ok | Self::Broken(_) | Self::Dropped => false,
        }
    }

    /// A label for tables.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Ok => "OK".to_owned(),
            Self::Failed(code) => code.clone(),
            Self::Refused(code) => format!("refused: {code}"),
            Self::NotSent(_) => "not sent".to_owned(),
            Self::Broken(reason) => format!("broken: {reason}"),
            Self::Dropped => "dropped".to_owned(),
        }
    }
}

/// One attempt of one call.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    /// The id of the call, a dot, and the number of the attempt.
    pub(crate) call_id: String,
    pub(crate) call: String,
    pub(crate) skill: &'static str,
    /// Exactly one, if nothing went wrong.
    pub(crate) ends: Vec<End>,
    /// The gateway sent `accepted`.
    pub(crate) accepted: bool,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
}

/// All attempts so far.
#[derive(Debug, Default, Clone)]
pub(crate) struct Journal(Arc<Mutex<Vec<Attempt>>>);

impl Journal {
    pub(crate) fn begin(&self, call: &str, number: u32, skill: &'static str) -> Pending {
        let (call_id, now) = (format!("{call}.{number}"), Instant::now());
        let entry = Attempt {
            call_id,
            call: call.to_owned(),
            skill,
            ends: Vec::new(),
            accepted: false,
            begun: now,
            ended: now,
        };
        let mut attempts = self.0.lock().unwrap();
        attempts.push(entry);
        Pending { journal: self.clone(), index: attempts.len() - 1, settled: false }
    }

    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.0.lock().unwrap().clone()
    }
}

/// An attempt in flight. If it is dropped before it ended, it was cancelled.
#[derive(Debug)]
pub(crate) struct Pending {
    journal: Journal,
    index: usize,
    settled: bool,
}

impl Pending {
    pub(crate) fn end(mut self, ends: Vec<End>, accepted: bool) {
        self.settle(ends, accepted);
    }

    /// It did not end in time.
    pub(crate) fn hangs(mut self) {
        self.settle(Vec::new(), false);
    }

    fn settle(&mut self, ends: Vec<End>, accepted: bool) {
        self.settled = true;
        let mut attempts = self.journal.0.lock().unwrap();
        let entry = &mut attempts[self.index];
        (entry.ends, entry.accepted, entry.ended) = (ends, accepted, Instant::now());
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.settled {
            self.settle(vec![End::Dropped], false);
        }
    }
}
