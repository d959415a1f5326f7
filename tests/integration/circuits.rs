//! Circuit breakers open for a skill that keeps failing, for a session or for all callers.

use std::time::Duration;

use openskill_proto::v1::{
    ChangeKind, Circuit, CircuitState, ExportToolsRequest, ExportToolsResponse, InvokeRequest, ListCircuitsRequest,
    ResetCircuitsRequest, SkillResult, WatchSkillsRequest,
};
use openskill_tests::system::{PATIENCE, Setup, System, code, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};

async fn call(system: &System, session: &str, skill: &str, input: Value) -> SkillResult {
    system.invoke(InvokeRequest { session_id: session.to_owned(), ..request(skill, input) }).await
}

async fn fail(system: &System, session: &str, times: usize) {
    for _ in 0..times {
        let result = call(system, session, "moody", json!({"fail": true})).await;
        assert_eq!(code(&result), "EXECUTION_ERROR", "{result:?}");
    }
}

async fn tools(system: &System, session: &str) -> ExportToolsResponse {
    let request = ExportToolsRequest { session_id: session.to_owned(), ..ExportToolsRequest::default() };
    system.skills().await.export_tools(request).await.unwrap().into_inner()
}

async fn list(system: &System) -> Vec<Circuit> {
    let request = ListCircuitsRequest::default();
    system.admin().await.list_circuits(request).await.unwrap().into_inner().circuits
}

#[tokio::test]
async fn three_consecutive_failures_open_the_circuit_of_that_session_only() {
    let system = Setup::up().start().await;
    fail(&system, "one", 2).await;
    assert!(call(&system, "one", "moody", json!({})).await.success, "a success in between");
    fail(&system, "one", 3).await;
    let refused = call(&system, "one", "moody", json!({})).await;
    assert_eq!(code(&refused), "CIRCUIT_OPEN");
    let error = refused.error.unwrap();
    assert!(error.retryable && (290_000..=300_000).contains(&error.retry_after_ms), "{error:?}");
    assert_eq!(refused.meta.unwrap().attempts, 0);
    assert!(call(&system, "two", "moody", json!({})).await.success);
    assert!(call(&system, "", "moody", json!({})).await.success);
    assert!(call(&system, "one", "in_echo", json!({})).await.success);
}

#[tokio::test]
async fn an_open_circuit_hides_the_tool_from_its_session_and_tells_when_to_retry() {
    let system = Setup::up().start().await;
    fail(&system, "one", 3).await;
    let exported = tools(&system, "one").await;
    assert!(!exported.skill_ids.contains_key("moody"));
    let disabled = exported.disabled.iter().find(|it| it.skill_id == "moody").unwrap();
    assert!((290_000..=300_000).contains(&disabled.retry_after_ms) && disabled.reason.contains("in this session"));
    assert!(tools(&system, "two").await.skill_ids.contains_key("moody"));
    let rest = system.get("/tools?session_id=one").await.json();
    assert!(rest["skill_ids"].get("moody").is_none(), "{rest}");
    // Listing tools does not change the state.
    let circuit = list(&system).await.remove(0);
    assert_eq!((circuit.state(), circuit.failures), (CircuitState::Open, 3), "the failures that opened it");
}

#[tokio::test]
async fn failures_that_are_not_the_skills_fault_never_open_a_circuit() {
    let system = Setup::up().start().await;
    for _ in 0..4 {
        let result = call(&system, "one", "in_fail", json!({"code": "NOT_FOUND"})).await;
        assert_eq!(code(&result), "NOT_FOUND");
        let result = call(&system, "one", "typed", json!({"nonsense": 1})).await;
        assert_eq!(code(&result), "INVALID_ARGUMENT");
        // The caller's deadline is shorter than the skill's timeout.
        let hasty =
            InvokeRequest { session_id: "one".to_owned(), timeout_ms: 50, ..request("in_wait", json!({"ms": 5000})) };
        assert_eq!(code(&system.invoke(hasty).await), "TIMEOUT");
    }
    let mut client = system.skills().await;
    for _ in 0..4 {
        let call = InvokeRequest { session_id: "one".to_owned(), ..request("in_wait", json!({"ms": 5000})) };
        let cancelled = tokio::time::timeout(Duration::from_millis(100), client.invoke(call)).await;
        assert!(cancelled.is_err());
    }
    assert_eq!(list(&system).await, []);
}

