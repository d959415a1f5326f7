//! How soon a server of MCP on stdio answers `initialize`, from the start of its process.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::quantile::median;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::caller::initialize;
use crate::hosts;
use crate::rows;
use crate::settings::Settings;

/// For `--only`.
pub(crate) const ID: &str = "stdio";

/// How often each is started.
const STARTS: usize = 15;
const PATIENCE: Duration = Duration::from_secs(40);

/// A table of openskill before a running gateway, openskill with a gateway of its own, and FastMCP.
pub(crate) async fn text(settings: &Settings) -> Result<String, String> {
    let python = settings.python.first().ok_or("no Python")?;
    let gateway = rows::in_process().start(settings, python, None).await?;
    let (folder, url) = (Folder::new(), format!("http://{}", gateway.address));
    let skill = format!("id: {}\n{}", rows::ECHO, rows::IN_PROCESS);
    folder.write("skills/echo.yaml", skill);
    let server = folder.write("echo_server.py", hosts::SERVER);
    std::fs::create_dir(folder.path().join("data")).map_err(|error| error.to_string())?;
    let own = format!("{}", folder.path().join("skills").display());
    let server = server.display().to_string();
    let mut all = vec![
        ("`openskill mcp` before a running gateway", binary(), vec!["mcp", "--gateway", &url]),
        ("`openskill mcp` with a gateway of its own", binary(), vec!["mcp", "--skills-dir", &own]),
    ];
    if let Some(hosts) = &settings.hosts {
        all.push(("FastMCP's server", hosts.clone(), vec![&server]));
    }
    let mut text = "\n## Ready on stdio\n\n| | median | slowest |\n|---|---:|---:|\n".to_owned();
    for (name, program, arguments) in all {
        let mut took = Vec::new();
        for _ in 0..STARTS {
            let answered = tokio::time::timeout(PATIENCE, answers(&program, &arguments, folder.path())).await;
            took.push(answered.map_err(|_| format!("{name} does not answer"))??);
        }
        let slowest = took.iter().max().copied().unwrap_or_default();
        let ms = |it: Duration| format!("{:.0} ms", it.as_secs_f64() * 1e3);
        text += &format!("| {name} | {} | {} |\n", ms(median(took)), ms(slowest));
    }
    Ok(text)
}

/// Starts it, asks, reads the answer, and ends it by the end of its input.
async fn answers(program: &Path, arguments: &[&str], folder: &Path) -> Result<Duration, String> {
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("OPENSKILL_TRACE_DIR", "off").env("XDG_STATE_HOME", folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("it has no pipes".to_owned());
    };
    let ended = |error: std::io::Error| format!("{}: {error}", program.display());
    stdin.write_all(format!("{}\n", initialize()).as_bytes()).await.map_err(ended)?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await.map_err(ended)?;
    let took = begun.elapsed();
    if !line.contains("protocolVersion") {
        return Err(format!("{}: no answer to `initialize`: {line}", program.display()));
    }
    drop(stdin);
    child.wait().await.map_err(ended)?;
    Ok(took)
}
