//! How much a principal may use, with all its keys.

use std::time::{Duration, Instant};

use openskill_proto::v1::InvokeRequest;
use openskill_tests::system::request;
use serde_json::json;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::{Keys, from, post};

#[tokio::test]
async fn calls_in_time_are_limited_and_a_refusal_says_when_to_come_back() {
    let keys = Keys::new();
    let key = keys.create("a", &["--skills", "in_echo", "--rate", "20", "--burst", "5"]);
    let slow = keys.create("slow", &["--skills", "in_echo", "--rate", "0.001"]);
    let free = keys.create("free", &["--skills", "in_echo"]);
    let system = keys.up().start().await;
    let mut skills = system.skills().await;
    let (begun, mut passed, mut refused) = (Instant::now(), 0_u32, 0_u32);
    while begun.elapsed() < Duration::from_secs(3) {
        match skills.invoke(from(&key, request("in_echo", json!({})))).await {
            Ok(_) => passed += 1,
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                let wait = status.get_error_details().retry_info().unwrap().retry_delay.unwrap();
                assert!(wait <= Duration::from_millis(51), "{wait:?}");
                refused += 1;
            }
        }
        // As fast as a caller that does not wait, and leaves the machine to the gateway.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let most = 5.0 + 20.0 * begun.elapsed().as_secs_f64();
    // From below, coarsely: on a loaded machine few calls are made.
    assert!(f64::from(passed) <= most * 1.05 && passed >= 20, "{passed} calls, at most {most}");
    assert!(refused > 0);
    assert_eq!(post(&system, &slow, "/skills/in_echo:invoke", "{}").await.status, 200);
    let over_rest = post(&system, &slow, "/skills/in_echo:invoke", "{}").await;
    assert_eq!((over_rest.status, over_rest.code().as_str()), (429, "RATE_LIMITED"));
    let wait: u32 = over_rest.header("retry-after").parse().unwrap();
    assert!((1..=1000).contains(&wait), "{wait}");
    // Others are not concerned.
    assert_eq!(post(&system, &free, "/skills/in_echo:invoke", "{}").await.status, 200);
    system.process.log.line(&["decision=\"limited\"", "principal=\"a\"", "principal_rate"]).await;
}

#[tokio::test]
async fn calls_in_flight_bytes_and_sessions_are_limited_for_both_keys_together() {
    let keys = Keys::new();
    let limits = ["--in-flight", "1", "--bytes", "2000", "--sessions", "1"];
    let one = keys.create("a", &[&["--skills", "in_echo,in_wait"], &limits[..]].concat());
    let two = keys.create("a", &[]);
    let system = keys.up().start().await;
    let mut skills = system.skills().await;
    let waits = InvokeRequest { timeout_ms: 60_000, ..request("in_wait", json!({"ms": 60_000})) };
    let mut running = skills.invoke_stream(from(&one, waits)).await.unwrap().into_inner();
    running.message().await.unwrap();
    let refused = skills.invoke(from(&two, request("in_echo", json!({})))).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.get_error_details().retry_info().is_some());
    drop(running);
    openskill_tests::wait::until("the call has ended", openskill_tests::system::PATIENCE, || {
        let (mut skills, two) = (skills.clone(), two.clone());
        async move { skills.invoke(from(&two, request("in_echo", json!({})))).await.ok() }
    })
    .await;
    let large = json!({ "text": "x".repeat(3000) });
    let refused = skills.invoke(from(&one, request("in_echo", large))).await.unwrap_err();
    assert!(
        refused.message().contains("arguments") && refused.get_error_details().retry_info().is_none(),
        "{refused:?}"
    );
    let mut of_session = async |session: &str| {
        let call = InvokeRequest { session_id: session.to_owned(), ..request("in_echo", json!({})) };
        skills.invoke(from(&one, call)).await.map(drop)
    };
    of_session("s1").await.unwrap();
    of_session("s1").await.unwrap();
    assert!(of_session("s2").await.unwrap_err().message().contains("sessions"));
    of_session("").await.unwrap();
}
