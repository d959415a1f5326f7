//! `openskill drain`: drains a worker or the whole gateway, or resumes it.

use std::time::Duration;

use openskill_proto::v1::admin_service_client::AdminServiceClient;
use openskill_proto::v1::{DrainRequest, ListCallsRequest, ListWorkersRequest, WorkerStatus};

use super::client;
use super::input::confirm;
use crate::args::DrainArgs;
use crate::channel::Channel;
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
    let answer = admin.drain(request).await.map_err(client::into_failure(settings))?.into_inner();
    let target = worker_id.map_or("the gateway", String::as_str);
    let what = if args.resume { "accepts calls again" } else { "accepts no new calls" };
    print_out(&format!("{target} {what}; {} in flight\n", answer.in_flight));
    if args.wait {
        match worker_id {
            Some(id) => wait_for_worker(&mut admin, id, settings).await?,
            None => wait_for_gateway(settings).await?,
        }
        print_out("no call is in flight\n");
    }
    Ok(())
}

/// Waits until this gateway has no call at the worker. Calls end by their deadlines.
async fn wait_for_worker(
    admin: &mut AdminServiceClient<Channel>,
    id: &str,
    settings: &Settings,
) -> Result<(), Failure> {
    loop {
        let answer = admin.list_workers(ListWorkersRequest {}).await.map_err(client::into_failure(settings))?;
        let worker = answer.into_inner().workers.into_iter().find(|it| it.worker_id == id);
        match worker {
            Some(worker) if worker.status() == WorkerStatus::Up => {
                return Err(Failure::printed(&format!("{id} was resumed meanwhile")));
            }
            Some(worker) if worker.in_flight > 0 => tokio::time::sleep(INTERVAL).await,
            _ => return Ok(()),
        }
    }
}

/// Waits until no call runs at the gateway.
async fn wait_for_gateway(settings: &Settings) -> Result<(), Failure> {
    let mut traces = client::traces(settings).await?;
    loop {
        let request = ListCallsRequest { limit: 1, ..ListCallsRequest::default() };
        let answer = traces.list_calls(request).await.map_err(client::into_failure(settings))?;
        if answer.into_inner().calls.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(INTERVAL).await;
    }
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
