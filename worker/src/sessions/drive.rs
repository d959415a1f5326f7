//! From a lease to its end: starts the process of a new session, runs the cell, and gives the session back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};
use tokio::sync::oneshot;

use super::book::Lease;
use super::cell::{self, Cell, End, Interruption, Ran};
use super::key::Owner;
use super::process::Process;
use super::tally::{Counts, Tally};
use crate::schedule::Slot;

/// One call of a session.
pub(crate) struct Job {
    pub(crate) lease: Lease<Process>,
    pub(crate) cell: Cell,
    /// Starts a process, if the session has none yet.
    pub(crate) start: BoxFuture<'static, Result<Process, SkillError>>,
    /// Where its call is counted, and whose it is.
    pub(crate) counted: (Arc<Tally>, Owner),
    /// Held until nothing runs for the call.
    pub(crate) slot: Slot,
}

/// How the call went.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) ran: Ran,
    pub(crate) state: State,
}

/// What became of the session's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It began with this call.
    New,
    /// It is that of earlier calls.
    Kept,
    /// It is gone.
    Lost,
}

impl State {
    /// As the result has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Kept => "kept",
            Self::Lost => "lost",
        }
    }
}

/// Runs the job to its end, even when nobody waits for the answer.
pub(crate) async fn drive(job: Job, answer: oneshot::Sender<Result<Outcome, SkillError>>) {
    let Job { mut lease, cell, start, counted: (tally, owner), slot } = job;
    let begun = Instant::now();
    let (mut process, before) = match ready(&mut lease, start, &cell).await {
        Ok(ready) => ready,
        Err(none) => {
            if let Some(process) = lease.process.take() {
                // Nothing ran: it keeps its state.
                lease.give_back(process, Instant::now());
            }
            let _ = answer.send(none.answer(begun.elapsed()));
            return;
        }
    };
    if before == State::New {
        let took = begun.elapsed();
        tally.count(&owner, Instant::now(), |it| {
            it.started += 1;
            it.last_start = Some(took);
        });
    }
    let ran = cell::run(&mut process, &cell).await;
    tally.count(&owner, Instant::now(), |it| note(it, &ran));
    let is_lost = matches!(ran.end, End::Lost(_));
    if is_lost || lease.fleeting {
        let state = if is_lost { State::Lost } else { before };
        let _ = answer.send(Ok(Outcome { ran, state }));
        // Only then does the session free its place.
        process.end().await;
        drop((lease, slot));
        return;
    }
    // It may have been closed at this moment.
    let state = if lease.give_back(process, Instant::now()) { before } else { State::Lost };
    drop(slot);
    let _ = answer.send(Ok(Outcome { ran, state }));
}

/// Why nothing ran.
enum Unstarted {
    /// The process of a new session could not be started.
    Failed(SkillError),
    /// Nobody waits for the call any more.
    Dropped,
    /// The session was closed.
    Closed,
    /// The call has no time left.
    Late,
}

impl Unstarted {
    fn answer(self, took: Duration) -> Result<Outcome, SkillError> {
        match self {
            Self::Failed(error) => Err(error),
            Self::Dropped => Err(SkillError::unavailable("the call was dropped before its session began")),
            Self::Late => {
                Err(SkillError::new(ErrorCode::Timeout, "the session did not begin before the call's deadline"))
            }
            Self::Closed => Ok(Outcome { ran: Ran::closed(took), state: State::Lost }),
        }
    }
}

/// The process to run the code in, unless the call ends first. A new process that gets ready too late is dropped, which
/// kills it; the process of earlier calls stays in the lease.
async fn ready(
    lease: &mut Lease<Process>,
    start: BoxFuture<'static, Result<Process, SkillError>>,
    cell: &Cell,
) -> Result<(Process, State), Unstarted> {
    // The timer below is a millisecond coarse.
    if cell.latest <= Instant::now() {
        return Err(Unstarted::Late);
    }
    let found = tokio::select! {
        biased;
        () = cell.dropped.cancelled() => return Err(Unstarted::Dropped),
        () = cell.closed.cancelled() => return Err(Unstarted::Closed),
        () = tokio::time::sleep_until(cell.latest.into()) => return Err(Unstarted::Late),
        found = found_or_started(lease, start) => found.map_err(Unstarted::Failed)?,
    };
    match found {
        // The call was dropped while the process got ready.
        (_, State::New) if cell.dropped.is_cancelled() => Err(Unstarted::Dropped),
        found => Ok(found),
    }
}

async fn found_or_started(
    lease: &mut Lease<Process>,
    start: BoxFuture<'static, Result<Process, SkillError>>,
) -> Result<(Process, State), SkillError> {
    match lease.process.take() {
        Some(process) => Ok((process, State::Kept)),
        None => Ok((start.await?, State::New)),
    }
}

fn note(counts: &mut Counts, ran: &Ran) {
    let (failed, lost) = match &ran.end {
        End::Ended(ended) => (ended.return_code != 0 || ran.interrupted.is_some(), false),
        End::Lost(_) => (true, true),
    };
    counts.cells += 1;
    counts.failed += u64::from(failed);
    counts.lost += u64::from(lost);
    counts.timed_out += u64::from(ran.interrupted == Some(Interruption::Time));
    counts.total += ran.took;
    counts.longest = counts.longest.max(ran.took);
}

#[cfg(test)]
mod tests;
