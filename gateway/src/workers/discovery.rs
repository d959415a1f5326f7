//! Finds workers, and follows the state and health of each.
//!
//! One task resolves the sources periodically, and starts a task for each worker that it finds. That task reads the
//! worker's `Describe` stream while a source lists the worker. Each change rebuilds the catalog.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use openskill_proto::limits::MAX_STATE_BYTES;
use openskill_proto::v1::DescribeRequest;
use tokio::task::{AbortHandle, JoinSet};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::link::{ORIGIN, Via};
use super::source::Endpoint;
use super::worker::{Worker, callable};
use crate::gateway::Gateway;

/// The initial and the maximum backoff between two connection attempts to a worker.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));

/// The backoff before the first connection attempt to a worker that drained.
const DRAINED: Duration = Duration::from_millis(250);

/// The timeout for resolving one source, so that it does not delay the others.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval and the timeout of health checks. They quickly eject a worker that hangs although its connections
/// stay open, but tolerate a slow worker on a busy machine.
const HEALTH_CHECK: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// Finds and follows workers until dropped.
pub(crate) async fn run(gateway: Arc<Gateway>, shards: usize) {
    let mut following = Following::default();
    let mut last: HashMap<usize, BTreeSet<Endpoint>> = HashMap::new();
    loop {
        for (number, source) in gateway.config.workers.iter().enumerate() {
            match tokio::time::timeout(RESOLVE_TIMEOUT, source.resolve(gateway.config.mesh.is_some())).await {
                Ok(Ok(found)) => {
                    last.insert(number, found.into_iter().collect());
                }
                // Keep the last result, so that a short outage of a name server does not remove workers.
                Ok(Err(error)) => tracing::debug!(?source, %error, "a worker source could not be resolved"),
                Err(_) => tracing::debug!(?source, "a worker source took too long to resolve"),
            }
        }
        following.update(&gateway, shards, last.values().flatten().cloned().collect());
        tokio::time::sleep(gateway.config.refresh_interval).await;
    }
}

/// The tasks that follow workers. Dropping this ends them.
#[derive(Default)]
struct Following {
    tasks: JoinSet<()>,
    by_endpoint: HashMap<Endpoint, AbortHandle>,
}

impl Following {
    fn update(&mut self, gateway: &Arc<Gateway>, shards: usize, wanted: BTreeSet<Endpoint>) {
        let known = gateway.fleet.members();
        if known.keys().eq(wanted.iter()) {
            return;
        }
        let members: BTreeMap<_, _> = wanted
            .into_iter()
            .map(|endpoint| match known.get(&endpoint) {
                Some(worker) => (endpoint, Arc::clone(worker)),
                None => (endpoint.clone(), Arc::new(Worker::new(endpoint, shards, gateway.config.mesh.as_ref()))),
            })
            .collect();
        self.by_endpoint.retain(|endpoint, task| {
            let stays = members.contains_key(endpoint);
            if !stays {
                tracing::info!(%endpoint, "worker removed");
                task.abort();
                // Calls in flight may still use it.
                if let Some(worker) = known.get(endpoint) {
                    worker.lose("removed".to_owned());
                }
            }
            stays
        });
        for (endpoint, worker) in &members {
            self.by_endpoint.entry(endpoint.clone()).or_insert_with(|| {
                tracing::info!(%endpoint, "worker found");
                self.tasks.spawn(follow(Arc::clone(gateway), Arc::clone(worker)))
            });
        }
        gateway.fleet.replace(members);
        gateway.catalog.rebuild(&gateway.fleet);
        while self.tasks.try_join_next().is_some() {}
    }
}

/// Follows one worker, and reconnects when it is lost.
async fn follow(gateway: Arc<Gateway>, worker: Arc<Worker>) {
    let mut backoff = BACKOFF.0;
    loop {
        let ended = tokio::select! {
            ended = read_states(&gateway, &worker) => ended,
            never = check_health(&worker) => match never {},
        };
        let reason = match ended {
            Ok(()) => {
                backoff = BACKOFF.0;
                "the connection ended".to_owned()
            }
            Err(status) => status.message().to_owned(),
        };
        let before = worker.lose(reason.clone());
        if let Some(state) = before {
            if state.draining {
                tracing::info!(endpoint = %worker.endpoint, "worker is draining");
                // A draining worker still accepts connections briefly, but has nothing new to report.
                backoff = DRAINED;
            } else {
                tracing::warn!(endpoint = %worker.endpoint, reason, "worker lost");
                backoff = BACKOFF.0;
            }
            gateway.catalog.rebuild(&gateway.fleet);
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF.1);
    }
}

async fn read_states(gateway: &Gateway, worker: &Worker) -> Result<(), tonic::Status> {
    let mut client = worker.control_link().client().max_decoding_message_size(MAX_STATE_BYTES);
    let mut states = client.describe(DescribeRequest {}).await?.into_inner();
    while let Some(state) = states.message().await? {
        tracing::info!(
            endpoint = %worker.endpoint,
            worker_id = state.worker_id,
            skills = callable(&state),
            draining = state.draining,
            "worker reported its state"
        );
        gateway.catalog.compile(&state.skills);
        worker.update(state);
        gateway.catalog.rebuild(&gateway.fleet);
    }
    Ok(())
}

/// Checks the worker's health periodically. Any response counts as healthy.
async fn check_health(worker: &Worker) -> std::convert::Infallible {
    let via = Via(Arc::clone(worker.control_link()));
    let mut client = HealthClient::with_origin(via, ORIGIN.clone());
    loop {
        tokio::time::sleep(HEALTH_CHECK.0).await;
        if !worker.is_connected() {
            continue;
        }
        let healthy = tokio::time::timeout(HEALTH_CHECK.1, client.check(HealthCheckRequest::default())).await.is_ok();
        if worker.record.set_healthy(healthy) {
            match healthy {
                true => tracing::info!(endpoint = %worker.endpoint, "worker answers health checks again"),
                false => {
                    tracing::warn!(endpoint = %worker.endpoint, "worker ejected: it does not answer health checks")
                }
            }
        }
    }
}
