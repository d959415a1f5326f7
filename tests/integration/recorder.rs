//! What the recorder keeps of calls, and how people find it.

use std::path::Path;

use http::Method;
use openskill_proto::v1::{
    FollowTracesRequest, GetTraceRequest, InvokeRequest, ListTracesRequest, TraceFilter, TraceSummary,
};
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::processes;
use openskill_tests::rest;
use openskill_tests::system::{PATIENCE, Setup, System, code, request};
use openskill_tests::wait::until;
use rustix::process::Signal;
use serde_json::{Value, json};
use tonic::Request;

mod commands;
mod disk;
mod secrets;

/// Calls a skill with a trace id.
async fn call(system: &System, trace: &str, call: InvokeRequest) -> openskill_proto::v1::SkillResult {
    let mut request = Request::new(call);
    request.metadata_mut().insert("x-trace-id", trace.parse().unwrap());
    system.skills().await.invoke(request).await.unwrap().into_inner()
}

/// The events of a trace, once its call is recorded.
async fn events(system: &System, id: &str) -> Vec<Value> {
    lines(system, id).await.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn lines(system: &System, id: &str) -> Vec<String> {
    until(&format!("{id} is recorded"), PATIENCE, || async {
        let trace = system.traces().await.get_trace(GetTraceRequest { id: id.to_owned() }).await;
        trace.ok().map(|it| it.into_inner().events_json)
    })
    .await
}

async fn list(system: &System, filter: TraceFilter) -> Vec<TraceSummary> {
    let request = ListTracesRequest { filter: Some(filter), ..ListTracesRequest::default() };
    system.traces().await.list_traces(request).await.unwrap().into_inner().calls
}

fn traces(calls: &[TraceSummary]) -> Vec<&str> {
    calls.iter().map(|it| it.trace_id.as_str()).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|it| it["event"].as_str().unwrap()).collect()
}

/// All lines of all files with recorded calls.
fn files(folder: &Path) -> String {
    let mut files: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()).collect();
    files.retain(|it| it.extension().is_some_and(|it| it == "jsonl"));
    files.sort();
    files.iter().map(|it| std::fs::read_to_string(it).unwrap_or_default()).collect()
}

