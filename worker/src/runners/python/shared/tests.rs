use std::io::{PipeWriter, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_sandbox::given_secrets::GivenSecrets;
use openskill_sandbox::launch::LaunchError;
use openskill_sandbox::run::RunError;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::attend::attend;
use super::interpreter::{CallEnd, Connected, Process, Slots};
use super::pool::Pool;
use super::queue::Queue;
use super::{CallMessage, run};
use crate::events::EventSink;
use crate::runner::RawOutput;
use crate::schedule::{Scheduler, Slot};

const LONG: Duration = Duration::from_secs(10);

/// A fake interpreter.
struct Played {
    calls: OwnedFd,
    /// `None` after the interpreter has ended.
    answers: Option<PipeWriter>,
    /// Dropped when the worker ends the interpreter.
    alive: Arc<()>,
    /// Shared with the logger of the interpreter's output.
    given_secrets: GivenSecrets,
}

impl Played {
    /// Takes the next call and returns its number. Returns `None` if the queue is empty.
    fn take(&self) -> Option<u64> {
        let mut message = [0; 65536];
        let taken = rustix::net::recv(&self.calls, &mut message, rustix::net::RecvFlags::DONTWAIT).ok()?;
        if taken.1 == 0 {
            return None; // The worker has closed its end.
        }
        Some(u64::from_le_bytes(message[..8].try_into().unwrap()))
    }

    fn say(&mut self, text: &str) {
        self.answers.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn answer(&mut self, call: u64, last: bool) {
        let out = call.to_string();
        let size = out.len();
        self.say(&format!(
            "\n{{\"ended\": {{\"call\": {call}, \"status\": 0, \"stdout\": {size}, \"stderr\": 0, \"left\": 0, \
             \"last\": {last}}}}}\n{out}"
        ));
    }

    fn is_ended(&self) -> bool {
        Arc::strong_count(&self.alive) == 1
    }
}

/// A pool with fake interpreters, and the interpreters that it started.
struct Stage {
    pool: Arc<Pool>,
    started: Arc<Mutex<Vec<Option<Played>>>>,
}

impl Stage {
    fn new(most: usize) -> Self {
        let started: Arc<Mutex<Vec<Option<Played>>>> = Arc::default();
        let list = Arc::clone(&started);
        let connect = Box::new(move || {
            let (queue, calls) = Queue::new()?;
            let (answers, theirs) = std::io::pipe()?;
            let (alive, given_secrets) = (Arc::new(()), GivenSecrets::default());
            let (theirs, noted) = (Some(theirs), given_secrets.clone());
            let played = Played { calls, answers: theirs, alive: Arc::clone(&alive), given_secrets: noted };
            list.lock().push(Some(played));
            let launch = Box::new(move || Ok(Box::new(alive) as Process));
            Ok(Connected { queue, answers: answers.into(), launch, slots: Slots::default(), given_secrets })
        });
        // An existing file that does not change.
        let script = std::env::current_exe().unwrap();
        Self { pool: Pool::new(connect, attend, script, most), started }
    }

    fn count(&self) -> usize {
        self.started.lock().len()
    }

    fn interpreter(&self, at: usize) -> Played {
        self.started.lock()[at].take().unwrap()
    }

    async fn call(&self) -> JoinHandle<CallEnd> {
        self.call_with(EventSink::default(), Scheduler::new(1, 0, 0).any_slot().await).await
    }

    async fn call_with(&self, events: EventSink, slot: Slot) -> JoinHandle<CallEnd> {
        let pool = Arc::clone(&self.pool);
        let call = tokio::spawn(async move {
            let message = CallMessage { bytes: vec![0; 16], file: None, has_secrets: false };
            run(&pool, message, &slot, &events).await
        });
        tokio::task::yield_now().await;
        call
    }
}

async fn output(call: JoinHandle<CallEnd>) -> String {
    match tokio::time::timeout(LONG, call).await.unwrap().unwrap() {
        CallEnd::Ran(RawOutput::Process { stdout, .. }) => String::from_utf8(stdout).unwrap(),
        CallEnd::Ran(_) => "another output".to_owned(),
        CallEnd::Failed(RunError::Launch(LaunchError::Lost)) => "lost".to_owned(),
        CallEnd::Failed(error) => error.to_string(),
        CallEnd::NotStarted => "not started".to_owned(),
    }
}

async fn until(mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn answers_and_events_reach_their_own_calls() {
    let stage = Stage::new(1);
    let (listener, mut heard) = tokio::sync::mpsc::channel(8);
    let first = stage.call().await;
    let slot = Scheduler::new(1, 0, 0).any_slot().await;
    let second = stage.call_with(EventSink::new(listener), slot).await;
    let third = stage.call().await;
    assert_eq!(stage.count(), 1, "all wait for the one there may be");
    let mut played = stage.interpreter(0);
    let calls = [played.take().unwrap(), played.take().unwrap(), played.take().unwrap()];
    played.say("{\"partial\": 1}\n");
    played.answer(calls[0], false);
    played.say("{\"partial\": 2}\n{\"unfinished");
    played.answer(calls[1], false);
    played.answer(calls[2], false);
    assert_eq!([output(first).await, output(second).await, output(third).await], calls.map(|it| it.to_string()));
    let Some(openskill_proto::v1::execute_event::Event::Partial(partial)) = heard.recv().await else { panic!("none") };
    assert_eq!(partial.data_json, "2");
    assert!(heard.recv().await.is_none(), "nobody else's");
}

#[tokio::test]
async fn an_interpreter_that_was_given_secrets_is_known_before_it_has_the_call() {
    let (stage, slot) = (Stage::new(1), Scheduler::new(1, 0, 0).any_slot().await);
    let mut played = None;
    // A later call's output may repeat the secrets of an earlier one.
    for (has_secrets, expected) in [(false, false), (true, true), (false, true)] {
        let message = CallMessage { bytes: vec![0; 16], file: None, has_secrets };
        let call = stage.pool.put(message, slot.clone(), EventSink::default());
        let played = played.get_or_insert_with(|| stage.interpreter(0));
        let number = played.take().unwrap();
        assert_eq!(played.given_secrets.any(), expected);
        played.answer(number, false);
        let CallEnd::Ran(RawOutput::Process { had_secrets, .. }) = call.end.await.unwrap() else { panic!("no output") };
        assert_eq!(had_secrets, expected);
    }
}

#[tokio::test]
async fn calls_prefer_idle_then_new_then_least_loaded_interpreters() {
    let stage = Stage::new(2);
    let calls = [stage.call().await, stage.call().await];
    assert_eq!(stage.count(), 2);
    let more = [stage.call().await, stage.call().await];
    assert_eq!(stage.count(), 2);
    for (at, first) in calls.into_iter().enumerate() {
        let mut played = stage.interpreter(at);
        let (call, behind) = (played.take().unwrap(), played.take().unwrap());
        assert!(played.take().is_none(), "two each");
        played.answer(call, false);
        assert_eq!(output(first).await, call.to_string());
        played.answer(behind, false);
        until(|| more[at].is_finished()).await;
    }
}

#[tokio::test]
async fn a_call_behind_a_slow_one_moves_to_an_idle_interpreter() {
    let stage = Stage::new(2);
    let (_slow, quick, behind) = (stage.call().await, stage.call().await, stage.call().await);
    let (slow_one, mut other) = (stage.interpreter(0), stage.interpreter(1));
    slow_one.take().unwrap();
    let call = other.take().unwrap();
    assert!(other.take().is_none(), "it is behind the slow one");
    other.answer(call, false);
    assert_eq!(output(quick).await, call.to_string());
    let mut moved = None;
    until(|| {
        moved = other.take();
        moved.is_some()
    })
    .await;
    assert!(slow_one.take().is_none(), "it is with one alone");
    other.answer(moved.unwrap(), false);
    assert_eq!(output(behind).await, moved.unwrap().to_string());
}

#[tokio::test]
async fn a_dropped_call_that_was_begun_ends_its_interpreter_and_those_behind_it_run_elsewhere() {
    let stage = Stage::new(1);
    let (first, behind) = (stage.call().await, stage.call().await);
    let played = stage.interpreter(0);
    played.take().unwrap();
    first.abort();
    until(|| played.is_ended()).await;
    assert!(played.take().is_none(), "it can't begin the other any more");
    let mut next = stage.interpreter(1);
    let call = next.take().unwrap();
    assert!(!behind.is_finished());
    next.answer(call, false);
    assert_eq!(output(behind).await, call.to_string());
}

#[tokio::test]
async fn a_dropped_call_that_was_not_begun_just_leaves_the_queue() {
    let stage = Stage::new(1);
    let (first, dropped, last) = (stage.call().await, stage.call().await, stage.call().await);
    let mut played = stage.interpreter(0);
    let call = played.take().unwrap();
    dropped.abort();
    until(|| dropped.is_finished()).await;
    played.answer(call, false);
    assert_eq!(output(first).await, call.to_string());
    let call = played.take().unwrap();
    played.answer(call, false);
    assert_eq!(output(last).await, call.to_string());
    assert!(played.take().is_none() && !played.is_ended() && stage.count() == 1);
}

#[tokio::test]
async fn a_dropped_call_that_has_ended_leaves_its_interpreter_running() {
    let stage = Stage::new(1);
    let (first, second) = (stage.call().await, stage.call().await);
    let mut played = stage.interpreter(0);
    let calls = [played.take().unwrap(), played.take().unwrap()];
    // Answers and drops at once, so that the answer is still unread.
    played.answer(calls[0], false);
    stage.pool.drop_call(calls[0]);
    until(|| first.is_finished()).await;
    assert!(!played.is_ended());
    played.answer(calls[1], false);
    assert_eq!(output(second).await, calls[1].to_string());
}

#[tokio::test]
async fn when_an_interpreter_dies_the_begun_call_fails_and_the_rest_run_elsewhere() {
    let stage = Stage::new(1);
    let (over, begun, waiting) = (stage.call().await, stage.call().await, stage.call().await);
    let mut played = stage.interpreter(0);
    let calls = [played.take().unwrap(), played.take().unwrap()];
    played.answer(calls[0], false);
    played.answers = None;
    assert_eq!(output(over).await, calls[0].to_string());
    assert_eq!(output(begun).await, "lost");
    let mut next = stage.interpreter(1);
    let call = next.take().unwrap();
    next.answer(call, false);
    assert_eq!(output(waiting).await, call.to_string());
}

#[tokio::test]
async fn interpreters_that_die_at_once_are_restarted_a_bounded_number_of_times() {
    let stage = Stage::new(1);
    let call = stage.call().await;
    for at in 0.. {
        until(|| stage.count() > at || call.is_finished()).await;
        if call.is_finished() {
            assert!(at > 0 && at < 10, "{at}");
            break;
        }
        drop(stage.interpreter(at));
    }
    assert_eq!(output(call).await, "not started");
}

#[tokio::test]
async fn an_interpreter_with_leftover_processes_ends_and_frees_the_slot() {
    let stage = Stage::new(1);
    let scheduler = Scheduler::new(1, 0, 1);
    let held = scheduler.any_slot().await;
    let (first, behind) = (stage.call_with(EventSink::default(), held).await, stage.call().await);
    let mut played = stage.interpreter(0);
    let call = played.take().unwrap();
    played.answer(call, true);
    assert_eq!(output(first).await, call.to_string());
    assert!(played.is_ended());
    let mut next = stage.interpreter(1);
    let call = next.take().unwrap();
    next.answer(call, false);
    assert_eq!(output(behind).await, call.to_string());
    // When its process has ended, its slot is free.
    tokio::time::timeout(LONG, scheduler.any_slot()).await.unwrap();
}

#[tokio::test]
async fn an_answer_for_another_call_ends_the_interpreter() {
    let stage = Stage::new(1);
    let call = stage.call().await;
    let mut played = stage.interpreter(0);
    let number = played.take().unwrap();
    played.answer(number + 1, false);
    assert_eq!(output(call).await, "lost");
    assert!(played.is_ended());
}

#[tokio::test]
async fn a_retired_interpreter_ends_after_its_calls() {
    let stage = Stage::new(1);
    let (first, second) = (stage.call().await, stage.call().await);
    let mut played = stage.interpreter(0);
    let calls = [played.take().unwrap(), played.take().unwrap()];
    stage.pool.retire();
    assert!(!played.is_ended());
    played.answer(calls[0], false);
    played.answer(calls[1], false);
    assert_eq!([output(first).await, output(second).await], calls.map(|it| it.to_string()));
    assert!(played.is_ended());
}
