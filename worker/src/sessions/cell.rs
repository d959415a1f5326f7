//! One call of a session: a cell of code, from its first line to its end.
//!
//! ```text
//! running ──the process says so──────────────────────────> ended: the session's state is kept
//!    ├──its time is over, nobody waits, too much printed──> interrupted ──ends within two seconds──> ended
//!    │                                                          └──does not──> lost
//!    └──the process ended, hung up, or was closed──────────────────────────> lost: the process is to be dropped
//! ```
//!
//! The time is kept here, whatever the process says. From the interrupt on, no listener is waited for either.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::limits::MAX_EVENT_BYTES;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::task::unconstrained;
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::line::{self, Ended, Lines, MAX_LINE_BYTES, Read, Said};
use super::output::{Output, Printed};
use super::process::Process;
use crate::events::EventSink;
use crate::process::forkserver::{Kept, KeptEnd};

/// How long code may take to stop after an interrupt, if the deadline of its call allows.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// How long to wait for the exit status of a process that closed its stream. Without one, the code closed the stream.
const REASON: Duration = Duration::from_millis(700);

/// How much a process may write to its stream in one cell, in bytes plus a cost for each line. Artifacts and events need less.
const MAX_SAID_BYTES: usize = 128 * 1024 * 1024;
const LINE_COST: usize = 4096;
const TOO_MUCH_SAID: &str = "the code wrote too much to its session's own connection";

/// How long the last output may take to reach the listener.
const LAST: Duration = Duration::from_millis(500);

/// What is to run.
pub(crate) struct Cell {
    pub(crate) number: u64,
    pub(crate) code: String,
    /// Its timeout, and the latest time at which its call needs an answer.
    pub(crate) time: Duration,
    pub(crate) latest: Instant,
    /// How long it may take to stop after an interrupt.
    pub(crate) grace: Duration,
    pub(crate) events: EventSink,
    /// Cancelled when the caller is gone.
    pub(crate) dropped: CancellationToken,
    /// Cancelled when its session is closed.
    pub(crate) closed: CancellationToken,
}

/// How it went.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: Printed,
    pub(crate) stderr: Printed,
    pub(crate) end: End,
    /// Why it was interrupted.
    pub(crate) interrupted: Option<Interruption>,
    pub(crate) took: Duration,
}

impl Ran {
    /// The session was closed before anything ran.
    pub(super) fn closed(took: Duration) -> Self {
        let nothing = Printed::default;
        Self { stdout: nothing(), stderr: nothing(), end: End::Lost(Loss::Closed), interrupted: None, took }
    }
}

/// The state of the process after the cell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It can run further cells.
    Ended(Ended),
    /// It cannot, and must be dropped.
    Lost(Loss),
}

/// Why the state of a session is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The process ended.
    Process(KeptEnd),
    /// The code closed or replaced the stream between process and worker, or corrupted the end of the cell.
    HungUp,
    /// It did not stop after an interrupt, or may still receive the signal.
    Unresponsive,
    /// The session was closed.
    Closed,
}

/// Why a cell was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    Time,
    Dropped,
    Output,
}

/// How reading the stream of the process ended.
enum Heard {
    Ended(Ended),
    HungUp,
    /// The end of the cell cannot be parsed. No other end follows.
    Broken,
    /// More than is read in one cell.
    TooMuch,
}

/// Why waiting for the cell ended.
enum Stop {
    Heard(Heard),
    Unresponsive,
    Closed,
}

/// Signals between the tasks of a running cell.
struct Signals {
    clock: Arc<Clock>,
    /// The code runs: from here on, a signal interrupts it.
    began: Notify,
    /// The process sent an event.
    spoken: Notify,
    /// It printed more than the output limit.
    flood: Notify,
    /// Cancelled when the cell is interrupted. From then on, events that the listener does not take at once are dropped.
    interrupted: CancellationToken,
}

impl Signals {
    fn new(cell: &Cell, begun: Instant) -> Self {
        let clock = Arc::new(Clock::new(cell.time, cell.latest, begun));
        let (began, spoken, flood) = (Notify::new(), Notify::new(), Notify::new());
        Self { clock, began, spoken, flood, interrupted: CancellationToken::new() }
    }
}

