//! What is measured: each row has processes of its own, gets the same text, and gives it back.

use std::sync::Arc;

use openskill_tests::backend::{Backend, Reply};
use openskill_tests::containers::Image;
use openskill_tests::system::request;
use serde_json::json;

use crate::caller::{Call, MCP};
use crate::settings::Settings;
use crate::site::Site;

/// Callers at once.
pub(crate) const CALLS_IN_FLIGHT: [usize; 4] = [1, 16, 64, 256];
pub(crate) const RUNNERS_IN_FLIGHT: [usize; 3] = [1, 8, 32];
pub(crate) const MCP_IN_FLIGHT: [usize; 2] = [16, 64];

/// The skill of every row; of an MCP server, its tool.
pub(crate) const ECHO: &str = "echo";
pub(crate) const TOOL: &str = "echo__echo";

/// With its key about a hundred bytes.
pub(crate) const TEXT: &str = "the quick brown fox jumps over the lazy dog, again and again, all day long, and sleeps";

/// The tools that are listed beside the echo.
const LISTED: usize = 1000;

const SCHEMA: &str = "parameters:\n  text: {type: string, required: true}\n";
const SERVER: &str = "type: mcp\nruntime: stdio\nmcp: {start_s: 60}\n";

/// How a script runs.
const ISOLATIONS: [(&str, &str); 3] =
    [("process", "fresh interpreter"), ("fork", "fork of a warm interpreter"), ("shared", "shared interpreter")];

#[derive(Clone)]
pub(crate) struct Row {
    /// For `--only`.
    pub(crate) id: String,
    /// For readers.
    pub(crate) name: String,
    pub(crate) site: Site,
    pub(crate) call: Call,
    pub(crate) has_memory: bool,
    /// Each Python of `--python` gets a row of its own.
    pub(crate) is_script: bool,
    /// The ids of the rows that this one is compared with.
    pub(crate) bases: Vec<String>,
}

/// Rows, and what they call while they are measured.
pub(crate) struct Rows {
    pub(crate) all: Vec<Row>,
    _kept: (Option<Backend>, Option<Arc<Image>>),
}

fn row(id: &str, name: &str, site: Site, call: Call) -> Row {
    let (id, name) = (id.to_owned(), name.to_owned());
    Row { id, name, site, call, has_memory: false, is_script: false, bases: Vec::new() }
}

impl Row {
    fn with_memory(self) -> Self {
        Self { has_memory: true, ..self }
    }

    fn of_script(self, base: &str) -> Self {
        let bases = if self.id == base { Vec::new() } else { vec![base.to_owned()] };
        Self { is_script: true, bases, ..self }
    }

    fn beside(self, bases: &[&str]) -> Self {
        Self { bases: bases.iter().map(|id| (*id).to_owned()).collect(), ..self }
    }
}

fn invoke(skill: &str) -> Call {
    Call::Invoke(request(skill, json!({ "text": TEXT })))
}

/// The manifest of an echo in the worker, but for its id.
pub(crate) fn in_process_manifest() -> String {
    format!("type: inproc\nentry: echo\n{SCHEMA}")
}

/// An echo in the worker, called through whatever face.
pub(crate) fn in_process() -> Site {
    Site::openskill(&in_process_manifest())
}

fn of_rest() -> Call {
    Call::Post("/skills/echo:invoke", json!({"input": {"text": TEXT}}).to_string())
}

fn of_mcpo() -> Call {
    Call::Post("/echo", json!({ "text": TEXT }).to_string())
}

