//! Starts the command of a configuration as an MCP client does, and lists its tools.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::args::McpClient;
use crate::exit::Failure;
use crate::runtime::single_threaded;
use crate::stdio::{InputLine, next_line};

/// The variables that clients pass on to what they start.
pub(super) const INHERITED: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/// The maximum time until the tools are listed. Environments of skills may have to be built.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum time until the command ends with its input.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of the command's stderr is shown if it fails, in bytes.
const MAX_STDERR: u64 = 16 * 1024;

/// Returns the placeholder of a variable that the client replaces by its own value of it, or nothing. `None` if the
/// client replaces none.
pub(super) fn placeholder(client: McpClient, name: &str) -> Option<String> {
    match client {
        McpClient::Claude => Some(format!("${{{name}:-}}")),
        McpClient::Cursor | McpClient::Vscode => Some(format!("${{env:{name}}}")),
        McpClient::ClaudeDesktop => None,
    }
}

/// Returns the number of tools that the client sees.
///
/// # Errors
/// The command does not start, does not answer as a server, or has no tools. Prints why.
pub(super) fn count_tools(server: &Value, client: McpClient) -> Result<usize, Failure> {
    single_threaded()?.block_on(async {
        let mut child = command(server, client).spawn().map_err(Failure::system("starting the command"))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let log = tokio::spawn(async move {
            let mut text = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = (&mut stderr).take(MAX_STDERR).read_to_end(&mut text).await;
                // A full pipe would stop the command.
                let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            }
            text
        });
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err(Failure::printed(&"it has no pipes")) };
        let mut client = Client { stdin, stdout: BufReader::new(stdout), last_id: 0 };
        let counted = tokio::time::timeout(TIMEOUT, client.count()).await;
        let counted =
            counted.unwrap_or_else(|_| Err(format!("it did not list its tools within {} s", TIMEOUT.as_secs())));
        drop(client);
        end(child).await;
        match counted {
            Ok(count) => Ok(count),
            Err(reason) => {
                // A process that it left may have its stderr.
                let log = tokio::time::timeout(EXIT_TIMEOUT, log).await;
                let log = log.ok().and_then(Result::ok).unwrap_or_default();
                Err(Failure::printed(&format!("check failed: {reason}\n{}", String::from_utf8_lossy(&log).trim_end())))
            }
        }
    })
}

/// Returns the command, in another directory and only with the variables that the client passes on.
fn command(server: &Value, client: McpClient) -> Command {
    let mut command = Command::new(server["command"].as_str().unwrap_or_default());
    let arguments = server["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let env = server["env"].as_object().into_iter().flatten().filter_map(|(name, value)| {
        let value = value.as_str()?;
        let is_replaced = placeholder(client, name).is_some_and(|it| it == value);
        Some((name, if is_replaced { std::env::var_os(name).unwrap_or_default() } else { value.into() }))
    });
    command
        .args(arguments)
        .env_clear()
        .envs(INHERITED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .envs(env)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn end(mut child: Child) {
    if tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

struct Client {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
}

impl Client {
    async fn count(&mut self) -> Result<usize, String> {
        let version = env!("CARGO_PKG_VERSION");
        let own = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "openskill-mcp-config", "version": version},
        });
        self.request("initialize", own).await?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        let (mut count, mut parameters) = (0, json!({}));
        loop {
            let result = self.request("tools/list", parameters).await?;
            count += result["tools"].as_array().map_or(0, Vec::len);
            let Some(cursor) = result["nextCursor"].as_str() else {
                return if count > 0 { Ok(count) } else { Err("it has no tools".to_owned()) };
            };
            parameters = json!({ "cursor": cursor });
        }
    }

    async fn request(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        self.last_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": parameters})).await?;
        loop {
            let line = next_line(&mut self.stdout).await.map_err(|error| error.to_string())?;
            let message: Value = match line {
                Some(InputLine::Text(text)) => serde_json::from_str(&text)
                    .map_err(|_| "it wrote a line to stdout that is not a message".to_owned())?,
                Some(InputLine::Unusable) => return Err("it wrote a line to stdout that is too long".to_owned()),
                None => return Err(format!("it ended before it answered {method}")),
            };
            if message["id"] == self.last_id {
                return match message.get("error") {
                    Some(error) => Err(format!("it answered {method} with {error}")),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }

    async fn send(&mut self, message: &Value) -> Result<(), String> {
        let sent = self.stdin.write_all(format!("{message}\n").as_bytes()).await;
        sent.map_err(|_| "it ended before it read its input".to_owned())
    }
}
