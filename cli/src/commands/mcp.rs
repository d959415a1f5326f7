//! `openskill mcp`: MCP over stdin and stdout, and the configuration of MCP clients.

use http::header::AUTHORIZATION;

use crate::args::{McpArgs, McpCommand, McpTargetArgs};
use crate::exit::Failure;
use crate::runtime::block_on;
#[cfg(feature = "worker")]
use crate::serve::up;
use crate::settings::{RawSettings, Settings};
use crate::stdio;

mod configuration;
mod trial;

pub(super) fn run(args: McpArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    let McpArgs { served, command } = args;
    if let Some(McpCommand::Config(config)) = command {
        return configuration::run(&config, settings, raw);
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
        Ok(())
    })
}

/// Builds the URL at which a gateway serves MCP.
fn endpoint(base_url: &str, view: Option<&str>) -> String {
    view.map_or_else(|| format!("{base_url}/mcp"), |view| format!("{base_url}/mcp/{view}"))
}

/// Serves the client with a gateway in this process, for this client only. The settings already include the flags
/// of `served`.
#[cfg(feature = "worker")]
fn run_with_own_gateway(served: McpTargetArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    up::run_for(settings, raw, async move |address| {
        let url = endpoint(&format!("http://{address}"), served.view.as_deref());
        stdio::run(&url, http::HeaderMap::new(), None).await
    })
}

#[cfg(not(feature = "worker"))]
fn run_with_own_gateway(_: McpTargetArgs, _: &Settings, _: &RawSettings) -> Result<(), Failure> {
    Err(Failure::NoWorker { command: "mcp` without `--gateway".to_owned() })
}
