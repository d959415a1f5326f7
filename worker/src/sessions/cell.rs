//! One call of a session: a cell of code, from its start to its end.
//!
//! ```text
//! running ──the process says so──────────────────────────> ended: the session's state is kept
//!    ├──its time is over, call dropped, too much printed──> interrupted ──ends within two seconds──> ended
//!    │                                                          └──does not──> lost
//!    └──the process ended, hung up, or was closed──────────────────────────> lost: the process is to be dropped
//! ```
//!
//! The worker measures the time, whatever the process claims. After the interrupt, it does not wait for listeners
//! either.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::limits::MAX_EVENT_BYTES;
use openskill_sandbox::forkserver::{KeptProcess, KeptProcessEnd};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::task::unconstrained;
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::line::{self, CellEnd, LineReader, MAX_LINE_BYTES, Read, SessionNotice};
use super::output::{Output, Printed};
use super::process::SessionProcess;
use crate::events::EventSink;

/// How long code may take to stop after an interrupt, if its call's deadline allows this.
const GRACE: Duration = Duration::from_secs(2);

/// Time reserved for the answer to reach the caller.
const MARGIN: Duration = Duration::from_millis(250);

/// How long to wait for the exit status of a process that closed its stream. If none arrives, the code closed the
/// stream.
const REASON: Duration = Duration::from_millis(700);

/// The maximum number of bytes that a process writes to its stream per cell, including a fixed cost per line.
/// Artifacts and events need less.
const MAX_SAID_BYTES: usize = 128 * 1024 * 1024;
const LINE_COST: usize = 4096;
const TOO_MUCH_SAID: &str = "the code wrote too much to its session's own connection";

/// The timeout for delivering the last output to the listener.
const LAST: Duration = Duration::from_millis(500);

/// A cell of code to run, with its limits.
pub(crate) struct Cell {
    pub(crate) number: u64,
    pub(crate) code: String,
    pub(crate) deadlines: CellDeadlines,
    pub(crate) events: EventSink,
    /// Cancelled when the caller is gone.
    pub(crate) dropped: CancellationToken,
    /// Cancelled when the session is closed.
    pub(crate) closed: CancellationToken,
}

/// A cell's time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellDeadlines {
    /// The cell's timeout, which the call requested.
    pub(crate) time: Duration,
    /// The time at which the code must stop so that its call can still be answered.
    pub(crate) latest: Instant,
    /// How long the code may take to stop after an interrupt.
    pub(crate) grace: Duration,
}

impl CellDeadlines {
    pub(crate) fn new(time: Duration, deadline: Instant, now: Instant) -> Self {
        let left = deadline.saturating_duration_since(now);
        let grace = GRACE.min(left / 4);
        let latest = deadline.checked_sub(grace + MARGIN.min(left / 8)).unwrap_or(now);
        Self { time, latest, grace }
    }
}

/// The result of a cell.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: Printed,
    pub(crate) stderr: Printed,
    pub(crate) end: CellOutcome,
    /// Why the cell was interrupted, if it was.
    pub(crate) interrupted: Option<Interruption>,
    pub(crate) took: Duration,
}

impl Ran {
    /// Creates the result for a session that was closed before any code ran.
    pub(super) fn for_closed_session(took: Duration) -> Self {
        let nothing = Printed::default;
        Self { stdout: nothing(), stderr: nothing(), end: CellOutcome::Lost(Loss::Closed), interrupted: None, took }
    }
}

/// The state of the process after the cell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CellOutcome {
    /// It can run more cells.
    Ended(CellEnd),
    /// It can't run more cells and must be dropped.
    Lost(Loss),
}

/// The reasons why a session's state is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The process ended, as its supervisor reported.
    Process(KeptProcessEnd),
    /// The code closed or replaced the stream between process and worker, or corrupted the message that ends the
    /// cell.
    HungUp,
    /// It did not stop after an interrupt, or may still receive the signal.
    Unresponsive,
    /// The session was closed.
    Closed,
}

/// The reasons for interrupting a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    Time,
    Dropped,
    Output,
}

/// The reasons why waiting for a cell ended.
enum WaitEnd {
    Ended(CellEnd),
    HungUp,
    /// The message that ends the cell can't be parsed. No other one follows.
    Broken,
    /// The process exceeded the limit on written bytes per cell.
    TooMuch,
    Unresponsive,
    Closed,
}

/// Signals between the tasks of a running cell.
struct Signals {
    clock: Arc<Clock>,
    /// Notified when the code starts. From then on, a signal interrupts it.
    began: Notify,
    /// Notified when the process sent an event.
    spoken: Notify,
    /// Notified when the output limit is exceeded.
    flood: Notify,
    /// Cancelled when the cell is interrupted. From then on, events that the listener does not take immediately
    /// are dropped.
    interrupted: CancellationToken,
}

