//! Peers: tonic alone, hosts in Python, and a server of rmcp. The hosts' packages are in virtual environments; the interpreter
//! that runs their script is the one that openskill has for it.

use std::path::Path;

use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use tokio::process::Command;

use crate::child::Child;
use crate::rows::TEXT;
use crate::site::Running;

pub(crate) const ECHO_SCRIPT: &str = include_str!("python/echo.py");
pub(crate) const SERVER: &str = include_str!("python/echo_server.py");

/// client -> TCP -> forwarder -> unix socket -> server
pub(crate) async fn forwarder(threads: usize) -> Result<Running, String> {
    let (folder, port) = (Folder::new(), Port::reserve());
    let socket = format!("unix:{}", folder.path().join("server.sock").display());
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let command = |listen: &str, more: &[&str]| {
        let mut command = Command::new(&own);
        command.args(["forwarder", "--threads", &threads.to_string(), "--listen", listen]).args(more);
        command
    };
    let server = Child::start(command(&socket, &[]), &folder.path().join("server.log"))?;
    let log = folder.path().join("forwarder.log");
    let mut forwarder = Child::start(command(&port.address().to_string(), &["--to", &socket]), &log)?;
    forwarder.listens(port.address(), &log).await?;
    Ok(Running::of_children(port, vec![server, forwarder], folder))
}

/// Starts a program in a folder with everything that the hosts run. `line` is given the port.
pub(crate) async fn host(program: &Path, line: impl Fn(u16) -> String, script: &Path) -> Result<Running, String> {
    let (folder, port) = (Folder::new(), Port::reserve());
    folder.write("skills/echo.py", ECHO_SCRIPT);
    folder.write("host.py", include_str!("python/host.py"));
    folder.write("proxy.py", include_str!("python/proxy.py"));
    folder.write("echo_server.py", SERVER);
    folder.write("echo_http.py", include_str!("python/echo_http.py"));
    let mut command = Command::new(program);
    command
        .args(line(port.number()).split_whitespace())
        .current_dir(folder.path())
        .env("BENCH_SCRIPT_PYTHON", script)
        .env("BENCH_TEXT", TEXT)
        .env("BENCH_PORT", port.number().to_string());
    let log = folder.path().join("host.log");
    let mut child = Child::start(command, &log)?;
    child.listens(port.address(), &log).await?;
    Ok(Running::of_children(port, vec![child], folder))
}
