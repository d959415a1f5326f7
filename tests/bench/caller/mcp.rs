//! MCP over streamable HTTP, as much of it as a call needs: a connection and a session for each caller.

use std::net::SocketAddr;

use bytes::Bytes;
use serde_json::{Value, json};

use super::Failure;
use super::rest::{Answer, Connection};
use crate::contenders::TEXT;

const PATH: &str = "/mcp";
const VERSION: &str = "2025-06-18";
const SESSION: &str = "mcp-session-id";

/// A caller.
pub(crate) struct Mcp {
    connection: Connection,
    session: Option<String>,
    tool: String,
    number: u64,
}

impl Mcp {
    /// Connects and begins a session.
    pub(crate) async fn connect(address: SocketAddr, tool: &str) -> Result<Self, String> {
        let connection = Connection::open(address).await?;
        let mut caller = Self { connection, session: None, tool: tool.to_owned(), number: 0 };
        let client = json!({"name": "bench", "version": "1"});
        let params = json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client});
        let answer = caller.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await?;
        if !answer.status.is_success() {
            return Err(answer.told());
        }
        caller.session = answer.headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        caller.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok(caller)
    }

    async fn send(&mut self, message: Value) -> Result<Answer, String> {
        let mut headers = vec![("accept", "application/json, text/event-stream"), ("mcp-protocol-version", VERSION)];
        let session = self.session.clone();
        headers.extend(session.as_deref().map(|id| (SESSION, id)));
        self.connection.post(PATH, &headers, Bytes::from(message.to_string())).await
    }

    /// The answer is JSON or a stream of events; the text stands in either as it was sent.
    pub(crate) async fn call(&mut self) -> Result<(), Failure> {
        self.number += 1;
        let params = json!({"name": self.tool, "arguments": {"text": TEXT}});
        let call = json!({"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": params});
        self.send(call).await?.echoes(TEXT)
    }
}
