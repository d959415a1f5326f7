//! Tests of the time between a lease and the run of its cell.

use std::time::Duration;

use futures_util::FutureExt as _;
use openskill_sandbox::sessions::book::{SessionBook, SessionBounds, Terms};
use openskill_sandbox::sessions::key::Key;
use tokio_util::sync::CancellationToken;

use super::super::cell::{CellDeadlines, Loss};
use super::super::process::Host;
use super::*;
use crate::events::EventSink;
use crate::schedule::Scheduler;

const LONG: Duration = Duration::from_secs(600);

struct Call {
    book: Arc<SessionBook<SessionProcess>>,
    dropped: CancellationToken,
    answered: oneshot::Receiver<Result<Outcome, SkillError>>,
    driven: tokio::task::JoinHandle<()>,
}

/// Creates a call whose session has this process or gets one from `start`.
async fn call(
    process: Option<SessionProcess>,
    start: impl Future<Output = Result<SessionProcess, SkillError>> + Send + 'static,
    (time, dropped): (Duration, CancellationToken),
) -> Call {
    let book = SessionBook::new(SessionBounds { per_caller: 2, per_worker: 2, idle: LONG, age: LONG });
    let owner = SessionOwner { group: "g".to_owned(), principal: "ada".to_owned(), conversation: String::new() };
    let key = Key { owner: owner.clone(), name: Some("s".to_owned()) };
    let latest = Instant::now() + time;
    let mut lease = book.take(&key, Terms { maker: 1, together: usize::MAX }, latest).await.unwrap();
    lease.process = process;
    let (closed, events) = (lease.stop.clone(), EventSink::default());
    let code = "1".to_owned();
    let deadlines = CellDeadlines { time: LONG, latest, grace: LONG };
    let cell = Cell { number: 1, code, deadlines, events, dropped: dropped.clone(), closed };
    let slot = Scheduler::new(1, 0, 1).any_slot().await;
    let job = SessionCall { lease, cell, start: start.boxed(), counted: (Arc::default(), owner), slot };
    let (answer, answered) = oneshot::channel();
    Call { book, dropped, answered, driven: tokio::spawn(drive(job, answer)) }
}

/// Never starts a process.
async fn never() -> Result<SessionProcess, SkillError> {
    std::future::pending().await
}

async fn ends(driven: tokio::task::JoinHandle<()>) {
    tokio::time::timeout(Duration::from_secs(30), driven).await.expect("it waits for nothing").unwrap();
}

#[tokio::test]
async fn a_session_that_nobody_waits_for_is_not_started() {
    let call = call(None, never(), (LONG, CancellationToken::new())).await;
    call.dropped.cancel();
    ends(call.driven).await;
    assert!(matches!(call.answered.await, Ok(Err(_))));
    assert_eq!(call.book.count(), 0);
}

#[tokio::test]
async fn a_session_that_is_closed_while_it_starts_is_not_started() {
    let call = call(None, never(), (LONG, CancellationToken::new())).await;
    call.book.shut();
    ends(call.driven).await;
    let outcome = call.answered.await.unwrap().unwrap();
    assert_eq!((outcome.ran.end, outcome.state), (CellOutcome::Lost(Loss::Closed), State::Lost));
}

#[tokio::test]
async fn a_start_that_outlives_its_call_is_a_call_that_did_not_begin() {
    let call = call(None, never(), (Duration::from_millis(100), CancellationToken::new())).await;
    ends(call.driven).await;
    let error = call.answered.await.unwrap().expect_err("nothing ran");
    assert_eq!((error.code(), call.book.count()), (ErrorCode::Timeout, 0));
}

#[tokio::test]
async fn code_that_nobody_waits_for_does_not_begin() {
    // The call is dropped while its session starts.
    let (dropped, (process, host)) = (CancellationToken::new(), Host::start());
    let late = dropped.clone();
    let start = async move {
        late.cancel();
        Ok(process)
    };
    let call_of_new = call(None, start, (LONG, dropped)).await;
    ends(call_of_new.driven).await;
    assert_eq!((told(host).await.len(), call_of_new.book.count()), (0, 0));
    // The call is dropped before an existing session gets it. That session keeps its state.
    let dropped = CancellationToken::new();
    dropped.cancel();
    for (time, dropped) in [(LONG, dropped), (Duration::ZERO, CancellationToken::new())] {
        let (process, host) = Host::start();
        let call_of_kept = call(Some(process), never(), (time, dropped)).await;
        ends(call_of_kept.driven).await;
        assert!(matches!(call_of_kept.answered.await, Ok(Err(_))));
        assert_eq!(call_of_kept.book.count(), 1);
        drop(call_of_kept.book);
        assert_eq!(told(host).await.len(), 0);
    }
}

/// Returns all that the process received, after the call dropped it.
async fn told(mut host: Host) -> Vec<u8> {
    let mut told = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut host.control, &mut told).await.unwrap();
    told
}
