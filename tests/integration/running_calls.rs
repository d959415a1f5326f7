//! Calls that run: who sees them, and who can end them.

use http::Method;
use openskill_proto::v1::{
    CallState, CancelCallRequest, GetTraceRequest, InvokeRequest, ListCallsRequest, RunningCall, SkillResult,
    invoke_event::Event,
};
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{PATIENCE, Setup, System, code, request};
use openskill_tests::wait::until;
use openskill_tests::{binary, processes};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tonic::{Code, Request};

use crate::identity::{Keys, from, get};
use crate::input_required::interactive;

/// A call that runs for longer than the test.
fn nap(call_id: &str) -> InvokeRequest {
    InvokeRequest { call_id: call_id.to_owned(), timeout_ms: 60_000, ..request("naps", json!({"seconds": 50})) }
}

/// Calls a skill in the background.
async fn start(system: &System, call: Request<InvokeRequest>) -> JoinHandle<SkillResult> {
    let mut client = system.skills().await;
    tokio::spawn(async move { client.invoke(call).await.unwrap().into_inner() })
}

async fn list(system: &System, request: ListCallsRequest) -> Vec<RunningCall> {
    system.traces().await.list_calls(request).await.unwrap().into_inner().calls
}

/// The running call with this id, once it does this.
async fn running(system: &System, call_id: &str, state: CallState) -> RunningCall {
    until(&format!("{call_id} is {state:?}"), PATIENCE, || async {
        let calls = list(system, ListCallsRequest::default()).await;
        calls.into_iter().find(|it| it.call_id == call_id && it.state() == state)
    })
    .await
}

fn cancel(call_id: &str) -> CancelCallRequest {
    CancelCallRequest { call_id: call_id.to_owned(), ..CancelCallRequest::default() }
}

async fn delete(system: &System, path: &str) -> Answer {
    rest::send(system.address, Method::DELETE, path, &[], "").await
}

async fn command(system: &System, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(binary());
    let ran = command.args(arguments).args(["--url", &system.url()]).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
}

#[tokio::test]
async fn a_call_is_listed_while_it_runs_and_cancelling_it_ends_its_processes() {
    let system = Setup::up().start().await;
    let mut call = Request::new(nap("seen-1"));
    call.metadata_mut().insert("x-trace-id", "seen".parse().unwrap());
    let called = start(&system, call).await;
    let seen = running(&system, "seen-1", CallState::Running).await;
    let worker_id = system.workers().await.into_iter().find(|it| it.in_flight == 1).unwrap().worker_id;
    let (received_us, elapsed_us) = (seen.received_us, seen.elapsed_us);
    assert!(received_us > 0 && elapsed_us > 0, "{seen:?}");
    let expected = RunningCall {
        call_id: "seen-1".to_owned(),
        trace_id: "seen".to_owned(),
        skill_id: "naps".to_owned(),
        protocol: "grpc".to_owned(),
        attempts: 1,
        state: CallState::Running.into(),
        principal: String::new(),
        worker_id,
        received_us,
        elapsed_us,
    };
    assert_eq!(seen, expected);
    let skill = |id: &str| ListCallsRequest { skill_id: id.to_owned(), ..ListCallsRequest::default() };
    assert_eq!((list(&system, skill("naps")).await.len(), list(&system, skill("echo")).await.len()), (1, 0));
    until("the skill runs", PATIENCE, || async { processes::of_call("seen-1").first().copied() }).await;

    let mut traces = system.traces().await;
    let cancelled = traces.cancel_call(cancel("seen-1")).await.unwrap().into_inner();
    assert_eq!((cancelled.calls.len(), cancelled.calls[0].trace_id.as_str()), (1, "seen"));
    assert!(!cancelled.gateway.is_empty());
    let result = called.await.unwrap();
    let error = result.error.as_ref().unwrap();
    assert_eq!((code(&result), error.may_have_run, result.meta.as_ref().unwrap().attempts), ("CANCELLED", true, 1));
    processes::gone("seen-1", PATIENCE).await;

    // It has ended, and its trace is found by the same id.
    let ended = traces.cancel_call(cancel("seen-1")).await.unwrap_err();
    assert!(ended.code() == Code::NotFound && ended.message().contains("openskill trace"), "{ended:?}");
    assert!(list(&system, ListCallsRequest::default()).await.is_empty());
    let events = until("it is recorded", PATIENCE, || async {
        let trace = system.traces().await.get_trace(GetTraceRequest { id: "seen-1".to_owned() }).await;
        trace.ok().map(|it| it.into_inner().events_json)
    })
    .await;
    let end: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!((&end["event"], &end["code"]), (&json!("result"), &json!("CANCELLED")), "{end}");
}

