//! Who is measured: what is started, and how it is called. All get the same text and give it back.

use openskill_proto::v1::InvokeRequest;
use openskill_tests::system::request;
use serde_json::json;

use crate::caller::{Ask, Target};
use crate::place::bare::{Flavour, Hops};
use crate::place::hosts::Transport;
use crate::place::openskill::{Piece, SERVERS_ECHO, Share};
use crate::place::{Place, Running};

/// What is sent and has to come back: with its key about a hundred bytes.
pub(crate) const TEXT: &str = "the quick brown fox jumps over the lazy dog, again and again, all day long, and sleeps";

/// The script, the same for every host that runs one.
pub(crate) const ECHO_SCRIPT: &str = include_str!("python/echo.py");

/// What the echo skills declare.
pub(crate) const SCHEMA: &str = "parameters:\n  text: {type: string, required: true}\n";

/// How one is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Invoke(&'static str),
    Many(&'static str),
    /// `POST /skills/{id}:invoke`
    Rest(&'static str),
    /// `POST` of the arguments alone.
    Tool(&'static str),
    Mcp(&'static str),
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contender {
    /// For `--only`, and for the verdict.
    pub(crate) id: &'static str,
    /// What the row is, for readers.
    pub(crate) what: &'static str,
    pub(crate) place: Place,
    way: Way,
}

impl Contender {
    pub(crate) fn target(&self, running: &Running) -> Target {
        let address = running.address;
        match self.way {
            Way::Invoke(skill) => Target::Unary(address, echo(skill)),
            Way::Many(skill) => Target::Many(address, echo(skill)),
            Way::Rest(skill) => {
                let body = json!({"input": {"text": TEXT}}).to_string();
                Target::Rest(address, format!("/skills/{skill}:invoke"), body)
            }
            Way::Tool(tool) => Target::Rest(address, format!("/{tool}"), json!({"text": TEXT}).to_string()),
            Way::Mcp(tool) => Target::Mcp(address, tool.to_owned()),
        }
    }
}

/// The same call again and again.
pub(crate) fn echo(skill: &str) -> Ask {
    let asked: InvokeRequest = request(skill, json!({ "text": TEXT }));
    std::sync::Arc::new(move |_| asked.clone())
}

/// All of them, in the order of the table.
pub(crate) fn all() -> Vec<Contender> {
    let shipped = Place::Openskill(Piece::Shipped);
    let traces = |share| Place::Openskill(Piece::Traces(share));
    let row = |id, what, place, way| Contender { id, what, place, way };
    let bare = |id, what, hops, flavour| row(id, what, Place::Bare(hops, flavour), Way::Invoke("echo"));
    let invoke = |id, what, place| row(id, what, place, Way::Invoke("echo"));
    // Each for itself: a gateway that has seen calls wait for a script lets its worker have fewer, also of the echo.
    let python = |id, what| row(id, what, Place::Openskill(Piece::ShippedFor(id)), Way::Invoke(id));
    let served = |id, what, over| row(id, what, Place::Openskill(Piece::McpServer(over)), Way::Invoke(SERVERS_ECHO));
    let proxy = |id, what, over| row(id, what, Place::FastMcp(over), Way::Mcp("echo"));
    vec![
        bare("bare1-current", "tonic, one hop, one thread", Hops::One, Flavour::Current),
        bare("bare1-multi", "tonic, one hop, two threads", Hops::One, Flavour::Multi),
        bare("bare2-current", "tonic forwarder, two hops, one thread each", Hops::Two, Flavour::Current),
        bare("bare2-multi", "tonic forwarder, two hops, two threads each", Hops::Two, Flavour::Multi),
        invoke("invoke", "openskill `Invoke`, as shipped", shipped),
        row("many", "openskill `InvokeMany`, as shipped", shipped, Way::Many("echo")),
        row("rest", "openskill REST, as shipped", shipped, Way::Rest("echo")),
        row(
            "no-schema",
            "`Invoke`, no validation: a skill without a schema",
            shipped,
            Way::Invoke("echo_without_schema"),
        ),
        invoke("no-circuits", "`Invoke`, no circuits", Place::Openskill(Piece::CircuitsOff)),
        invoke("no-call-log", "`Invoke`, no call log", Place::Openskill(Piece::CallLogOff)),
        row(
            "least",
            "`Invoke`, none of these three",
            Place::Openskill(Piece::Least),
            Way::Invoke("echo_without_schema"),
        ),
        invoke("traces-all", "`Invoke`, and all traces sent to a collector", traces(Share::All)),
        invoke("traces-tenth", "`Invoke`, and one trace in ten sent to a collector", traces(Share::Tenth)),
        python("fork", "openskill `cli:python`, `isolation: fork` (warm)"),
        python("shared", "openskill `cli:python`, `isolation: shared` (warm)"),
        python("process", "openskill `cli:python`, `isolation: process` (fresh)"),
        row("fastapi-1", "FastAPI and `subprocess.run`, 1 uvicorn worker", Place::FastApi(1), Way::Rest("echo")),
        row("fastapi-2", "FastAPI and `subprocess.run`, 2 uvicorn workers", Place::FastApi(2), Way::Rest("echo")),
        served("mcp-stdio", "openskill `mcp:stdio` before an MCP server", Transport::Stdio),
        row("mcpo", "mcpo before the same server", Place::Mcpo, Way::Tool("echo")),
        proxy("proxy-stdio", "FastMCP proxy before the same server", Transport::Stdio),
        served("mcp-http", "openskill `mcp:http` before that server over HTTP", Transport::Http),
        proxy("proxy-http", "FastMCP proxy before that server over HTTP", Transport::Http),
    ]
}
