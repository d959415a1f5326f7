//! `openskill mcp`: MCP over stdin and stdout, and the configuration of MCP clients.

use std::process::ExitCode;

use http::header::AUTHORIZATION;

#[cfg(feature = "worker")]
use crate::args::{AgentStore, UpArgs};
use crate::args::{McpArgs, McpCommand, McpTargetArgs};
use crate::commands::runtime::block_on;
use crate::exit::Failure;
#[cfg(feature = "worker")]
use crate::serve::up;
use crate::settings::{RawSettings, Settings};
use crate::stdio;

mod clients;

pub(super) fn run(args: McpArgs, settings: &Settings, raw: &RawSettings) -> Result<ExitCode, Failure> {
    let McpArgs { served, command } = args;
    if let Some(McpCommand::Config(config)) = command {
        return clients::run(&config);
    }
    if served.gateway.is_none() {
        return run_with_own_gateway(served, settings, raw);
    }
    let view = served.view;
    let mut headers = settings.access.headers.clone();
    headers.extend(settings.access.authorization()?.map(|it| (AUTHORIZATION, it)));
    let is_encrypted = settings.base_url.starts_with("https://");
    let tls = if is_encrypted { Some(settings.tls.connector()?.client_config()) } else { None };
    block_on(async {
        stdio::run(&endpoint(&settings.base_url, view.as_deref()), headers, tls).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Builds the URL at which a gateway serves MCP.
fn endpoint(base_url: &str, view: Option<&str>) -> String {
    view.map_or_else(|| format!("{base_url}/mcp"), |view| format!("{base_url}/mcp/{view}"))
}

/// Serves the client with a gateway in this process, for this client only. The settings already include the flags
/// of `served`.
#[cfg(feature = "worker")]
fn run_with_own_gateway(served: McpTargetArgs, settings: &Settings, raw: &RawSettings) -> Result<ExitCode, Failure> {
    let (view, skills) = (served.view, served.skills);
    let own = UpArgs {
        workers: 1,
        listen: None,
        admin_listen: None,
        worker_metrics: None,
        agent: AgentStore::default(),
        skills,
    };
    up::run_for(&own, settings, raw, |address| async move {
        stdio::run(&endpoint(&format!("http://{address}"), view.as_deref()), http::HeaderMap::new(), None).await
    })
}

#[cfg(not(feature = "worker"))]
fn run_with_own_gateway(_: McpTargetArgs, _: &Settings, _: &RawSettings) -> Result<ExitCode, Failure> {
    Err(Failure::NoWorker { command: "mcp` without `--gateway".to_owned() })
}
