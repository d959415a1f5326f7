//! MCP at `/mcp`, as clients of all revisions speak it.

mod calls;
mod changes;
mod conformance;
mod long_results;
mod mutated;
mod questions;
mod real_clients;
mod refusals;
mod resumed;
mod sampling;
mod sessions;
mod shelf;
mod stdio;
mod tasks;

use std::path::PathBuf;

use openskill_tests::repository;
use openskill_tests::rest::Answer;
use openskill_tests::system::{Setup, System};
use serde_json::{Value, json};

pub(super) const NEWEST: &str = "2026-07-28";

/// The skills of these tests.
fn skills() -> PathBuf {
    repository().join("tests/fixtures/mcp_face")
}

/// The shipped skills, which come with the library for scripts.
fn library() -> PathBuf {
    repository().join("worker/skills")
}

fn setup() -> Setup {
    Setup::with_skills(&[&skills(), &repository().join("tests/fixtures/skills"), &library()])
}

async fn start() -> System {
    setup().start().await
}

const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");
const JSON: (&str, &str) = ("content-type", "application/json");

/// What a request of the newest revision says of itself.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A request of the newest revision. `params` may have a `_meta` of their own, to which the rest is added.
pub(super) async fn ask(system: &System, method: &str, mut params: Value) -> Answer {
    let mut own = meta();
    if let Some(more) = params["_meta"].as_object() {
        own.as_object_mut().unwrap().extend(more.clone());
    }
    params["_meta"] = own;
    let named = ["name", "uri", "taskId"].iter().find_map(|it| params[*it].as_str());
    let name = named.unwrap_or_default().to_owned();
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
    let mut headers = vec![BOTH, JSON, ("mcp-protocol-version", NEWEST), ("mcp-method", method)];
    headers.extend((!name.is_empty()).then_some(("mcp-name", name.as_str())));
    system.post("/mcp", &headers, body).await
}

/// A request of an older revision.
async fn ask_older(system: &System, session: &str, method: &str, params: Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
    let mut headers = vec![BOTH, JSON];
    headers.extend((!session.is_empty()).then_some(("mcp-session-id", session)));
    system.post("/mcp", &headers, body).await
}

/// Begins a session of an older revision. Returns its id.
async fn begin(system: &System, revision: &str) -> String {
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let answer = ask_older(system, "", "initialize", params).await;
    assert_eq!((answer.status, answer.json()["result"]["protocolVersion"].as_str()), (200, Some(revision)));
    answer.header("mcp-session-id").to_owned()
}

/// The messages of a stream of events.
pub(super) fn messages(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.header("content-type"), "text/event-stream", "{answer:?}");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    text.lines().filter_map(|it| it.strip_prefix("data: ")).map(|it| serde_json::from_str(it).unwrap()).collect()
}