impl Signals {
    fn new(cell: &Cell, begun: Instant) -> Self {
        let clock = Arc::new(Clock::new(cell.deadlines.time, cell.deadlines.latest, begun));
        let (began, spoken, flood) = (Notify::new(), Notify::new(), Notify::new());
        Self { clock, began, spoken, flood, interrupted: CancellationToken::new() }
    }
}

/// Runs a cell, and interrupts it at its limits.
pub(crate) async fn run(process: &mut SessionProcess, cell: &Cell) -> Ran {
    let begun = Instant::now();
    let SessionProcess { kept, control, lines, stdout, stderr, .. } = process;
    // Output that threads print between two calls belongs to no call.
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
    let lost = CellOutcome::Lost;
    let end = match stop {
        WaitEnd::Ended(ended) => CellOutcome::Ended(ended),
        WaitEnd::HungUp => {
            let reason = tokio::time::timeout(REASON, kept.wait()).await;
            lost(reason.map_or(Loss::HungUp, Loss::Process))
        }
        WaitEnd::Broken => lost(Loss::HungUp),
        WaitEnd::TooMuch => lost(Loss::Process(KeptProcessEnd::Exceeded(TOO_MUCH_SAID.to_owned()))),
        WaitEnd::Unresponsive => lost(Loss::Unresponsive),
        WaitEnd::Closed => lost(Loss::Closed),
    };
    Ran { stdout: out.finish(), stderr: err.finish(), end, interrupted, took }
}

/// Waits until a cell ends, and interrupts it if necessary. Polls the deadline and cancellation outside the
/// cooperative budget, which a process that writes much exhausts.
async fn attend(
    talk: impl Future<Output = WaitEnd>,
    kept: &KeptProcess,
    cell: &Cell,
    signals: &Signals,
) -> (WaitEnd, Option<Interruption>) {
    let mut talk = pin!(talk);
    let why = tokio::select! {
        biased;
        () = unconstrained(cell.closed.cancelled()) => return (WaitEnd::Closed, None),
        () = unconstrained(cell.dropped.cancelled()) => Interruption::Dropped,
        heard = &mut talk => return (heard, None),
        () = unconstrained(signals.flood.notified()) => Interruption::Output,
        () = unconstrained(signals.clock.over()) => Interruption::Time,
    };
    signals.interrupted.cancel();
    let interrupt = unconstrained(async {
        signals.began.notified().await;
        kept.interrupt().await
    });
    // Wait for both, because a late signal would interrupt the next cell.
    let stopped = async {
        match tokio::join!(&mut talk, interrupt) {
            (WaitEnd::Ended(_), false) => WaitEnd::Unresponsive,
            (heard, _) => heard,
        }
    };
    let stop = tokio::select! {
        biased;
        () = unconstrained(cell.closed.cancelled()) => WaitEnd::Closed,
        stop = stopped => stop,
        () = unconstrained(tokio::time::sleep(cell.deadlines.grace)) => WaitEnd::Unresponsive,
    };
    (stop, Some(why))
}

/// Reads the process's messages until the cell ends. Skips messages of other cells.
async fn hear(lines: &mut LineReader, mut from: impl AsyncRead + Unpin, cell: &Cell, signals: &Signals) -> WaitEnd {
    let mut left = MAX_SAID_BYTES;
    while left > 0 {
        let line = match lines.next(&mut from).await {
            Read::Line(line) => line,
            Read::TooLong => {
                cell.events.drop_one();
                left = left.saturating_sub(MAX_LINE_BYTES);
                continue;
            }
            Read::End => return WaitEnd::HungUp,
        };
        left = left.saturating_sub(line.len() + LINE_COST);
        match line::parse_notice(&line) {
            Some(SessionNotice::Ended(ended)) if ended.cell == cell.number => return WaitEnd::Ended(ended),
            Some(SessionNotice::Began(number)) if number == cell.number => signals.began.notify_one(),
            Some(_) => {}
            None if line::is_broken_end(&line, cell.number) => return WaitEnd::Broken,
            // The host ends an incomplete line by writing an empty one.
            None if line.is_empty() => {}
            None if line.len() > MAX_EVENT_BYTES => cell.events.drop_one(),
            None => tell(&line, cell, signals).await,
        }
    }
    WaitEnd::TooMuch
}

/// Forwards an event. Waits for the listener only until the cell is interrupted, because the message that ends the
/// cell comes later.
async fn tell(line: &[u8], cell: &Cell, signals: &Signals) {
    signals.spoken.notify_one();
    tokio::select! {
        biased;
        () = cell.events.line_that_may_ask(line, || signals.clock.pause()) => {}
        () = signals.interrupted.cancelled() => cell.events.drop_one(),
    }
}

/// Sends the cell and then the answers to its questions. Takes answers only after the process has sent an event.
async fn speak(mut to: impl AsyncWrite + Unpin, cell: &Cell, signals: &Signals) -> Infallible {
    // If the process does not read, the interrupt handles this.
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