#[tokio::test]
async fn a_call_with_repairs_and_a_retry_is_seen_whole() {
    let mark = Folder::new();
    let system = Setup::up().start().await;
    let file = mark.path().join("data/mark");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    // Valid Python, and no JSON.
    let input = "{'seconds': 0.4, 'note': None,}".to_owned();
    let mut given = request("naps_idempotent", json!({}));
    given.arguments = Some(openskill_proto::v1::invoke_request::Arguments::InputJson(input.clone()));
    given.session_id = "session-1".to_owned();
    let running = call(&system, "whole-1", given);
    let killing = async {
        let busy = until("a worker has the call", PATIENCE, || async {
            system.workers().await.into_iter().find(|it| it.in_flight == 1)
        })
        .await;
        let number: usize = busy.worker_id.strip_prefix("worker-").unwrap().parse().unwrap();
        let pid = processes::children(system.process.pid(), &format!("--id worker-{number} "))[0];
        processes::send(pid, Signal::KILL);
    };
    let (result, ()) = tokio::join!(running, killing);
    assert!(result.success, "{result:?}");
    let meta = result.meta.unwrap();
    assert_eq!(meta.attempts, 2);

    let events = events(&system, "whole-1").await;
    assert_eq!(names(&events), ["call", "prepared", "attempt", "retry", "attempt", "result"], "{events:?}");
    let [call, prepared, first, retry, second, end] = &events[..] else { unreachable!() };
    assert_eq!(
        (&call["skill"], &call["principal"], &call["arguments_text"]),
        (&json!("naps_idempotent"), &json!(""), &json!(input))
    );
    assert!(call["session"].as_str().unwrap().starts_with("session_"), "{call}");
    assert_eq!(prepared["arguments"], json!({"seconds": 0.4, "note": null}));
    assert_eq!(prepared["repairs"][0]["kind"], "syntax");
    assert_eq!(
        (&first["number"], &first["code"], &first["may_have_run"]),
        (&json!(1), &json!("UNAVAILABLE"), &json!(true))
    );
    assert_eq!((&retry["after"], &retry["elsewhere"]), (&json!(1), &json!(true)));
    assert_eq!(
        (&second["number"], &second["code"], &second["worker_id"]),
        (&json!(2), &json!("OK"), &json!(meta.worker_id))
    );
    assert_eq!((&end["code"], &end["attempts"], &end["data"]), (&json!("OK"), &json!(2), &json!({"slept": 0.4})));
    for (number, event) in events.iter().enumerate() {
        assert_eq!((&event["v"], &event["n"], &event["trace"]), (&json!(1), &json!(number), &json!("whole-1")));
    }
    let times: Vec<u64> = events.iter().map(|it| it["at_us"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let ran = second["took_us"].as_u64().unwrap();
    assert!(ran >= 400_000 && times[4] + ran <= times[5], "{events:?}");
}

#[tokio::test]
async fn what_a_skill_relays_and_how_a_call_fails_is_recorded() {
    let system = Setup::up().start().await;
    let mut given = Request::new(request("reports_progress", json!({})));
    given.metadata_mut().insert("x-trace-id", "relayed-1".parse().unwrap());
    let mut stream = system.skills().await.invoke_stream(given).await.unwrap().into_inner();
    while stream.message().await.unwrap().is_some() {}
    let events = events(&system, "relayed-1").await;
    assert_eq!(names(&events), ["call", "prepared", "attempt", "progress", "log", "partial", "result"], "{events:?}");
    assert_eq!((&events[3]["fraction"], &events[3]["message"]), (&json!(0.5), &json!("half")));
    assert_eq!((&events[4]["level"], &events[4]["message"]), (&json!("warning"), &json!("careful")));
    assert_eq!(events[5]["data"], json!({"first": 1}));
    assert_eq!((&events[6]["data"], &events[6]["text"]), (&json!({"first": 1, "second": 2}), &json!("all there")));

    assert_eq!(
        code(&call(&system, "rejected-1", request("typed", json!({"max_steps": "many"}))).await),
        "INVALID_ARGUMENT"
    );
    let events = self::events(&system, "rejected-1").await;
    assert_eq!(names(&events), ["call", "rejected", "result"]);
    assert_eq!(events[0]["arguments"], json!({"max_steps": "many"}));
    let error = &events[2]["error"];
    assert_eq!((&events[2]["code"], &error["blame"]), (&json!("INVALID_ARGUMENT"), &json!("caller")));
    assert!(error["details"]["violations"].is_array(), "{error}");
}

#[tokio::test]
async fn calls_are_found_by_each_filter_and_page_by_page() {
    let system = Setup::up().start().await;
    let started = openskill_proto::timestamp::Timestamp::now().0;
    call(&system, "one", InvokeRequest { session_id: "s-1".to_owned(), ..request("in_echo", json!({})) }).await;
    call(&system, "two", request("in_fail", json!({}))).await;
    call(&system, "three", request("in_wait", json!({"ms": 300}))).await;
    call(&system, "four", InvokeRequest { call_id: "my-call".to_owned(), ..request("in_echo", json!({})) }).await;
    events(&system, "four").await;
    let base = TraceFilter::default;
    let all = list(&system, base()).await;
    assert_eq!(traces(&all), ["four", "three", "two", "one"]);
    for (filter, expected) in [
        (TraceFilter { skill_id: "in_echo".to_owned(), ..base() }, &["four", "one"][..]),
        (TraceFilter { code: all[2].code.clone(), ..base() }, &["two"]),
        (TraceFilter { code: "OK".to_owned(), ..base() }, &["four", "three", "one"]),
        (TraceFilter { session_id: "s-1".to_owned(), ..base() }, &["one"]),
        (TraceFilter { session_id: all[3].session_id.clone(), ..base() }, &["one"]),
        (TraceFilter { session_id: "s-2".to_owned(), ..base() }, &[]),
        (TraceFilter { principal: "nobody".to_owned(), ..base() }, &[]),
        (TraceFilter { min_duration_us: 300_000, ..base() }, &["three"]),
        (TraceFilter { since_us: all[1].received_us, ..base() }, &["four", "three"]),
        (TraceFilter { until_us: started, ..base() }, &[]),
    ] {
        assert_eq!(traces(&list(&system, filter.clone()).await), expected, "{filter:?}");
    }
    let page = system.get("/traces?skill=in_echo&limit=1").await.json();
    assert_eq!((&page["calls"][0]["trace_id"], page["calls"].as_array().unwrap().len()), (&json!("four"), 1));
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = system.get(&format!("/traces?skill=in_echo&limit=1&cursor={cursor}")).await.json();
    assert_eq!((&next["calls"][0]["trace_id"], &next["next_cursor"]), (&json!("one"), &Value::Null));
    assert_eq!(system.get("/traces?cursor=00000000-1").await.code(), "INVALID_ARGUMENT");
    assert_eq!(system.get("/traces?nonsense=1").await.status, 400);
    assert_eq!(system.get("/traces/no-such-id").await.status, 404);
    assert_eq!(page["gateway"], system.get("/traces/one").await.json()["gateway"]);

    // The id that was sent finds the call, and so does the one that is shown.
    assert_ne!(all[0].call_id, "my-call");
    for id in ["my-call", &all[0].call_id] {
        assert_eq!(events(&system, id).await[0]["trace"], "four");
    }
}

#[tokio::test]
async fn followers_hear_of_calls_as_they_end() {
    let system = Setup::up().start().await;
    let filter = Some(TraceFilter { skill_id: "in_fail".to_owned(), ..TraceFilter::default() });
    let mut client = system.traces().await;
    let mut calls = client.follow_traces(FollowTracesRequest { filter }).await.unwrap().into_inner();
    call(&system, "not-this", request("in_echo", json!({}))).await;
    call(&system, "this", request("in_fail", json!({}))).await;
    let told = tokio::time::timeout(PATIENCE, calls.message()).await.expect("it is told").unwrap().unwrap();
    assert_eq!((told.call.unwrap().trace_id.as_str(), told.missed), ("this", 0));
    system.process.terminate();
    let end = tokio::time::timeout(PATIENCE, calls.message()).await.expect("it ends with the gateway");
    assert!(matches!(end, Ok(None) | Err(_)), "{end:?}");
}

#[tokio::test]
async fn a_gateway_with_an_admin_listener_shows_calls_only_there() {
    let admin = Port::reserve();
    let system = Setup::up().flag("--admin-listen", admin.address()).start().await;
    call(&system, "hidden", request("in_echo", json!({}))).await;
    for path in ["/traces", "/traces/hidden"] {
        assert_eq!(system.get(path).await.status, 404, "{path}");
    }
    let refused = system.traces().await.list_traces(ListTracesRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unimplemented);
    until("the operator sees it", PATIENCE, || async {
        let page = rest::send(admin.address(), Method::GET, "/traces", &[], "").await.json();
        (page["calls"][0]["trace_id"] == "hidden").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_recorder_that_is_off_says_so_and_keeps_nothing() {
    let folder = Folder::new();
    let system = Setup::up().with("OPENSKILL_TRACE_DIR", "off").with("HOME", folder.path().display());
    let system = system.with("OPENSKILL_AGENT_STORE", "memory").with("OPENSKILL_STORE", "memory");
    let system = system.start().await;
    call(&system, "gone", request("in_echo", json!({}))).await;
    let answer = system.get("/traces").await;
    assert_eq!(answer.status, 404);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("OPENSKILL_TRACE_DIR"));
    let status = system.traces().await.list_traces(ListTracesRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn large_arguments_and_results_are_cut_and_say_so() {
    let system = Setup::up().start().await;
    let text = "x".repeat(100_000);
    call(&system, "large", request("in_echo", json!({ "text": text }))).await;
    let events = events(&system, "large").await;
    let (call, end) = (&events[0], &events[events.len() - 1]);
    for (event, key) in [(call, "arguments"), (end, "data")] {
        assert_eq!(event["cut"], true, "{key}");
        assert!(event.get(key).is_none());
        assert_eq!(event[format!("{key}_text")].as_str().unwrap().len(), 16 * 1024);
        assert!(event[format!("{key}_bytes")].as_u64().unwrap() > 100_000);
    }
}

/// Callers are not told apart: on an open network each would read what the others sent.
#[tokio::test]
async fn an_address_that_other_machines_reach_serves_no_traces() {
    let folder = Folder::new();
    folder.write("skills/echo.yaml", "id: echo\ntype: inproc\nentry: echo\n");
    let up = Setup::command(&["up", "--listen", "0.0.0.0:0", "--workers", "1"]);
    let up = up.flag("--skills-dir", folder.path().join("skills").display());
    let system = up.with("OPENSKILL_ANONYMOUS", "allow").start().await;
    for path in ["/traces", "/traces/any"] {
        let answer = system.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "PERMISSION_DENIED"), "{path}");
    }
    let status = system.traces().await.list_traces(ListTracesRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::PermissionDenied);
    assert!(status.message().contains("OPENSKILL_ADMIN_LISTEN"), "{status}");
}
