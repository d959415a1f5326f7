//! `openskill mcp`: MCP over stdin and stdout, and its configuration in clients.

use std::process::ExitCode;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::args::{Mcp, McpCommand, SkillFolders, Up};
use crate::commands::runtime::block_on;
use crate::exit::Failure;
use crate::serve::up;
use crate::settings::{Raw, Settings};
use crate::stdio;

mod clients;

pub(super) fn run(args: Mcp, settings: &Settings, raw: &Raw) -> Result<ExitCode, Failure> {
    let Mcp { served, command } = args;
    if let Some(McpCommand::Config(config)) = command {
        return clients::run(&config);
    }
    let view = served.view.clone();
    if served.gateway.is_none() {
        return up::run_for(&own(served.skills), settings, raw, |address| async move {
            stdio::run(&endpoint(&format!("http://{address}"), view.as_deref()), HeaderMap::new(), None).await
        });
    }
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

/// A gateway for this client alone. Its flags are settings already.
fn own(skills: SkillFolders) -> Up {
    Up { workers: 1, listen: None, admin_listen: None, worker_metrics: None, agent: Default::default(), skills }
}
