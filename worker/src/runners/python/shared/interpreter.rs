//! One interpreter as its pool knows it: its calls, its sockets and its process.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use tokio::sync::{Notify, oneshot};

use super::message::Message;
use super::queue::Queue;
use crate::events::EventSink;
use crate::process::given_secrets::GivenSecrets;
use crate::process::launch::LaunchError;
use crate::process::run::RunError;
use crate::runner::RawOutput;
use crate::schedule::Slot;

/// The slots of calls whose interpreter ends: free when nothing of it is left.
pub(super) type Slots = Arc<Mutex<Vec<Slot>>>;

/// The process of an interpreter. Dropped, it ends, and its slots are free after that.
pub(super) type Process = Box<dyn Send>;

/// Starts the process of an interpreter. Takes milliseconds: not for a thread that holds the pool's lock.
pub(super) type Launch = Box<dyn FnOnce() -> Result<Process, LaunchError> + Send>;

/// An interpreter's descriptors: calls can be put into its queue before its process runs.
pub(super) struct Connected {
    pub(super) queue: Queue,
    /// A pipe, over which no descriptors come.
    pub(super) answers: OwnedFd,
    pub(super) launch: Launch,
    pub(super) slots: Slots,
    /// For whoever logs what the process writes.
    pub(super) given_secrets: GivenSecrets,
}

/// An interpreter of the pool.
pub(super) struct Interpreter {
    pub(super) id: u64,
    pub(super) queue: Queue,
    /// In the order in which they were put into the queue: all but the first are there still, or are just being begun.
    pub(super) calls: VecDeque<Pending>,
    pub(super) wire: Arc<Wire>,
    /// None until it was started. Nobody else keeps it, so that it ends with this value.
    pub(super) _process: Arc<Mutex<Option<Process>>>,
    pub(super) slots: Slots,
    pub(super) given_secrets: GivenSecrets,
    pub(super) started: SystemTime,
    pub(super) last_used: Instant,
    pub(super) served: u64,
    /// Gets no more calls, and ends after the last one.
    pub(super) draining: bool,
}

/// What the pool shares with the task that reads an interpreter's answers.
pub(super) struct Wire {
    stream: OwnedFd,
    /// Something was read and not parsed yet.
    pub(super) behind: AtomicBool,
    /// A call was dropped, and it is not clear yet whether it was over.
    pub(super) dropped: AtomicBool,
    /// A call was dropped, or the interpreter ended.
    pub(super) changed: Notify,
}

/// A call that is not over.
pub(super) struct Pending {
    pub(super) number: u64,
    pub(super) message: Message,
    pub(super) tries: u32,
    pub(super) dropped: bool,
    pub(super) slot: Slot,
    pub(super) events: EventSink,
    pub(super) ended: oneshot::Sender<End>,
}

/// How a call ended.
pub(super) enum End {
    Ran(RawOutput),
    Failed(RunError),
    /// The script did not begin.
    NotStarted,
}

impl Interpreter {
    /// Takes calls out of its queue, the oldest first: they were not begun.
    pub(super) fn take_back(&mut self) -> Vec<Pending> {
        let mut taken = Vec::new();
        while let Some(number) = self.queue.take_back() {
            if let Some(at) = self.calls.iter().position(|it| it.number == number) {
                taken.extend(self.calls.remove(at));
            }
        }
        taken
    }
}

impl Wire {
    pub(super) fn of(answers: &OwnedFd) -> io::Result<Self> {
        let stream = answers.try_clone()?;
        let (behind, dropped) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { stream, behind, dropped, changed: Notify::new() })
    }

    /// Whether there is output that was not parsed yet.
    pub(super) fn has_more(&self) -> bool {
        let waiting = rustix::io::ioctl_fionread(&self.stream);
        // In this order: the reader sets the flag before it reads, so what is not in the pipe any more is flagged.
        waiting.is_ok_and(|count| count > 0) || self.behind.load(Ordering::Acquire)
    }
}
