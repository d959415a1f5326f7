//! `openskill mcp`: MCP over stdin and stdout, and its configuration in clients.

use std::process::ExitCode;

use http::header::AUTHORIZATION;

#[cfg(feature = "worker")]
use crate::args::{AgentStore, Up};
use crate::args::{Mcp, McpCommand, Served};
use crate::commands::runtime::block_on;
use crate::exit::Failure;
#[cfg(feature = "worker")]
use crate::serve::up;
use crate::settings::{Raw, Settings};
use crate::stdio;

mod clients;

pub(super) fn run(args: Mcp, settings: &Settings, raw: &Raw) -> Result<ExitCode, Failure> {
    let Mcp { served, command } = args;
    if let Some(McpCommand::Config(config)) = command {
        return clients::run(&config);
    }
    if served.gateway.is_none() {
        return alone(served, settings, raw);
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

/// Where a gateway serves MCP.
fn endpoint(base_url: &str, view: Option<&str>) -> String {
    view.map_or_else(|| format!("{base_url}/mcp"), |view| format!("{base_url}/mcp/{view}"))
}

/// With a gateway for this client alone. Its flags are settings already.
#[cfg(feature = "worker")]
fn alone(served: Served, settings: &Settings, raw: &Raw) -> Result<ExitCode, Failure> {
    let (view, skills) = (served.view, served.skills);
    let own =
        Up { workers: 1, listen: None, admin_listen: None, worker_metrics: None, agent: AgentStore::default(), skills };
    up::run_for(&own, settings, raw, |address| async move {
        stdio::run(&endpoint(&format!("http://{address}"), view.as_deref()), http::HeaderMap::new(), None).await
    })
}

#[cfg(not(feature = "worker"))]
fn alone(_: Served, _: &Settings, _: &Raw) -> Result<ExitCode, Failure> {
    Err(Failure::NoWorker { command: "mcp` without `--gateway".to_owned() })
}
