use openskill_proto::v1::{InputRequired, Progress};
use tokio::sync::oneshot;

use super::kept_run::MAX_EVENTS;
use super::*;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

fn operation(id: &str, epoch: u64) -> OperationRun {
    OperationRun { operation_id: id.to_owned(), epoch }
}

fn resume(runs: &KeptRuns, id: &str, epoch: u64) -> Option<RunListener> {
    let request = ResumeRunRequest { operation_id: id.to_owned(), epoch, principal: "ann".to_owned() };
    runs.resume(&request, |question| question == "open")
}

fn cancel(runs: &KeptRuns, id: &str, epoch: u64) {
    runs.cancel(&CancelRunRequest { operation_id: id.to_owned(), epoch });
}

fn result(bytes: usize) -> ExecuteResult {
    ExecuteResult { success: true, data_json: vec![b'1'; bytes].into(), ..ExecuteResult::default() }
}

/// Starts a run that sends events and ends with a result once `finish` is sent. It is cancelled if `finish` is dropped.
async fn start(runs: &Arc<KeptRuns>, run: OperationRun, events: usize) -> (RunListener, oneshot::Sender<usize>) {
    let (finish, finished) = oneshot::channel();
    let execute = |sender: mpsc::Sender<Event>| async move {
        for _ in 0..events {
            sender.send(Event::Progress(Progress::default())).await.unwrap();
        }
        finished.await.map(result).map_err(|_| Status::internal("it was not finished"))
    };
    (runs.start(run, "ann", execute).await.unwrap(), finish)
}

/// Reads to the end. Returns the number of events before the result.
async fn read(listener: &mut RunListener) -> Result<usize, Status> {
    for events in 0.. {
        if let Event::Result(_) = listener.next().await? {
            return Ok(events);
        }
    }
    unreachable!()
}

async fn wait_forgotten(runs: &KeptRuns, id: &str) {
    let forgotten = async {
        while runs.get(id).is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, forgotten).await.unwrap();
}

#[tokio::test]
async fn a_run_continues_without_its_stream_and_the_next_gateway_gets_the_rest() {
    let runs = KeptRuns::with_keep(1, LONG);
    let (mut first, finish) = start(&runs, operation("a", 1), 3).await;
    assert!(matches!(first.next().await, Ok(Event::Progress(_))));
    drop(first);
    let mut second = resume(&runs, "a", 2).unwrap();
    finish.send(1).unwrap();
    assert_eq!(read(&mut second).await.unwrap(), 2);
    // A gateway that is lost before it has stored the result.
    drop(second);
    assert_eq!(read(&mut resume(&runs, "a", 3).unwrap()).await.unwrap(), 0);
}

#[tokio::test]
async fn an_older_gateway_loses_the_run_and_can_not_cancel_it() {
    let runs = KeptRuns::with_keep(1, LONG);
    let (mut first, finish) = start(&runs, operation("a", 1), 0).await;
    let stranger = ResumeRunRequest { operation_id: "a".to_owned(), epoch: 9, principal: "bob".to_owned() };
    assert!(runs.resume(&stranger, |_| true).is_none());
    let mut second = resume(&runs, "a", 2).unwrap();
    assert_eq!(read(&mut first).await.unwrap_err().code(), tonic::Code::Aborted);
    assert!(resume(&runs, "a", 1).is_none());
    cancel(&runs, "a", 1);
    drop(first);
    finish.send(1).unwrap();
    assert_eq!(read(&mut second).await.unwrap(), 0);
    let (_third, mut finish) = start(&runs, operation("a", 3), 0).await;
    cancel(&runs, "a", 3);
    tokio::time::timeout(LONG, finish.closed()).await.unwrap();
    assert!(resume(&runs, "a", 4).is_none());
}

