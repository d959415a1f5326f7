//! `openskill drain`: drains a worker or the whole gateway, or resumes it.

use std::time::Duration;

use openskill_proto::v1::DrainRequest;

use super::client;
use super::input::confirm;
use crate::args::DrainArgs;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::print_out;

/// The time between two looks at the calls in flight.
const INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn run(args: &DrainArgs, settings: &Settings) -> Result<(), Failure> {
    let mut admin = client::admin(settings).await?;
    let worker_id = args.worker_id.as_ref().or(args.worker.as_ref());
    if worker_id.is_none() && !args.resume && !args.yes {
        allow(settings)?;
    }
    let request = DrainRequest { worker_id: worker_id.cloned().unwrap_or_default(), resume: args.resume };
    let mut drain = async || {
        let answer = admin.drain(request.clone()).await.map_err(client::into_failure(settings))?;
        Ok::<_, Failure>(answer.into_inner().in_flight)
    };
    let mut in_flight = drain().await?;
    let target = worker_id.map_or("the gateway", String::as_str);
    let what = if args.resume { "accepts calls again" } else { "accepts no new calls" };
    print_out(&format!("{target} {what}; {in_flight} in flight\n"));
    // Calls end by their deadlines.
    while args.wait && in_flight > 0 {
        tokio::time::sleep(INTERVAL).await;
        in_flight = drain().await?;
    }
    if args.wait {
        print_out("no call is in flight\n");
    }
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
