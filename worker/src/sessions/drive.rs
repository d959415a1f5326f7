//! Runs a leased session's call: starts the process of a new session, runs the cell, and returns the session.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::sessions::book::Lease;
use openskill_sandbox::sessions::key::SessionOwner;
use serde::Serialize;
use tokio::sync::oneshot;

use super::cell::{self, Cell, CellOutcome, Interruption, Ran};
use super::process::{NewSessionProcess, SessionProcess};
use super::tally::{SessionCounts, SessionTally};
use crate::schedule::Slot;

/// One call of a session.
pub(crate) struct SessionCall {
    pub(crate) lease: Lease<SessionProcess>,
    pub(crate) cell: Cell,
    /// Starts a process if the session has none.
    pub(crate) start: BoxFuture<'static, NewSessionProcess>,
    /// The counters, and the owner whose call is counted.
    pub(crate) counted: (Arc<SessionTally>, SessionOwner),
    /// Held until all processes of the call have ended.
    pub(crate) slot: Slot,
}

/// The result of a session's call.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) ran: Ran,
    pub(crate) state: State,
}

/// The session's state after the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// The state is new with this call.
    New,
    /// The state of earlier calls was kept.
    Kept,
    /// The state is lost.
    Lost,
}

/// Runs a call to its end, even if its caller no longer waits.
pub(crate) async fn drive(job: SessionCall, answer: oneshot::Sender<Result<Outcome, SkillError>>) {
    let SessionCall { mut lease, cell, start, counted: (tally, owner), slot } = job;
    let begun = Instant::now();
    let (mut process, before) = match ready(&mut lease, start, &cell).await {
        Ok(ready) => ready,
        Err(error) => {
            if let Some(process) = lease.process.take() {
                // No code ran, so the session keeps its state.
                lease.give_back(process, Instant::now());
            }
            let closed = || Outcome { ran: Ran::for_closed_session(begun.elapsed()), state: State::Lost };
            let _ = answer.send(error.map_or_else(|| Ok(closed()), Err));
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
    let is_lost = matches!(ran.end, CellOutcome::Lost(_));
    if is_lost || lease.fleeting {
        let state = if is_lost { State::Lost } else { before };
        let _ = answer.send(Ok(Outcome { ran, state }));
        // Only now does the session free its place.
        process.end().await;
        drop((lease, slot));
        return;
    }
    // The session may have been closed in this moment.
    let state = if lease.give_back(process, Instant::now()) { before } else { State::Lost };
    drop(slot);
    let _ = answer.send(Ok(Outcome { ran, state }));
}

/// Returns the process that runs the code, unless the call ends first: with this error, or because the session was
/// closed. Drops and thereby kills a new process that is ready too late. An existing process stays in the lease.
async fn ready(
    lease: &mut Lease<SessionProcess>,
    start: BoxFuture<'static, NewSessionProcess>,
    cell: &Cell,
) -> Result<(SessionProcess, State), Option<SkillError>> {
    let dropped = || Err(Some(SkillError::unavailable("the call was dropped before its session began")));
    let late = || {
        let reason = "the session did not begin before the call's deadline";
        Err(Some(SkillError::new(ErrorCode::Timeout, reason)))
    };
    // The timer below has a resolution of one millisecond.
    if cell.deadlines.latest <= Instant::now() {
        return late();
    }
    let find = async {
        match lease.process.take() {
            Some(process) => Ok((process, State::Kept)),
            None => start.await.map(|process| (process, State::New)),
        }
    };
    let found = tokio::select! {
        biased;
        () = cell.dropped.cancelled() => return dropped(),
        () = cell.closed.cancelled() => return Err(None),
        () = tokio::time::sleep_until(cell.deadlines.latest.into()) => return late(),
        found = find => found.map_err(Some)?,
    };
    match found {
        // The call was dropped while the process was starting.
        (_, State::New) if cell.dropped.is_cancelled() => dropped(),
        found => Ok(found),
    }
}

fn note(counts: &mut SessionCounts, ran: &Ran) {
    let (failed, lost) = match &ran.end {
        CellOutcome::Ended(ended) => (ended.return_code != 0 || ran.interrupted.is_some(), false),
        CellOutcome::Lost(_) => (true, true),
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
