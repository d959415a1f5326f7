//! Clients that others wrote, from `make test-venv`.

use std::path::PathBuf;
use std::time::Duration;

use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{Setup, System};
use serde_json::{Value, json};
use tokio::process::Command;

/// A program of the virtual environment. None if there is none.
fn program(name: &str) -> Option<PathBuf> {
    let path = repository().join("target/test-venv/bin").join(name);
    if !path.exists() {
        skip(Need::Venv, &format!("{name} is missing; run `make test-venv`"));
        return None;
    }
    Some(path)
}

async fn run(command: &mut Command) -> String {
    let output = tokio::time::timeout(Duration::from_secs(180), command.kill_on_drop(true).output()).await;
    let output = output.expect("it ends").unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{stdout}{stderr}");
    stdout.into_owned()
}

async fn python(script: &str, system: &System) -> Option<Value> {
    let python = program("python")?;
    let script = repository().join("tests/clients").join(script);
    let text = run(Command::new(python).arg(script).arg(system.address.to_string())).await;
    Some(serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}")))
}

const SERVICES: [&str; 9] = [
    "google.longrunning.Operations",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "openskill.v1.AdminService",
    "openskill.v1.AgentService",
    "openskill.v1.OperationService",
    "openskill.v1.SkillService",
    "openskill.v1.TraceService",
];

#[tokio::test]
async fn grpcurl_that_knows_only_v1alpha_lists_and_describes_every_service_with_its_comments() {
    let Some(grpcurl) = program("grpcurl") else { return };
    let system = Setup::up().start().await;
    let ask = async |arguments: &[&str]| {
        run(Command::new(&grpcurl).arg("-plaintext").arg(system.address.to_string()).args(arguments)).await
    };
    assert_eq!(ask(&["list"]).await.lines().collect::<Vec<_>>(), SERVICES);
    // Without a name it describes all of them, and fails at the first that it can't.
    let all = ask(&["describe"]).await;
    for service in SERVICES {
        assert!(all.contains(&format!("{service} is a service:")), "{service} in {all}");
    }
    assert!(all.contains("// Calls a skill and returns its result.\n  rpc Invoke"), "{all}");
    let message = ask(&["describe", "openskill.v1.InvokeRequest"]).await;
    assert!(message.contains("// One call.\nmessage InvokeRequest"), "{message}");
}

#[tokio::test]
async fn grpc_requests_connects_and_calls_a_skill() {
    let system = Setup::up().start().await;
    let Some(answer) = python("grpc_requests_describes.py", &system).await else { return };
    assert_eq!(answer["data"], json!({"n": 1}), "{answer}");
    let services = answer["services"].as_array().unwrap();
    assert!(SERVICES.iter().all(|it| services.contains(&json!(it))), "{answer}");
}

#[tokio::test]
async fn health_and_reflection_answer_as_those_of_a_grpcio_server() {
    let system = Setup::up().start().await;
    let Some(answers) = python("grpcio_peers.py", &system).await else { return };
    assert_eq!(answers["gateway"], answers["grpcio"]);
    assert_eq!(answers["gateway"]["watch"], json!(["SERVING", "SERVING", "SERVICE_UNKNOWN"]), "{answers}");
    assert_eq!(answers["gateway"]["reflection"].as_array().unwrap().len(), 13, "{answers}");
}

/// Runs a script that generates a client, and checks the answers that the client received.
async fn generated_client_works(script: &str) {
    let system = Setup::shipped().with("OPENSKILL_AGENT_STORE", "memory").start().await;
    let Some(answer) = python(script, &system).await else { return };
    assert_eq!(answer["types"], json!(["EchoResult", "EchoStatus", "FailedResult", "ChatExchange"]), "{answer}");
    assert_eq!(answer["data"], json!([{"echoed": "hi"}, {"echoed": "hi"}]), "{answer}");
    assert!(answer["skills"].as_array().unwrap().contains(&json!("echo")), "{answer}");
    assert_eq!(answer["events"], json!(["call", "attempt", "result"]), "{answer}");
    let rest = (&answer["error"], &answer["end"], &answer["conversation"]);
    assert_eq!(rest, (&json!("INVALID_JSON"), &json!("completed"), &json!(true)), "{answer}");
}

#[tokio::test]
async fn a_client_that_openapi_python_client_made_invokes_lists_reads_a_trace_and_chats() {
    let Some(_) = program("openapi-python-client") else { return };
    generated_client_works("openapi_client.py").await;
}

#[tokio::test]
async fn a_client_that_openapi_generator_made_invokes_lists_reads_a_trace_and_chats() {
    if Command::new("java").arg("-version").output().await.is_err() {
        return skip(Need::Java, "java is not on PATH");
    }
    let Some(_) = program("openapi-generator-cli") else { return };
    generated_client_works("openapi_generator.py").await;
}

#[tokio::test]
async fn grpcio_compresses_its_messages_and_reads_compressed_ones() {
    let system = Setup::up().start().await;
    let Some(answer) = python("grpcio_gzip.py", &system).await else { return };
    assert_eq!(answer, json!([true, true, true]));
}
