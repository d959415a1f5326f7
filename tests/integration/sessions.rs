//! Every kind of skill learns the session of its call, and a process also the principal.

use std::time::Duration;

use openskill_proto::v1::{ExecuteRequest, InvokeRequest};
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::fixtures;
use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, code, data, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};

use crate::input_required::connect;

#[tokio::test]
async fn http_back_ends_and_mcp_servers_get_the_session() {
    let server = Backend::start(|seen| Reply::json(200, &json!({"session": seen.header("x-session-id")}))).await;
    let folder = Folder::new();
    let (url, host) = (server.url("/"), server.address);
    folder.write("web.yaml", format!("id: web\ntype: http\nentry: {url}\nhttp: {{allow: ['{host}']}}\n"));
    let servers = fixtures().with_file_name("mcp");
    let system = Setup::with_skills(&[folder.path(), &servers]).flag("--workers", 1).start().await;
    for (skill, key) in [("web", "session"), ("own__meta", "openskill.dev/session_id")] {
        system.has_skill(skill).await;
        for session in ["s1", ""] {
            let call = InvokeRequest { session_id: session.to_owned(), ..request(skill, json!({})) };
            let result = system.invoke(call).await;
            assert_eq!(code(&result), "", "{skill}: {result:?}");
            assert_eq!(data(&result)[key].as_str().unwrap_or_default(), session, "{skill}");
        }
    }
}

#[tokio::test]
async fn a_process_gets_the_session_and_the_principal() {
    let folder = Folder::new();
    let listen = format!("unix:{}", folder.path().join("worker.sock").display());
    let skills = fixtures().display().to_string();
    let worker = Setup::command(&["worker", "--listen", &listen, "--skills-dir", &skills]).spawn();
    worker.log.line(&["worker ready"]).await;
    let mut client = connect(&listen).await;
    for principal in ["ada", ""] {
        let call = ExecuteRequest {
            skill_id: "reveals".to_owned(),
            session_id: "s1".to_owned(),
            principal: principal.to_owned(),
            input_json: "{}".into(),
            timeout_ms: 20_000,
            ..ExecuteRequest::default()
        };
        let result = client.execute(call).await.unwrap().into_inner();
        let seen: Value = serde_json::from_slice(&result.data_json).unwrap();
        assert_eq!(seen["environment"]["OPENSKILL_SESSION_ID"], "s1");
        assert_eq!(seen["environment"]["OPENSKILL_PRINCIPAL"].as_str().unwrap_or_default(), principal);
        assert_eq!(seen["environment"].get("OPENSKILL_PRINCIPAL").is_some(), !principal.is_empty());
    }
}

#[tokio::test]
async fn http_back_ends_and_mcp_servers_get_the_principal() {
    let server = Backend::start(|seen| {
        let (session, principal) = (seen.header("x-session-id"), seen.header("x-openskill-principal"));
        Reply::json(200, &json!({"openskill.dev/session_id": session, "openskill.dev/principal": principal}))
    })
    .await;
    let folder = Folder::new();
    let (url, host) = (server.url("/"), server.address);
    folder.write("web.yaml", format!("id: web\ntype: http\nentry: {url}\nhttp: {{allow: ['{host}']}}\n"));
    let listen = format!("unix:{}", folder.path().join("worker.sock").display());
    let skills = [folder.path(), &fixtures().with_file_name("mcp")].map(|it| it.display().to_string()).join(":");
    let worker = Setup::command(&["worker", "--listen", &listen, "--skills-dir", &skills]).spawn();
    worker.log.line(&["worker ready"]).await;
    let client = connect(&listen).await;
    for (skill, principal) in [("web", "ada"), ("web", ""), ("own__meta", "ada"), ("own__meta", "")] {
        let call = ExecuteRequest {
            skill_id: skill.to_owned(),
            session_id: "s1".to_owned(),
            principal: principal.to_owned(),
            input_json: "{}".into(),
            timeout_ms: 20_000,
            ..ExecuteRequest::default()
        };
        // The worker is ready before it knows the tools of its MCP servers.
        let result = until(skill, Duration::from_secs(30), || {
            let (mut client, call) = (client.clone(), call.clone());
            async move { client.execute(call).await.ok() }
        });
        let result = result.await.into_inner();
        let seen: Value = serde_json::from_slice(&result.data_json).unwrap();
        assert_eq!(seen["openskill.dev/session_id"], "s1", "{skill}");
        assert_eq!(seen["openskill.dev/principal"].as_str().unwrap_or_default(), principal, "{skill}");
    }
}
