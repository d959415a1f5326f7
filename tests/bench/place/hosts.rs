//! Hosts in Python: FastAPI with a process for each call, a FastMCP proxy, mcpo. Their packages are in a virtual
//! environment; the script they run is run by the same interpreter that openskill has for it.

use std::net::SocketAddr;
use std::path::Path;

use openskill_tests::folder::Folder;
use openskill_tests::free;
use tokio::process::Command;

use super::{Pythons, Running};
use crate::child::Child;
use crate::contenders::ECHO_SCRIPT;

const HOST: &str = include_str!("../python/host.py");
const PROXY: &str = include_str!("../python/proxy.py");
pub(super) const SERVER: &str = include_str!("../python/echo_server.py");

/// How an MCP server is spoken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Transport {
    Stdio,
    Http,
}

/// The folder of a host: its program and what that starts.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("skills/echo.py", ECHO_SCRIPT);
    folder.write("host.py", HOST);
    folder.write("proxy.py", PROXY);
    folder.write("echo_server.py", SERVER);
    folder
}

async fn start(
    folder: Folder,
    program: &Path,
    arguments: &[String],
    address: SocketAddr,
    pythons: &Pythons,
) -> Result<Running, String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder.path())
        .env("BENCH_SCRIPT_PYTHON", &pythons.script)
        .env("BENCH_PORT", address.port().to_string());
    let log = folder.path().join("host.log");
    let mut child = Child::silent(command, &log)?;
    child.listens(address, &log).await?;
    Ok(Running::of_children(address, vec![child], folder))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

pub(super) async fn fastapi(workers: usize, pythons: &Pythons) -> Result<Running, String> {
    let address = free::address();
    let port = address.port();
    let line = format!("-m uvicorn host:app --port {port} --workers {workers} --log-level warning --no-access-log");
    start(folder(), pythons.hosts()?, &words(&line), address, pythons).await
}

/// Before the server on stdio, which is its child; or before one over HTTP, which is measured with it.
pub(super) async fn fastmcp(transport: Transport, pythons: &Pythons) -> Result<Running, String> {
    let folder = folder();
    if transport == Transport::Stdio {
        return start(folder, pythons.hosts()?, &words("proxy.py"), free::address(), pythons).await;
    }
    let (server, at) = server_over_http(&folder, pythons).await?;
    let line = ["proxy.py".to_owned(), format!("http://{at}/mcp")];
    let mut running = start(folder, pythons.hosts()?, &line, free::address(), pythons).await?;
    running.add(server);
    Ok(running)
}

/// The MCP server, and where it listens: at `/mcp`.
pub(super) async fn server_over_http(folder: &Folder, pythons: &Pythons) -> Result<(Child, SocketAddr), String> {
    let address = free::address();
    let server = folder.write("http/echo_server.py", SERVER);
    let mut command = Command::new(pythons.hosts()?);
    command.arg(server).arg(address.port().to_string());
    let log = folder.path().join("server.log");
    let mut child = Child::silent(command, &log)?;
    child.listens(address, &log).await?;
    Ok((child, address))
}

pub(super) async fn mcpo(pythons: &Pythons) -> Result<Running, String> {
    let address = free::address();
    let mut line = words(&format!("--host 127.0.0.1 --port {} --log-level WARNING --", address.port()));
    line.extend([pythons.hosts()?.display().to_string(), "echo_server.py".to_owned()]);
    let mcpo = pythons.mcpo.as_deref().ok_or("--mcpo was not given")?;
    start(folder(), mcpo, &line, address, pythons).await
}