#[tokio::test]
async fn what_nobody_asks_for_is_cancelled_or_forgotten() {
    let runs = KeptRuns::with_keep(2, SHORT);
    let (listener, mut finish) = start(&runs, operation("runs", 1), 0).await;
    tokio::time::sleep(3 * SHORT).await;
    assert!(!finish.is_closed(), "somebody listens");
    drop(listener);
    tokio::time::timeout(LONG, finish.closed()).await.unwrap();
    wait_forgotten(&runs, "runs").await;
    let (_listener, finish) = start(&runs, operation("ends", 1), 0).await;
    finish.send(1).unwrap();
    wait_forgotten(&runs, "ends").await;
    let runs = KeptRuns::with_keep(2, LONG);
    let (listener, mut finish) = start(&runs, operation("drained", 1), 0).await;
    runs.close();
    drop(listener);
    tokio::time::timeout(LONG, finish.closed()).await.unwrap();
}

#[tokio::test]
async fn a_later_run_starts_when_nothing_of_the_earlier_one_is_left() {
    let runs = KeptRuns::with_keep(1, LONG);
    let (mut first, mut finish) = start(&runs, operation("a", 1), 0).await;
    let process = runs.part(&operation("a", 1));
    let refused = async |run: OperationRun| {
        let execute = |_| std::future::ready(Err(Status::internal("it was started")));
        runs.start(run, "ann", execute).await.unwrap_err()
    };
    assert_eq!(refused(operation("a", 1)).await, KeptRunError::Superseded);
    assert_eq!(refused(operation("b", 1)).await, KeptRunError::Full);
    let starting = Arc::clone(&runs);
    let starting = tokio::spawn(async move { start(&starting, operation("a", 2), 0).await });
    tokio::time::timeout(LONG, finish.closed()).await.unwrap();
    assert_eq!(read(&mut first).await.unwrap_err().code(), tonic::Code::Aborted);
    tokio::time::sleep(SHORT).await;
    assert!(!starting.is_finished(), "a process is left");
    drop(process);
    let (mut second, finish) = tokio::time::timeout(LONG, starting).await.unwrap().unwrap();
    assert_eq!(refused(operation("a", 1)).await, KeptRunError::Superseded);
    finish.send(1).unwrap();
    assert_eq!(read(&mut second).await.unwrap(), 0);
    // The gateway that saw it end may run it again.
    let (_third, _finish) = start(&runs, operation("a", 2), 0).await;
}

#[tokio::test]
async fn old_events_and_old_results_make_room() {
    let runs = KeptRuns::with_keep(1, LONG);
    let (listener, finish) = start(&runs, operation("talks", 1), MAX_EVENTS + 50).await;
    drop(listener);
    finish.send(1).unwrap();
    let run = runs.get("talks").unwrap();
    while run.result_value().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(read(&mut resume(&runs, "talks", 1).unwrap()).await.unwrap(), MAX_EVENTS);
    for id in ["one", "two"] {
        let (mut listener, finish) = start(&runs, operation(id, 1), 0).await;
        finish.send(MAX_RESULT_BYTES / 2 + 1).unwrap();
        assert_eq!(read(&mut listener).await.unwrap(), 0);
    }
    wait_forgotten(&runs, "one").await;
    assert!(resume(&runs, "two", 1).is_some());
}

#[tokio::test]
async fn a_question_that_is_open_is_asked_again_when_a_run_is_taken_over() {
    let runs = KeptRuns::with_keep(1, LONG);
    let execute = |sender: mpsc::Sender<Event>| async move {
        for request_id in ["answered", "open"].map(str::to_owned) {
            sender.send(Event::InputRequired(InputRequired { request_id, ..InputRequired::default() })).await.unwrap();
        }
        std::future::pending().await
    };
    let mut first = runs.start(operation("asks", 1), "ann", execute).await.unwrap();
    assert!(first.next().await.is_ok() && first.next().await.is_ok());
    let mut second = resume(&runs, "asks", 2).unwrap();
    let Event::InputRequired(question) = second.next().await.unwrap() else { panic!("no question") };
    assert_eq!(question.request_id, "open");
}
