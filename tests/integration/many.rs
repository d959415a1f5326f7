//! `InvokeMany`: parallel calls over one stream.

use std::collections::HashMap;

use openskill_proto::v1::{InvokeRequest, SkillResult, invoke_event::Event};
use openskill_tests::system::{Setup, System, code, data, request};
use serde_json::json;

/// Sends all calls over one stream and returns the results by call id. Each comes once, after its `accepted`.
async fn run(system: &System, calls: Vec<InvokeRequest>) -> HashMap<String, SkillResult> {
    let mut events = system.skills().await.invoke_many(tokio_stream::iter(calls)).await.unwrap().into_inner();
    let (mut accepted, mut results) = (HashMap::new(), HashMap::new());
    while let Some(event) = events.message().await.unwrap() {
        match event.event.unwrap() {
            Event::Accepted(_) => assert!(accepted.insert(event.call_id.clone(), ()).is_none(), "accepted twice"),
            Event::Result(result) => {
                assert!(accepted.contains_key(&event.call_id), "a result before its accepted");
                assert!(results.insert(event.call_id.clone(), result).is_none(), "{} came twice", event.call_id);
            }
            _ => {}
        }
    }
    results
}

#[tokio::test]
async fn a_thousand_parallel_calls_return_once_each_with_their_own_id() {
    let system = Setup::shipped().start().await;
    let call = |number: usize| InvokeRequest {
        call_id: format!("call-{number}"),
        ..request("echo", json!({ "text": format!("text {number}") }))
    };
    let results = run(&system, (0..1000).map(call).collect()).await;
    assert_eq!(results.len(), 1000);
    let mut workers: HashMap<String, usize> = HashMap::new();
    for number in 0..1000 {
        let result = &results[&format!("call-{number}")];
        assert!(result.success, "{result:?}");
        assert_eq!(data(result), json!({ "echoed": format!("text {number}") }));
        *workers.entry(result.meta.clone().unwrap().worker_id).or_default() += 1;
    }
    assert_eq!(workers.len(), 2, "{workers:?}");
    assert!(workers.values().all(|count| *count >= 200), "{workers:?}");
}

#[tokio::test]
async fn results_arrive_as_they_finish_and_a_failure_affects_no_other_call() {
    let system = Setup::up().start().await;
    let call = |id: &str, request: InvokeRequest| InvokeRequest { call_id: id.to_owned(), ..request };
    let calls = vec![
        call("slow", request("in_wait", json!({"ms": 300}))),
        call("unknown", request("no_such_skill", json!({}))),
        call("bad", InvokeRequest { skill_id: "x".repeat(10), session_id: "x".repeat(200), ..Default::default() }),
        call("failing", request("in_fail", json!({"code": "NOT_FOUND", "message": "no"}))),
        call("quick", request("in_echo", json!({"n": 1}))),
    ];
    let mut events = system.skills().await.invoke_many(tokio_stream::iter(calls)).await.unwrap().into_inner();
    let mut order = Vec::new();
    while let Some(event) = events.message().await.unwrap() {
        if let Some(Event::Result(result)) = event.event {
            order.push((event.call_id, code(&result)));
        }
    }
    assert_eq!(order.last().unwrap(), &("slow".to_owned(), ""));
    order.sort();
    let expected =
        [("bad", "INVALID_ARGUMENT"), ("failing", "NOT_FOUND"), ("quick", ""), ("slow", ""), ("unknown", "NOT_FOUND")];
    assert_eq!(order, expected.map(|(id, code)| (id.to_owned(), code)));
}

#[tokio::test]
async fn an_overloaded_gateway_sheds_load_with_a_retry_hint_and_a_stream_gets_backpressure() {
    let system = Setup::up().with("OPENSKILL_MAX_IN_FLIGHT", 1).start().await;
    let call = |id: &str| InvokeRequest { call_id: id.to_owned(), ..request("in_wait", json!({"ms": 400})) };
    let results = run(&system, vec![call("first"), call("second")]).await;
    assert!(results.len() == 2 && results.values().all(|result| result.success), "{results:?}");

    let mut client = system.skills().await;
    let mut events = client.invoke_stream(call("third")).await.unwrap().into_inner();
    assert!(matches!(events.message().await.unwrap().unwrap().event, Some(Event::Accepted(_))));
    let status = system.skills().await.invoke(call("fourth")).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    let answer = system.call("in_echo", json!({})).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "OVERLOADED"));
    assert_eq!(answer.header("retry-after"), "1");
}
