//! One interpreter as the pool sees it: its calls, its sockets and its process.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use openskill_sandbox::given_secrets::GivenSecrets;
use openskill_sandbox::launch::LaunchError;
use openskill_sandbox::run::RunError;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::message::CallMessage;
use super::queue::Queue;
use crate::events::EventSink;
use crate::runner::RawOutput;
use crate::schedule::Slot;

/// The slots of calls whose interpreter is ending. They become free when its process has ended.
pub(super) type Slots = Arc<Mutex<Vec<Slot>>>;

/// An interpreter's process. Dropping it ends the process and then frees its slots.
pub(super) type Process = Box<dyn Send>;

/// Starts an interpreter's process. Takes milliseconds, so must not be called under the pool's lock.
pub(super) type Launch = Box<dyn FnOnce() -> Result<Process, LaunchError> + Send>;

/// An interpreter's descriptors. Its queue accepts calls before its process runs.
pub(super) struct Connected {
    pub(super) queue: Queue,
    /// A pipe, because a pipe can't carry descriptors.
    pub(super) answers: OwnedFd,
    pub(super) launch: Launch,
    pub(super) slots: Slots,
    /// Tells whoever logs the process's output whether calls had secrets.
    pub(super) given_secrets: GivenSecrets,
}

/// One of the pool's interpreters.
pub(super) struct Interpreter {
    pub(super) id: u64,
    pub(super) queue: Queue,
    /// The calls in the order in which they were queued. All except the first are in the queue or about to begin.
    pub(super) calls: VecDeque<Pending>,
    pub(super) wire: Arc<Wire>,
    /// `None` until the process has started. This is the only owner, so dropping the interpreter ends the process.
    pub(super) _process: Arc<Mutex<Option<Process>>>,
    pub(super) slots: Slots,
    pub(super) given_secrets: GivenSecrets,
    pub(super) started: SystemTime,
    pub(super) last_used: Instant,
    pub(super) served: u64,
    /// Whether the interpreter gets no more calls and ends after its last one.
    pub(super) draining: bool,
}

/// The state that the pool shares with the task that reads the interpreter's answers.
pub(super) struct Wire {
    stream: OwnedFd,
    /// Whether some output was read but not parsed yet.
    pub(super) behind: AtomicBool,
    /// Whether a call was dropped that may already have ended.
    pub(super) dropped: AtomicBool,
    /// Notified when a call is dropped or the interpreter ends.
    pub(super) changed: Notify,
}

/// A call that has not ended.
pub(super) struct Pending {
    pub(super) number: u64,
    pub(super) message: CallMessage,
    pub(super) tries: u32,
    pub(super) dropped: bool,
    pub(super) slot: Slot,
    pub(super) events: EventSink,
    pub(super) ended: oneshot::Sender<CallEnd>,
}

/// How a call ended.
pub(super) enum CallEnd {
    Ran(RawOutput),
    Failed(RunError),
    /// The script did not start.
    NotStarted,
}

impl Interpreter {
    /// Takes calls that have not begun back from the queue, oldest first.
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
    pub(super) fn new(answers: &OwnedFd) -> io::Result<Self> {
        let stream = answers.try_clone()?;
        let (behind, dropped) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { stream, behind, dropped, changed: Notify::new() })
    }

    /// Returns whether there is unparsed output.
    pub(super) fn has_more(&self) -> bool {
        let waiting = rustix::io::ioctl_fionread(&self.stream);
        // The order matters: the reader sets the flag before it reads, so output that left the pipe is always
        // flagged.
        waiting.is_ok_and(|count| count > 0) || self.behind.load(Ordering::Acquire)
    }
}