#[tokio::test]
async fn after_the_recovery_timeout_one_half_open_probe_decides() {
    let system = Setup::up().start().await;
    let touchy = async |fails: bool| {
        let input = if fails { json!({"code": "EXECUTION_ERROR"}) } else { json!({"code": "NOT_FOUND"}) };
        call(&system, "one", "touchy", input).await
    };
    assert_eq!(code(&touchy(true).await), "EXECUTION_ERROR");
    assert_eq!(code(&touchy(true).await), "CIRCUIT_OPEN");
    let probe = async || {
        until("a half-open probe runs", PATIENCE, async || {
            let result = touchy(true).await;
            (code(&result) != "CIRCUIT_OPEN").then_some(result)
        })
        .await
    };
    assert_eq!(code(&probe().await), "EXECUTION_ERROR");
    assert_eq!(code(&touchy(true).await), "CIRCUIT_OPEN", "a failed probe opens the circuit again");
}

#[tokio::test]
async fn a_successful_probe_closes_the_circuit_and_only_one_probe_runs() {
    let system = Setup::up().start().await;
    let moody = async |input| call(&system, "one", "moody_once", input).await;
    assert_eq!(code(&moody(json!({"fail": true})).await), "EXECUTION_ERROR");
    let closed_in = list(&system).await[0].retry_after_ms;
    assert!((1..=1000).contains(&closed_in), "{closed_in}");
    until("the circuit is half-open", PATIENCE, async || (list(&system).await[0].retry_after_ms == 0).then_some(()))
        .await;
    let together = futures_util::future::join_all((0..8).map(|_| moody(json!({"seconds": 0.5})))).await;
    let through = together.iter().filter(|result| result.success).count();
    let refused = together.iter().filter(|result| code(result) == "CIRCUIT_OPEN").count();
    assert_eq!((through, refused), (1, 7), "{together:?}");
    assert!(moody(json!({})).await.success, "the circuit is closed");
}

#[tokio::test]
async fn a_high_failure_rate_opens_the_skills_circuit_until_a_reset_or_a_probe() {
    let system = Setup::up().with("OPENSKILL_CIRCUIT_MINIMUM_CALLS", 6).start().await;
    for number in 0..3 {
        assert!(call(&system, "", "moody", json!({})).await.success);
        fail(&system, &format!("session-{number}"), 1).await;
    }
    let refused = call(&system, "another", "moody", json!({})).await;
    assert_eq!(code(&refused), "CIRCUIT_OPEN");
    assert!(refused.text.contains("for all callers"), "{}", refused.text);
    let circuits = list(&system).await;
    assert_eq!((circuits.len(), circuits[0].skill_id.as_str(), circuits[0].state()), (1, "moody", CircuitState::Open));
    let metrics = String::from_utf8(system.get("/metrics").await.body.to_vec()).unwrap();
    assert!(metrics.contains("openskill_circuit_changes_total{scope=\"skill\",state=\"open\"} 1"), "{metrics}");
    system.process.log.line(&["circuit breaker changed its state", "moody", "OPEN"]).await;
    let reset = ResetCircuitsRequest { skill_id: "moody".to_owned(), ..ResetCircuitsRequest::default() };
    assert_eq!(system.admin().await.reset_circuits(reset).await.unwrap().into_inner().reset, 1);
    assert!(call(&system, "another", "moody", json!({})).await.success);
}

#[tokio::test]
async fn a_watcher_sees_the_circuits_of_its_session_and_of_skills() {
    let system = Setup::up().start().await;
    fail(&system, "before", 3).await;
    let watch = async |session: &str| {
        let request = WatchSkillsRequest { session_id: session.to_owned() };
        let mut changes = system.skills().await.watch_skills(request).await.unwrap().into_inner();
        let mut circuits = Vec::new();
        loop {
            let change = changes.message().await.unwrap().unwrap();
            circuits.extend(change.circuit);
            if change.snapshot_complete {
                return (changes, circuits);
            }
        }
    };
    let (_, known) = watch("before").await;
    assert_eq!((known.len(), known[0].state()), (1, CircuitState::Open));
    let (mut changes, known) = watch("one").await;
    assert_eq!(known, []);
    fail(&system, "two", 3).await;
    fail(&system, "one", 3).await;
    let change = changes.message().await.unwrap().unwrap();
    let circuit = change.circuit.clone().unwrap();
    assert_eq!((change.kind(), circuit.session_id.as_str()), (ChangeKind::Circuit, "one"));
    assert_eq!((circuit.skill_id.as_str(), circuit.state()), ("moody", CircuitState::Open));
}
