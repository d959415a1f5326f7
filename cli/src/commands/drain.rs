//! `openskill drain`: drains a worker or the whole gateway, or resumes it.

use openskill_proto::v1::DrainRequest;

use super::client;
use super::input::confirm;
use crate::args::DrainArgs;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::print_out;

pub(super) async fn run(args: &DrainArgs, settings: &Settings) -> Result<(), Failure> {
    let mut admin = client::admin(settings).await?;
    if args.worker_id.is_none() && !args.resume && !args.yes {
        allow(settings)?;
    }
    let request = DrainRequest { worker_id: args.worker_id.clone().unwrap_or_default(), resume: args.resume };
    let answer = admin.drain(request).await.map_err(client::into_failure(settings))?.into_inner();
    let target = args.worker_id.as_deref().unwrap_or("the gateway");
    let what = if args.resume { "accepts calls again" } else { "accepts no new calls" };
    print_out(&format!("{target} {what}; {} in flight\n", answer.in_flight));
    Ok(())
}

/// Asks for confirmation before draining the whole gateway. Fails if the user declines.
fn allow(settings: &Settings) -> Result<(), Failure> {
    let url = &settings.base_url;
    let question = format!("Drain the gateway at {url}? It refuses all calls until `openskill drain --resume`.");
    match confirm(&question)? {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::Usage("nothing was drained".to_owned())),
        None => Err(Failure::Usage(format!(
            "this would drain the whole gateway at {url}: add --yes, or the id of a worker (`openskill workers` lists them)"
        ))),
    }
}
