//! `openskill pin`: pins the current tools of an MCP server.

use std::process::ExitCode;

use openskill_worker::check::PinError;

use crate::args::PinArgs;
use crate::commands::runtime::block_on;
use crate::exit::{FAILED, Failure};
use crate::serve;
use crate::settings::{RawSettings, Settings};
use crate::terminal::{pluralize, print_err, print_out};

pub(super) fn run(args: &PinArgs, settings: &Settings, raw: &RawSettings) -> Result<ExitCode, Failure> {
    let config = serve::worker::config(settings, raw)?;
    block_on(async {
        match openskill_worker::check::pin(config, &args.server).await {
            Ok((file, tools)) => {
                let tools = pluralize(tools, "tool");
                print_out(&format!("pinned {tools} of {} in {}\n", args.server, file.display()));
                Ok(ExitCode::SUCCESS)
            }
            Err(error @ PinError::NotFound { .. }) => Err(Failure::Usage(error.to_string())),
            Err(PinError::System(source)) => Err(Failure::System { what: "setting up the sandbox".to_owned(), source }),
            Err(error) => {
                print_err(&format!("{error}\n"));
                Ok(ExitCode::from(FAILED))
            }
        }
    })
}
