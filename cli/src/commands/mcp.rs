//! `openskill mcp`: MCP over stdin and stdout, and its configuration in clients.

use std::process::ExitCode;

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
    if served.gateway.is_none() {
        return up::run_for(&own(served.skills), settings, raw, |address| async move {
            stdio::run(&format!("http://{address}"), None).await
        });
    }
    let authorization = settings.access.authorization()?;
    block_on(async {
        stdio::run(&settings.base_url, authorization).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// A gateway for this client alone. Its flags are settings already.
fn own(skills: SkillFolders) -> Up {
    Up { workers: 1, listen: None, admin_listen: None, worker_metrics: None, agent: Default::default(), skills }
}