#[tokio::test]
async fn a_call_that_asks_is_listed_and_cancelled_over_rest() {
    let system = Setup::up().start().await;
    let call = InvokeRequest { call_id: "asks/1".to_owned(), ..interactive("in_ask", json!({"message": "?"})) };
    let mut events = system.skills().await.invoke_stream(call).await.unwrap().into_inner();
    running(&system, "asks/1", CallState::Asking).await;
    let page = system.get("/calls?skill=in_ask&limit=1").await.json();
    let seen = &page["calls"][0];
    assert_eq!((&seen["call_id"], &seen["state"], &seen["attempts"]), (&json!("asks/1"), &json!("asking"), &json!(1)));
    let cancelled = delete(&system, "/calls/asks%2F1").await;
    assert_eq!((cancelled.status, &cancelled.json()["calls"][0]["call_id"]), (200, &json!("asks/1")));
    let result = loop {
        if let Some(Event::Result(result)) = events.message().await.unwrap().unwrap().event {
            break result;
        }
    };
    assert_eq!(code(&result), "CANCELLED");
    let ended = delete(&system, "/calls/asks%2F1").await;
    assert_eq!((ended.status, ended.code().as_str()), (404, "NOT_FOUND"));
}

#[tokio::test]
async fn a_principal_sees_and_cancels_only_its_own_calls_and_an_administrator_all() {
    let keys = Keys::new();
    let (ada, ben, root) = (
        keys.create("ada", &["--skills", "naps"]),
        keys.create("ben", &["--skills", "naps"]),
        keys.create("root", &["--admin"]),
    );
    let system = keys.up().start().await;
    let (of_ada, of_ben) =
        (start(&system, from(&ada, nap("same"))).await, start(&system, from(&ben, nap("same"))).await);
    let mut traces = system.traces().await;
    until("both run", PATIENCE, || async {
        let all = system.traces().await.list_calls(from(&root, ListCallsRequest::default())).await.unwrap();
        (all.into_inner().calls.len() == 2).then_some(())
    })
    .await;
    let own = traces.list_calls(from(&ben, ListCallsRequest::default())).await.unwrap().into_inner().calls;
    assert_eq!(own.iter().map(|it| it.principal.as_str()).collect::<Vec<_>>(), ["ben"]);
    assert_eq!(get(&system, &ben, "/calls?principal=ada").await.json()["calls"], json!([]));

    let named = |principal: &str| CancelCallRequest { principal: Some(principal.to_owned()), ..cancel("same") };
    let refused = traces.cancel_call(from(&ben, named("ada"))).await.unwrap_err();
    let unknown = traces.cancel_call(from(&ben, cancel("other"))).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::NotFound, unknown.message()));
    let ambiguous = traces.cancel_call(from(&root, cancel("same"))).await.unwrap_err();
    assert_eq!(ambiguous.code(), Code::FailedPrecondition);
    let anonymous = traces.cancel_call(from(&root, named(""))).await.unwrap_err();
    assert_eq!(anonymous.code(), Code::NotFound);
    traces.cancel_call(from(&ben, cancel("same"))).await.unwrap();
    assert_eq!(code(&of_ben.await.unwrap()), "CANCELLED");
    assert!(!of_ada.is_finished());
    traces.cancel_call(from(&root, named("ada"))).await.unwrap();
    assert_eq!(code(&of_ada.await.unwrap()), "CANCELLED");
}