fn of_mcp(tool: &str) -> Call {
    let params = json!({"name": tool, "arguments": {"text": TEXT}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    Call::Post(MCP, call.to_string())
}

/// openskill beside what a user would choose instead.
pub(crate) fn calls(settings: &Settings) -> Rows {
    let payload = |bytes: usize| Call::Invoke(request(ECHO, json!({"text": "x".repeat(bytes)})));
    let mut all = vec![
        row("forwarder-1", "tonic forwarder and server, one thread each", Site::Forwarder(1), invoke(ECHO))
            .with_memory(),
        row("forwarder-2", "tonic forwarder and server, two threads each", Site::Forwarder(2), invoke(ECHO)),
        row("invoke", "openskill `Invoke`", in_process(), invoke(ECHO)).with_memory(),
        row("tls", "openskill `Invoke` over TLS", in_process().encrypted(), invoke(ECHO)),
        row("many", "openskill `InvokeMany`", in_process(), Call::InvokeMany(request(ECHO, json!({ "text": TEXT })))),
        row("rest", "openskill REST", in_process(), of_rest()),
        row("payload-10k", "openskill `Invoke`, a text of 10 kB", in_process(), payload(10_000)),
        row("payload-1m", "openskill `Invoke`, a text of 1 MB", in_process(), payload(1_000_000)),
    ];
    for (isolation, name) in ISOLATIONS {
        let name = format!("openskill `cli:python`, {name}");
        all.push(row(isolation, &name, script(isolation, ""), invoke(ECHO)).with_memory().of_script("process"));
    }
    if let Some(hosts) = &settings.hosts {
        for workers in [1, 2] {
            let name = format!("FastAPI with `subprocess.run`, uvicorn workers: {workers}");
            all.push(row(&format!("fastapi-{workers}"), &name, Site::FastApi(workers), of_rest()).with_memory());
        }
        let server = Site::openskill(&format!("{SERVER}entry: servers/echo_server.py\njail: \"off\"\n"));
        let server =
            server.with_server("servers/echo_server.py", &format!("#!{}\n{}", hosts.display(), crate::hosts::SERVER));
        all.extend([
            row("mcp", "openskill `mcp:stdio` in front of a FastMCP server", server, invoke(TOOL)).with_memory(),
            row("proxy", "FastMCP proxy in front of the same server", Site::FastMcpProxy("stdio"), of_mcp(ECHO))
                .with_memory(),
        ]);
        if settings.mcpo.is_some() {
            all.push(row("mcpo", "mcpo in front of the same server", Site::Mcpo, of_mcpo()).with_memory());
        }
    }
    Rows { all, _kept: (None, None) }
}

/// The MCP face of openskill beside other servers of MCP.
pub(crate) fn mcp() -> Rows {
    let list = Call::Post(MCP, json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string());
    let more = (0..LISTED).map(|number| {
        // The last one's tells that the list is whole.
        let description = if number + 1 == LISTED { TEXT } else { "Gives a text back." };
        let about = format!("id: tool_{number}\ndescription: {description}\n{}", in_process_manifest());
        (format!("tool_{number}.yaml"), about)
    });
    let (names, peers): (Vec<_>, Vec<_>) = [
        ("rest", "openskill REST", in_process(), of_rest()),
        ("rmcp-json", "rmcp's server, without sessions, JSON", Site::Rmcp("json"), of_mcp(ECHO)),
        ("rmcp-sessions", "rmcp's server, as it is by default", Site::Rmcp("sessions"), of_mcp(ECHO)),
        ("fastmcp", "FastMCP's server", Site::FastMcp(0), of_mcp(ECHO)),
        ("proxy-stdio", "FastMCP's proxy in front of a server on stdio", Site::FastMcpProxy("stdio"), of_mcp(ECHO)),
        ("proxy-http", "FastMCP's proxy in front of its server", Site::FastMcpProxy("http"), of_mcp(ECHO)),
        ("mcpo", "mcpo in front of a server on stdio", Site::Mcpo, of_mcpo()),
    ]
    .into_iter()
    .map(|(id, name, site, call)| (id, row(id, name, site, call)))
    .unzip();
    let mut all = vec![row("mcp", "openskill MCP", in_process(), of_mcp(ECHO)).beside(&names)];
    all.extend(peers);
    let of_openskill = in_process().with_skills(more);
    all.extend([
        row("list", "openskill MCP, 1,000 tools listed", of_openskill, list.clone()).beside(&["list-fastmcp"]),
        row("list-fastmcp", "FastMCP's server, 1,000 tools listed", Site::FastMcp(LISTED), list),
    ]);
    Rows { all, _kept: (None, None) }
}

fn script(isolation: &str, more: &str) -> Site {
    let how = format!("type: cli\nruntime: python\nentry: echo.py\nisolation: {isolation}\n{more}{SCHEMA}");
    Site::openskill(&how)
}

/// The runners of openskill, with their jail and without.
pub(crate) async fn runners() -> Rows {
    let mut all = Vec::new();
    for (suffix, words, jail) in [("", "", ""), ("-bare", ", no jail", "jail: \"off\"\n")] {
        for (isolation, name) in ISOLATIONS {
            let (id, name) = (format!("{isolation}{suffix}"), format!("`cli:python`, {name}{words}"));
            all.push(row(&id, &name, script(isolation, jail), invoke(ECHO)).of_script(&format!("process{suffix}")));
        }
        let cat = Site::openskill(&format!("type: cli\nruntime: exec\nentry: /bin/cat\n{jail}{SCHEMA}"));
        all.push(row(&format!("exec{suffix}"), &format!("`cli:exec` (`cat`){words}"), cat, invoke(ECHO)));
        let server = Site::openskill(&format!("{SERVER}entry: servers/small.py\n{jail}"));
        let server = server.with_server("servers/small.py", include_str!("python/small_server.py"));
        all.push(row(&format!("mcp{suffix}"), &format!("`mcp:stdio`, a small server{words}"), server, invoke(TOOL)));
    }
    all.push(row("inproc", "`inproc`", in_process(), invoke(ECHO)));
    let backend = Backend::start(|seen| Reply::json(200, &seen.json())).await;
    let (url, host) = (backend.url("/"), backend.address);
    let http = format!("type: http\nentry: {url}\nhttp: {{allow: ['{host}']}}\n{SCHEMA}");
    all.push(row("http", "`http`, a server on this machine", Site::openskill(&http), invoke(ECHO)));
    let image = Image::or_skip();
    if let Some(image) = &image {
        let docker = format!("type: docker\nentry: {}\ndocker: {{command: [/bin/cat]}}\n", image.id);
        all.push(row("docker", "`docker` (`cat`)", Site::openskill(&docker), invoke(ECHO)));
    }
    // As many as are in flight at most, so that no call waits for a slot.
    let most = RUNNERS_IN_FLIGHT.into_iter().max().unwrap_or_default().to_string();
    for row in &mut all {
        row.site = row.site.clone().with("OPENSKILL_WORKER_CONCURRENCY", &most);
    }
    Rows { all, _kept: (Some(backend), image) }
}
