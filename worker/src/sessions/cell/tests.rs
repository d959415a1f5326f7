//! Tests of a cell against a hostile process.

use openskill_proto::v1::execute_event::Event;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;

use super::super::process::Host;
use super::*;
use crate::artifacts::Collector;
use crate::questions::{CallQuestions, Questions};

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(200);

fn cell(time: Duration, events: EventSink) -> Cell {
    let latest = Instant::now() + LONG;
    let (dropped, closed) = (CancellationToken::new(), CancellationToken::new());
    let deadlines = CellDeadlines { time, latest, grace: LONG };
    Cell { number: 1, code: "1".to_owned(), deadlines, events, dropped, closed }
}

/// Receives the cell and reports that it began.
async fn begin(host: &mut Host) {
    let mut run = [0; 40];
    assert!(host.control.read(&mut run).await.unwrap() > 0);
    host.control.write_all(b"{\"session\": {\"began\": 1}}\n").await.unwrap();
}

async fn end(host: &mut Host) {
    host.control.write_all(b"{\"session\": {\"ended\": {\"cell\": 1}}}\n").await.unwrap();
}

/// Runs a cell with `play` as the process. Fails the test if the cell never ends.
async fn ran(cell: Cell, play: impl AsyncFnOnce(&mut Host)) -> Ran {
    let (mut process, mut host) = Host::start();
    let played = async {
        begin(&mut host).await;
        play(&mut host).await;
    };
    let both = async { tokio::join!(run(&mut process, &cell), played).0 };
    tokio::time::timeout(Duration::from_secs(30), both).await.expect("the cell ends")
}

#[tokio::test]
async fn a_cell_ends_when_its_process_says_so() {
    let ran = ran(cell(LONG, EventSink::default()), async |host| end(host).await).await;
    assert_eq!((ran.end, ran.interrupted), (CellOutcome::Ended(CellEnd { cell: 1, ..CellEnd::default() }), None));
}

#[tokio::test]
async fn an_end_that_cannot_be_read_is_not_waited_for() {
    let ran = ran(cell(LONG, EventSink::default()), async |host| {
        let end = r#"{"session": {"ended": {"cell": 1, "error": {"message": "\udc80"}}}}"#;
        host.control.write_all(format!("{end}\n").as_bytes()).await.unwrap();
    });
    assert_eq!(ran.await.end, CellOutcome::Lost(Loss::HungUp));
}

#[tokio::test]
async fn a_process_that_says_too_much_is_not_read_on() {
    let ran = ran(cell(LONG, EventSink::default()), async |host| {
        // This exceeds the limit, so the rest is never read and the stream breaks with the process.
        let lines = b"\n".repeat(2 * MAX_SAID_BYTES / LINE_COST);
        tokio::select! {
            _ = host.control.write_all(&lines) => {}
            () = tokio::time::sleep(Duration::from_secs(5)) => {}
        }
    });
    assert_eq!(ran.await.end, CellOutcome::Lost(Loss::Process(KeptProcessEnd::Exceeded(TOO_MUCH_SAID.to_owned()))));
}

#[tokio::test]
async fn a_process_that_never_stops_talking_does_not_stop_the_clock() {
    let (process, _host) = Host::start();
    let mut cell = cell(SHORT, EventSink::default());
    cell.deadlines.grace = SHORT;
    let talk = async {
        loop {
            tokio::task::consume_budget().await;
        }
    };
    let signals = Signals::new(&cell, Instant::now());
    let attended = tokio::time::timeout(Duration::from_secs(30), attend(talk, &process.kept, &cell, &signals));
    assert!(matches!(attended.await, Ok((WaitEnd::Unresponsive, Some(Interruption::Time)))));
}

/// Creates a call whose user can be asked.
fn asked(time: Duration) -> (mpsc::Receiver<Event>, Cell) {
    let (sender, listener) = mpsc::channel(100);
    let asker = CallQuestions::new(std::sync::Arc::<Questions>::default(), "ada", Instant::now() + LONG);
    (listener, cell(time, EventSink::for_call(Some(sender), Collector::default(), Some(asker))))
}

#[tokio::test]
async fn code_cannot_stop_its_clock_with_what_is_no_question() {
    for line in ["{\"input_required\"\n", "{\"input_required\": {\"id\": 1}}\n"] {
        let (_listener, cell) = asked(SHORT);
        let ran = ran(cell, async |host| {
            host.control.write_all(line.as_bytes()).await.unwrap();
            host.supervisor.confirm_interrupt().await;
            end(host).await;
        });
        let ran = ran.await;
        assert_eq!(ran.interrupted, Some(Interruption::Time), "{line}");
        assert!(matches!(ran.end, CellOutcome::Ended(_)));
    }
}

#[tokio::test]
async fn the_clock_stands_still_while_a_user_is_asked() {
    let time = Duration::from_secs(1);
    let (mut listener, cell) = asked(time);
    let ran = ran(cell, async |host| {
        let question = br#"{"input_required": {"id": "q", "message": "Who?", "schema": {"type": "object"}}}"#;
        host.control.write_all(question).await.unwrap();
        host.control.write_all(b"\n").await.unwrap();
        assert!(matches!(listener.recv().await, Some(Event::InputRequired(_))));
        tokio::time::sleep(2 * time).await;
        end(host).await;
    });
    assert_eq!(ran.await.interrupted, None);
}

#[tokio::test]
async fn a_listener_that_does_not_listen_costs_no_session() {
    let (sender, listener) = mpsc::channel(1);
    let ran = ran(cell(SHORT, EventSink::new(sender)), async |host| {
        for _ in 0..3 {
            host.control.write_all(b"{\"partial\": 1}\n").await.unwrap();
        }
        // More than a pipe's buffer.
        host.stdout.write_all(&[b'x'; 256 * 1024]).await.unwrap();
        host.supervisor.confirm_interrupt().await;
        end(host).await;
    });
    let ran = ran.await;
    assert!(matches!(ran.end, CellOutcome::Ended(_)), "{:?}", ran.end);
    assert_eq!((ran.interrupted, ran.stdout.text.len()), (Some(Interruption::Time), 256 * 1024));
    drop(listener);
}

#[tokio::test]
async fn a_process_that_may_still_get_a_signal_is_lost() {
    let ran = ran(cell(SHORT, EventSink::default()), async |host| {
        // The supervisor has not sent the signal yet, and may never send it.
        host.supervisor.wait_for_order().await;
        end(host).await;
    });
    let ran = ran.await;
    assert_eq!((ran.end, ran.interrupted), (CellOutcome::Lost(Loss::Unresponsive), Some(Interruption::Time)));
}

#[test]
fn code_stops_early_enough_for_its_call_to_be_answered() {
    let now = Instant::now();
    let after = |left| {
        let CellDeadlines { latest, grace, .. } = CellDeadlines::new(LONG, now + left, now);
        assert!(latest + grace <= now + left);
        (latest - now, grace)
    };
    assert_eq!(after(Duration::from_secs(100)), (Duration::from_millis(97_750), GRACE));
    assert_eq!(after(Duration::from_secs(1)), (Duration::from_millis(625), Duration::from_millis(250)));
    assert_eq!(after(Duration::ZERO), (Duration::ZERO, Duration::ZERO));
}
