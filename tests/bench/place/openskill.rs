//! `openskill up --workers 1`, as it ships or with a piece of it off, and its log in a file as a service has it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use openskill_tests::folder::Folder;
use openskill_tests::system::Setup;

use super::bare::own;
use super::hosts::{SERVER, Transport, server_over_http};
use super::{Pythons, Running};
use crate::child::Child;
use crate::contenders::{ECHO_SCRIPT, SCHEMA};

/// What is not as shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Piece {
    /// Everything is.
    Shipped,
    /// Everything is, for calls of this skill alone.
    ShippedFor(&'static str),
    CircuitsOff,
    CallLogOff,
    /// Traces go to a collector: this share of them.
    Traces(Share),
    /// No circuits and no call log.
    Least,
    /// As shipped, with the MCP server that the proxies have.
    McpServer(Transport),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Share {
    All,
    Tenth,
}

pub(super) async fn start(piece: Piece, pythons: &Pythons) -> Result<Running, String> {
    let folder = Folder::new();
    write_skills(&folder);
    let server = match piece {
        Piece::McpServer(Transport::Stdio) => {
            write_server(&folder, pythons.hosts()?).map_err(|error| error.to_string())?;
            None
        }
        Piece::McpServer(Transport::Http) => {
            let (server, at) = server_over_http(&folder, pythons).await?;
            let how = format!("entry: http://{at}/mcp\nmcp: {{allow: ['{at}']}}\n");
            folder.write("skills/server.yaml", format!("id: server\ntype: mcp\nruntime: http\n{how}"));
            Some(server)
        }
        _ => None,
    };
    let mut beside = Vec::new();
    let mut setup = shipped(&folder, 1).with("OPENSKILL_PYTHON", pythons.script.display());
    if matches!(piece, Piece::CircuitsOff | Piece::Least) {
        setup = setup.with("CIRCUIT_FAILURE_THRESHOLD", 0).with("OPENSKILL_CIRCUIT_MINIMUM_CALLS", 0);
    }
    if matches!(piece, Piece::CallLogOff | Piece::Least) {
        setup = setup.with("OPENSKILL_LOG", "error");
    }
    if let Piece::Traces(share) = piece {
        let (sink, address) = own(&["otlp-sink", "--listen", "127.0.0.1:0"], &folder.path().join("sink.log")).await?;
        beside.push(sink);
        setup = setup.with("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"));
        let part = if share == Share::All { "1.0" } else { "0.1" };
        setup = setup.with("OTEL_TRACES_SAMPLER_ARG", part);
    }
    // The tools of a server come a moment later than the rest.
    let last = if matches!(piece, Piece::McpServer(_)) { SERVERS_ECHO } else { "echo" };
    let mut running = started(setup, beside, folder, last).await?;
    if let Some(server) = server {
        running.add(server);
    }
    Ok(running)
}

/// Starts it and waits until a skill is there. The harness panics where it waited in vain: here that is one reason among
/// others.
pub(crate) async fn started(
    setup: Setup,
    beside: Vec<Child>,
    folder: Folder,
    skill: &'static str,
) -> Result<Running, String> {
    let starting = tokio::spawn(async move {
        let system = setup.start().await;
        system.has_skill(skill).await;
        system
    });
    let system = starting.await.map_err(|_| "openskill did not start".to_owned())?;
    Ok(Running::of_system(system, beside, folder))
}

/// The skills of `folder`.
pub(crate) fn shipped(folder: &Folder, workers: usize) -> Setup {
    let skills = folder.path().join("skills");
    Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", &workers.to_string()])
        .flag("--skills-dir", skills.display())
        .log_to(&folder.path().join("openskill.log"))
        .at_its_own_pace()
}

/// The tool of the MCP server.
pub(crate) const SERVERS_ECHO: &str = "server__echo";

/// The MCP server that the proxies have, trusted as theirs is.
fn write_server(folder: &Folder, python: &Path) -> std::io::Result<()> {
    let text = format!("#!{}\n{SERVER}", python.display());
    let server = folder.write("skills/servers/echo_server.py", text);
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755))?;
    let how = "type: mcp\nruntime: stdio\nentry: servers/echo_server.py\nmcp: {start_s: 60}\njail: \"off\"\n";
    folder.write("skills/server.yaml", format!("id: server\n{how}"));
    Ok(())
}

fn write_skills(folder: &Folder) {
    let write = |id: &str, how: &str| folder.write(&format!("skills/{id}.yaml"), format!("id: {id}\n{how}"));
    let echo = "type: inproc\nentry: echo\n";
    write("echo", &format!("{echo}{SCHEMA}"));
    write("echo_without_schema", echo);
    write("wait", "type: inproc\nentry: wait\n");
    folder.write("skills/echo.py", ECHO_SCRIPT);
    for isolation in ["fork", "shared", "process"] {
        let how = format!("type: cli\nruntime: python\nentry: echo.py\nisolation: {isolation}\n{SCHEMA}");
        write(isolation, &how);
    }
}
