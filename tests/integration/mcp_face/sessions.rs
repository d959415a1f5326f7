//! Sessions of older revisions, and cancelling their calls.

use std::time::Duration;

use http::Method;
use openskill_tests::folder::Folder;
use openskill_tests::rest::{Answer, send};
use openskill_tests::system::{Setup, System};
use openskill_tests::{processes, wait};
use serde_json::json;

use super::{BOTH, JSON, ask_older, begin, skills, start};

async fn delete(system: &System, session: &str) -> Answer {
    send(system.address, Method::DELETE, "/mcp", &[("mcp-session-id", session)], "").await
}

#[tokio::test]
async fn every_revision_with_sessions_is_agreed_on_and_an_unknown_one_is_not() {
    let system = start().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = begin(&system, revision).await;
        assert_eq!(ask_older(&system, &session, "ping", json!({})).await.json()["result"], json!({}), "{revision}");
    }
    for other in ["2026-07-28", "1999-01-01"] {
        let params = json!({"protocolVersion": other, "capabilities": {}});
        let answer = ask_older(&system, "", "initialize", params).await;
        assert_eq!(answer.json()["result"]["protocolVersion"], "2025-11-25", "{other}");
    }
}

#[tokio::test]
async fn an_ended_or_forged_session_is_not_found() {
    let system = start().await;
    let session = begin(&system, "2025-11-25").await;
    let notified = system
        .post(
            "/mcp",
            &[BOTH, JSON, ("mcp-session-id", &session)],
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        )
        .await;
    assert_eq!((notified.status, notified.body.len()), (202, 0));
    let forged = format!("{}A", &session[..session.len() - 1]);
    let forged = if forged == session { format!("{}B", &session[..session.len() - 1]) } else { forged };
    for id in [forged.as_str(), "x", "AAAA"] {
        assert_eq!(ask_older(&system, id, "ping", json!({})).await.status, 404, "{id}");
    }
    assert_eq!(delete(&system, &session).await.status, 204);
    assert_eq!(ask_older(&system, &session, "ping", json!({})).await.status, 404);
    assert_eq!(delete(&system, &session).await.status, 404);
}

#[tokio::test]
async fn a_replica_with_the_same_key_serves_the_session_and_one_without_does_not() {
    let folder = Folder::new();
    let key = folder.write("key", "0123456789abcdef0123456789abcdef\n");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let replica = || Setup::with_skills(&[&skills()]).with("OPENSKILL_MCP_KEY_FILE", key.display()).start();
    let (one, other) = (replica().await, replica().await);
    let session = begin(&one, "2025-11-25").await;
    assert_eq!(ask_older(&other, &session, "ping", json!({})).await.status, 200);
    let stranger = start().await;
    assert_eq!(ask_older(&stranger, &session, "ping", json!({})).await.status, 404);
}

/// A skill that writes a file when it has begun, and then sleeps.
fn sleeper(folder: &Folder) {
    folder.write(
        "sleeper.yaml",
        "id: sleeper\ntype: cli\nruntime: exec\nentry: sleeper.sh\ntimeout_ms: 60000\nenv: [MARK=mcp-sleeper]\n",
    );
    let script = folder.write("sleeper.sh", "#!/bin/sh\nsleep 50\necho null\n");
    std::fs::set_permissions(script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

fn sleepers(mark: &str) -> Vec<i32> {
    processes::with_environment(mark)
}

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_cancelled_call_and_a_closed_stream_end_the_processes_of_the_skill() {
    let folder = Folder::new();
    sleeper(&folder);
    let mark = format!("MARK=mcp-sleeper-{}", std::process::id());
    let manifest = std::fs::read_to_string(folder.path().join("sleeper.yaml")).unwrap();
    folder.write("sleeper.yaml", manifest.replace("MARK=mcp-sleeper", &mark));
    let system = Setup::with_skills(&[folder.path()]).start().await;
    let session = begin(&system, "2025-11-25").await;
    // By a notification.
    let calling = async { ask_older(&system, &session, "tools/call", json!({"name": "sleeper"})).await };
    let cancelling = async {
        wait::until_true("the skill runs", PATIENCE, || !sleepers(&mark).is_empty()).await;
        let again = ask_older(&system, &session, "tools/call", json!({"name": "sleeper"})).await;
        assert_eq!((again.status, &again.json()["error"]["code"]), (400, &json!(-32600)), "the id is in use");
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        let headers = [BOTH, JSON, ("mcp-session-id", session.as_str())];
        assert_eq!(system.post("/mcp", &headers, cancelled.to_string()).await.status, 202);
    };
    let (answer, ()) = tokio::join!(calling, cancelling);
    assert_eq!(answer.json()["error"]["code"], -32800);
    wait::until_none_is_left("processes of the skill", PATIENCE, || sleepers(&mark)).await;
    // By closing the connection.
    let call = ask_older(&system, "", "tools/call", json!({"name": "sleeper"}));
    tokio::select! {
        answer = call => panic!("{answer:?}"),
        () = wait::until_true("the skill runs", PATIENCE, || !sleepers(&mark).is_empty()) => {}
    }
    wait::until_none_is_left("processes of the skill", PATIENCE, || sleepers(&mark)).await;
}