#[tokio::test]
async fn a_call_with_an_idempotency_key_ends_only_by_its_own_id() {
    let system = Setup::up().start().await;
    let keyed = |id: &str| Request::new(InvokeRequest { idempotency_key: "key".to_owned(), ..nap(id) });
    let first = start(&system, keyed("keyed-1")).await;
    running(&system, "keyed-1", CallState::Running).await;
    let second = start(&system, keyed("keyed-2")).await;
    running(&system, "keyed-2", CallState::Waiting).await;
    let mut traces = system.traces().await;
    traces.cancel_call(cancel("keyed-2")).await.unwrap();
    let waited = second.await.unwrap();
    assert_eq!((code(&waited), waited.error.unwrap().may_have_run), ("CANCELLED", true));
    running(&system, "keyed-1", CallState::Running).await;
    traces.cancel_call(cancel("keyed-1")).await.unwrap();
    assert_eq!(code(&first.await.unwrap()), "CANCELLED");
    processes::gone("keyed-1", PATIENCE).await;
}

#[tokio::test]
async fn the_command_line_lists_and_cancels_by_the_beginning_of_an_id_that_the_gateway_made() {
    let system = Setup::up().start().await;
    let calls = [start(&system, Request::new(nap(""))).await, start(&system, Request::new(nap(""))).await];
    let ids = until("both run", PATIENCE, || async {
        let calls = list(&system, ListCallsRequest::default()).await;
        let running = calls.into_iter().filter(|it| it.state() == CallState::Running);
        let ids: Vec<_> = running.map(|it| it.call_id).collect();
        (ids.len() == 2).then_some(ids)
    })
    .await;
    let (status, table, _) = command(&system, &["ps"]).await;
    assert!(status == 0 && table.starts_with(&format!("{:<23}SKILL  STATE ", "CALL")), "{table}");
    assert!(table.lines().skip(1).all(|it| it.starts_with("call-") && it.contains("  running  ")), "{table}");
    let (_, traces, _) = command(&system, &["traces"]).await;
    assert!(traces.lines().nth(1).unwrap().contains("  naps   running  "), "{traces}");
    let (_, json, _) = command(&system, &["ps", "--skill", "naps", "-o", "json"]).await;
    assert_eq!(serde_json::from_str::<Vec<Value>>(&json).unwrap().len(), 2);

    let (status, _, error) = command(&system, &["cancel", "call-"]).await;
    assert!(status == 2 && ids.iter().all(|it| error.contains(it)), "{error}");
    let unique = ids[0].bytes().zip(ids[1].bytes()).position(|(one, other)| one != other).unwrap();
    let expected = (0, format!("cancelled {} (naps)\n", ids[0]), String::new());
    assert_eq!(command(&system, &["cancel", &ids[0][..=unique]]).await, expected);
    assert_eq!(command(&system, &["cancel", &ids[1]]).await.0, 0);
    for called in calls {
        assert_eq!(code(&called.await.unwrap()), "CANCELLED");
    }
    let (status, _, error) = command(&system, &["cancel", &ids[1]]).await;
    assert!(status == 1 && error.contains("openskill trace"), "{error}");

    // The id of a call that has ended cancels no other that begins with it.
    let called = start(&system, Request::new(nap("job-12"))).await;
    running(&system, "job-12", CallState::Running).await;
    assert_eq!(command(&system, &["cancel", "job-1"]).await.0, 1);
    assert_eq!(command(&system, &["cancel", "job-12"]).await.0, 0);
    assert_eq!(code(&called.await.unwrap()), "CANCELLED");
}
