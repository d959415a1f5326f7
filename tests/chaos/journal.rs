//! What the client saw of each try of each call: the first of the ledger's witnesses.

use std::sync::{Arc, Mutex};
use std::time::Instant;

/// How a try ended for its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// A result: success.
    Ok,
    /// A result: a failure with this code.
    Failed(String),
    /// A status of the gateway's own, with this code: it did not run the call.
    Refused(String),
    /// The request can't have reached the gateway.
    NotSent(String),
    /// The connection broke, or a status that says nothing of the call.
    Broken(String),
    /// The client gave it up.
    Dropped,
}

impl End {
    /// Whether the gateway answered.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Ok | Self::Failed(_) | Self::Refused(_))
    }

    /// Whether the skill was certainly not started, so that the call may be sent again.
    pub(crate) fn was_not_run(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::Refused(_) => true,
            Self::Failed(code) => code == "OVERLOADED",
            Self::Ok | Self::Broken(_) | Self::Dropped => false,
        }
    }

    /// In a word.
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

/// One try of one call.
#[derive(Debug, Clone)]
pub(crate) struct Try {
    /// The id of the call, a dot, and the number of the try.
    pub(crate) call_id: String,
    pub(crate) call: String,
    pub(crate) skill: &'static str,
    /// One, if all is well.
    pub(crate) ends: Vec<End>,
    /// The gateway said that it took the call on.
    pub(crate) accepted: bool,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
}

/// All tries so far.
#[derive(Debug, Default, Clone)]
pub(crate) struct Journal(Arc<Mutex<Vec<Try>>>);

impl Journal {
    pub(crate) fn begin(&self, call: &str, number: u32, skill: &'static str) -> Pending {
        let (call_id, now) = (format!("{call}.{number}"), Instant::now());
        let entry =
            Try { call_id, call: call.to_owned(), skill, ends: Vec::new(), accepted: false, begun: now, ended: now };
        let mut tries = self.0.lock().unwrap();
        tries.push(entry);
        Pending { journal: self.clone(), index: tries.len() - 1, settled: false }
    }

    pub(crate) fn tries(&self) -> Vec<Try> {
        self.0.lock().unwrap().clone()
    }
}

/// A try under way. Dropped before it ended, it was given up.
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

    /// It was waited for in vain: it has no end.
    pub(crate) fn hangs(mut self) {
        self.settle(Vec::new(), false);
    }

    fn settle(&mut self, ends: Vec<End>, accepted: bool) {
        self.settled = true;
        let mut tries = self.journal.0.lock().unwrap();
        let entry = &mut tries[self.index];
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
