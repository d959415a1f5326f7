//! How soon a server of MCP on stdio answers `initialize`, from the start of its process. The programs take turns.

use std::path::{Path, PathBuf};
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
pub(crate) const ID: &str = "startup";

/// How often each program is started in a round.
const STARTS: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(40);

/// A program, and how long its starts took.
struct Server {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    took: Vec<Duration>,
    failure: Option<String>,
}

impl Server {
    fn new(name: &'static str, program: PathBuf, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        Self { name, program, arguments, took: Vec::new(), failure: None }
    }

    async fn start(&mut self, folder: &Path) {
        let answered = tokio::time::timeout(PATIENCE, answers(&self.program, &self.arguments, folder)).await;
        match answered.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}"))) {
            Ok(took) => self.took.push(took),
            Err(reason) => self.failure = Some(reason),
        }
    }

    fn line(&self) -> String {
        let ms = |it: Duration| format!("{:.0} ms", it.as_secs_f64() * 1e3);
        let figures = match (&self.failure, self.took.iter().max()) {
            (None, Some(slowest)) => format!("{} | {}", ms(median(self.took.clone())), ms(*slowest)),
            (reason, _) => format!("{} | ", reason.as_deref().unwrap_or("not measured").replace(['|', '\n'], " ")),
        };
        format!("| {} | {figures} |\n", self.name)
    }
}

/// A table of openskill in front of a running gateway, openskill with a gateway of its own, and FastMCP.
pub(crate) async fn text(settings: &Settings) -> Result<String, String> {
    let python = settings.python.first().ok_or("no Python")?;
    let gateway = rows::in_process().start(settings, python, None).await?;
    let (folder, url) = (Folder::new(), format!("http://{}", gateway.address));
    folder.write("skills/echo.yaml", format!("id: {}\n{}", rows::ECHO, rows::in_process_manifest()));
    let server = folder.write("echo_server.py", hosts::SERVER);
    // The root that skills may use, unless a setting names another.
    std::fs::create_dir(folder.path().join("data")).map_err(|error| error.to_string())?;
    let skills = folder.path().join("skills").display().to_string();
    let mut all = vec![
        Server::new("`openskill mcp` in front of a running gateway", binary(), &["mcp", "--gateway", &url]),
        Server::new("`openskill mcp` with a gateway of its own", binary(), &["mcp", "--skills-dir", &skills]),
    ];
    if let Some(hosts) = &settings.hosts {
        all.push(Server::new("FastMCP's server", hosts.clone(), &[&server.display().to_string()]));
    }
    for _ in 0..settings.rounds * STARTS {
        for it in &mut all {
            it.start(folder.path()).await;
        }
    }
    let lines: String = all.iter().map(Server::line).collect();
    Ok(format!("\n## From the start to the answer, on stdio\n\n| | median | slowest |\n|---|---:|---:|\n{lines}"))
}

/// Starts it, asks, reads the answer, and ends it by the end of its input.
async fn answers(program: &Path, arguments: &[String], folder: &Path) -> Result<Duration, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", program.display());
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", folder).env("OPENSKILL_TRACE_DIR", "off");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("it has no pipes".to_owned());
    };
    stdin.write_all(format!("{}\n", initialize()).as_bytes()).await.map_err(failed)?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await.map_err(failed)?;
    let took = begun.elapsed();
    if !line.contains("protocolVersion") {
        return Err(format!("it does not answer `initialize`: {line}"));
    }
    drop(stdin);
    child.wait().await.map_err(failed)?;
    Ok(took)
}
