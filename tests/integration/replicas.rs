//! Replicas of a gateway behind a load balancer that asks them in turn. They are restarted under load, one after the other, and no
//! client of MCP notices.

mod round_robin;

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::rest::{Answer, send};
use openskill_tests::system::{PATIENCE, Process, Setup, System};
use openskill_tests::wait::until;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use round_robin::RoundRobin;

const REPLICAS: usize = 3;

/// Clients, each with a session and one call after the other.
const CLIENTS: usize = 12;

/// A worker, and gateways that share a key.
struct Stage {
    gateways: Vec<System>,
    ports: Vec<Port>,
    worker: Process,
    folder: Folder,
}

impl Stage {
    async fn start() -> Self {
        let folder = Folder::new();
        for entry in ["echo", "wait"] {
            let text = format!("id: {entry}\ntype: inproc\nentry: {entry}\nidempotent: true\n");
            folder.write(&format!("skills/{entry}.yaml"), text);
        }
        let key = folder.write("key", "0123456789abcdef0123456789abcdef\n");
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let worker = Setup::command(&["worker", "--listen", &socket(&folder)])
            .flag("--skills-dir", folder.path().join("skills").display())
            .spawn();
        worker.log.line(&["worker ready"]).await;
        let ports: Vec<_> = (0..REPLICAS).map(|_| Port::reserve()).collect();
        let mut stage = Self { gateways: Vec::new(), ports, worker, folder };
        for number in 0..REPLICAS {
            let gateway = stage.gateway(number).await;
            stage.gateways.push(gateway);
        }
        stage
    }

    /// Starts a replica, and waits until it serves.
    async fn gateway(&self, number: usize) -> System {
        let address = self.ports[number].address();
        let process =
            Setup::command(&["gateway", "--listen", &address.to_string(), "--workers", &socket(&self.folder)])
                .with("OPENSKILL_MCP_KEY_FILE", self.folder.path().join("key").display())
                .spawn();
        process.log.line(&["gateway ready"]).await;
        let gateway = System { address, process };
        gateway.has_skill("echo").await;
        gateway
    }

    /// Drains a replica, waits for its end, and starts it again.
    async fn restart(&mut self, number: usize) {
        let process = &mut self.gateways[number].process;
        process.terminate();
        let status = process.ended().await;
        assert!(status.success(), "{status:?}\n{}", process.log.text());
        self.gateways[number] = self.gateway(number).await;
    }
}

fn socket(folder: &Folder) -> String {
    format!("unix:{}", folder.path().join("worker.sock").display())
}

/// A client of an older revision. Its requests go through the load balancer, on a connection each.
struct Client {
    balancer: Arc<RoundRobin>,
    session: String,
}

impl Client {
    async fn begin(balancer: Arc<RoundRobin>) -> Self {
        let client = Self { balancer, session: String::new() };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
        let session = client.ask("initialize", params).await.header("mcp-session-id").to_owned();
        assert!(!session.is_empty());
        Self { session, ..client }
    }

    async fn ask(&self, method: &str, params: Value) -> Answer {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let mut headers = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        headers.extend((!self.session.is_empty()).then_some(("mcp-session-id", self.session.as_str())));
        let answer = send(self.balancer.address, Method::POST, "/mcp", &headers, body.to_string()).await;
        assert_eq!(answer.status, 200, "{method} {params}: {answer:?}");
        answer
    }

    /// A call that succeeds, on a stream if progress is asked for and without.
    async fn call(&self, number: usize) {
        let (name, arguments) = match number % 4 {
            0 => ("wait", json!({ "ms": 150 })),
            _ => ("echo", json!({ "number": number })),
        };
        let meta = if number.is_multiple_of(2) { json!({ "progressToken": number }) } else { json!({}) };
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments, "_meta": meta})).await;
        let text = String::from_utf8_lossy(&answer.body);
        let message = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        let message: Value = serde_json::from_str(message).unwrap_or_else(|_| panic!("no message: {answer:?}"));
        let result = &message["result"];
        assert!(result["content"].is_array() && result["isError"] != true, "{message}");
        if name == "echo" {
            let echoed: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(echoed, arguments);
        }
    }
}

#[tokio::test]
async fn restarted_replicas_lose_no_session_and_fail_no_idempotent_call() {
    let mut stage = Stage::start().await;
    let addresses = stage.ports.iter().map(Port::address).collect();
    let balancer = Arc::new(RoundRobin::start(addresses).await);
    let (is_over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let client = Client::begin(Arc::clone(&balancer)).await;
        let (is_over, calls) = (Arc::clone(&is_over), Arc::clone(&calls));
        clients.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                client.call(calls.fetch_add(1, Ordering::Relaxed)).await;
            }
            // At the end each session is still one, at every replica.
            for _ in 0..REPLICAS {
                client.ask("ping", json!({})).await;
            }
        });
    }
    for number in 0..REPLICAS {
        stage.restart(number).await;
        let before = balancer.answered(number);
        let answers = || {
            // A client that failed says why.
            clients.try_join_next().into_iter().for_each(Result::unwrap);
            std::future::ready((balancer.answered(number) >= before + CLIENTS).then_some(()))
        };
        until("the restarted replica answers calls", PATIENCE, answers).await;
    }
    is_over.store(true, Ordering::Relaxed);
    clients.join_all().await;
    assert!(!stage.worker.has_ended() && calls.load(Ordering::Relaxed) >= REPLICAS * CLIENTS);
}
