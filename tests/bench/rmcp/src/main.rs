//! An MCP server with one tool over streamable HTTP, at `/mcp` of `$BENCH_PORT`. `sessions`: with the sessions that rmcp
//! keeps by default; `json`: without them, and answered in JSON, which is the fastest it offers.

use std::sync::Arc;

use axum::serve::ListenerExt as _;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, schemars, tool, tool_handler, tool_router};

/// The allocator of openskill, so that allocators are not what is compared.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Given {
    text: String,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Echoed {
    echoed: String,
}

struct Echo;

#[tool_router]
impl Echo {
    #[tool(description = "Gives a text back.")]
    fn echo(&self, Parameters(Given { text }): Parameters<Given>) -> Json<Echoed> {
        Json(Echoed { echoed: text })
    }
}

#[tool_handler]
impl ServerHandler for Echo {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = match std::env::args().nth(1).as_deref() {
        Some("sessions") => StreamableHttpServerConfig::default(),
        Some("json") => {
            StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true)
        }
        _ => return Err("say `sessions` or `json`".into()),
    };
    let port: u16 = std::env::var("BENCH_PORT")?.parse()?;
    let service = StreamableHttpService::new(|| Ok(Echo), Arc::new(LocalSessionManager::default()), config);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    // Without it, an event that follows the head of its answer waits 40 ms for the acknowledgement.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
