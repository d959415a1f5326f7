//! `openskill pin`.

use std::process::ExitCode;

use openskill_worker::check::PinError;

use crate::args::Pin;
use crate::commands::runtime::block_on;
use crate::exit::{FAILED, Failure};
use crate::serve;
use crate::settings::{Raw, Settings};
use crate::terminal::{complain, counted, say};

pub(super) fn run(args: &Pin, settings: &Settings, raw: &Raw) -> Result<ExitCode, Failure> {
    let config = serve::worker::config(settings, raw)?;
    block_on(async {
        match openskill_worker::check::pin(config, &args.server).await {
            Ok((file, tools)) => {
                let tools = counted(tools, "tool");
                say(&format!("pinned {tools} of {} in {}\n", args.server, file.display()));
                Ok(ExitCode::SUCCESS)
            }
            Err(error @ PinError::NotFound { .. }) => Err(Failure::Usage(error.to_string())),
            Err(PinError::System(source)) => Err(Failure::System { what: "setting up the sandbox".to_owned(), source }),
            Err(error) => {
                complain(&format!("{error}\n"));
                Ok(ExitCode::from(FAILED))
            }
        }
    })
}