/// Runs a cell.
pub(crate) async fn run(process: &mut Process, cell: &Cell) -> Ran {
    let begun = Instant::now();
    let Process { kept, control, lines, stdout, stderr, .. } = process;
    // Output of threads between two calls belongs to no call.
    [&*stdout, &*stderr].into_iter().for_each(|pipe| Output::new("").take_rest(pipe));
    let (mut out, mut err) = (Output::new("stdout"), Output::new("stderr"));
    let signals = Signals::new(cell, begun);
    let (stop, interrupted) = {
        let (from, to) = control.split();
        let talk = async {
            tokio::select! {
                heard = hear(lines, from, cell, &signals) => heard,
                never = speak(to, cell, &signals) => match never {},
                never = out.follow(stdout, &cell.events, &signals.flood) => match never {},
                never = err.follow(stderr, &cell.events, &signals.flood) => match never {},
            }
        };
        attend(talk, kept, cell, &signals).await
    };
    let took = begun.elapsed();
    out.take_rest(stdout);
    err.take_rest(stderr);
    let last = async {
        out.tell(&cell.events).await;
        err.tell(&cell.events).await;
    };
    let _ = tokio::time::timeout(LAST, last).await;
    let end = match stop {
        Stop::Heard(Heard::Ended(ended)) => End::Ended(ended),
        Stop::Heard(Heard::HungUp) => {
            let reason = tokio::time::timeout(REASON, kept.ended()).await;
            End::Lost(reason.map_or(Loss::HungUp, Loss::Process))
        }
        Stop::Heard(Heard::Broken) => End::Lost(Loss::HungUp),
        Stop::Heard(Heard::TooMuch) => End::Lost(Loss::Process(KeptEnd::Exceeded(TOO_MUCH_SAID.to_owned()))),
        Stop::Unresponsive => End::Lost(Loss::Unresponsive),
        Stop::Closed => End::Lost(Loss::Closed),
    };
    Ran { stdout: out.finish(), stderr: err.finish(), end, interrupted, took }
}

/// Waits for the end of a cell, and interrupts it when necessary. Deadline and cancellation are polled outside of the
/// cooperative budget, which a process that writes a lot exhausts.
async fn attend(
    talk: impl Future<Output = Heard>,
    kept: &Kept,
    cell: &Cell,
    signals: &Signals,
) -> (Stop, Option<Interruption>) {
    let mut talk = pin!(talk);
    let why = tokio::select! {
        biased;
        () = unconstrained(cell.closed.cancelled()) => return (Stop::Closed, None),
        () = unconstrained(cell.dropped.cancelled()) => Interruption::Dropped,
        heard = &mut talk => return (Stop::Heard(heard), None),
        () = unconstrained(signals.flood.notified()) => Interruption::Output,
        () = unconstrained(signals.clock.over()) => Interruption::Time,
    };
    signals.interrupted.cancel();
    let interrupt = unconstrained(async {
        signals.began.notified().await;
        kept.interrupt().await
    });
    // Wait for both: a late signal would interrupt the next cell.
    let stopped = async {
        match tokio::join!(&mut talk, interrupt) {
            (Heard::Ended(_), false) => Stop::Unresponsive,
            (heard, _) => Stop::Heard(heard),
        }
    };
    let stop = tokio::select! {
        biased;
        () = unconstrained(cell.closed.cancelled()) => Stop::Closed,
        stop = stopped => stop,
        () = unconstrained(tokio::time::sleep(cell.grace)) => Stop::Unresponsive,
    };
    (stop, Some(why))
}

/// Reads what the process says, until the cell is over. What belongs to another cell is passed over.
async fn hear(lines: &mut Lines, mut from: impl AsyncRead + Unpin, cell: &Cell, signals: &Signals) -> Heard {
    let mut left = MAX_SAID_BYTES;
    while left > 0 {
        let line = match lines.next(&mut from).await {
            Read::Line(line) => line,
            Read::TooLong => {
                cell.events.drop_one();
                left = left.saturating_sub(MAX_LINE_BYTES);
                continue;
            }
            Read::End => return Heard::HungUp,
        };
        left = left.saturating_sub(line.len() + LINE_COST);
        match line::said(&line) {
            Some(Said::Ended(ended)) if ended.cell == cell.number => return Heard::Ended(ended),
            Some(Said::Began(number)) if number == cell.number => signals.began.notify_one(),
            Some(_) => {}
            None if line::is_broken_end(&line, cell.number) => return Heard::Broken,
            // It ends half a line.
            None if line.is_empty() => {}
            None if line.len() > MAX_EVENT_BYTES => cell.events.drop_one(),
            None => tell(&line, cell, signals).await,
        }
    }
    Heard::TooMuch
}

/// Passes an event on. Waits for the listener only until the cell is interrupted: the end of the cell comes after it.
async fn tell(line: &[u8], cell: &Cell, signals: &Signals) {
    signals.spoken.notify_one();
    tokio::select! {
        biased;
        () = cell.events.line_that_may_ask(line, || signals.clock.asked()) => {}
        () = signals.interrupted.cancelled() => cell.events.drop_one(),
    }
}

/// Gives the process its cell, and the answers to its questions. Takes these only once it has said something.
async fn speak(mut to: impl AsyncWrite + Unpin, cell: &Cell, signals: &Signals) -> Infallible {
    // That it does not read shows when it is to stop.
    let _ = to.write_all(&line::run(cell.number, &cell.code)).await;
    signals.spoken.notified().await;
    if let Some(mut answers) = cell.events.answers() {
        while let Some(answer) = answers.recv().await {
            if to.write_all(&answer).await.is_err() {
                break;
            }
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests;
