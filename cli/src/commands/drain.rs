//! `openskill drain`.

use std::process::ExitCode;

use openskill_proto::v1::DrainRequest;

use super::client;
use crate::args::Drain;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::say;

pub(super) async fn run(args: &Drain, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut admin = client::admin(settings).await?;
    let request = DrainRequest { worker_id: args.worker_id.clone().unwrap_or_default(), resume: args.resume };
    let answer = admin.drain(request).await.map_err(client::refused(settings))?.into_inner();
    let target = args.worker_id.as_deref().unwrap_or("the gateway");
    let what = if args.resume { "takes calls again" } else { "takes no new calls" };
    say(&format!("{target} {what}; {} in flight\n", answer.in_flight));
    Ok(ExitCode::SUCCESS)
}
