//! Finding workers, and following what each says of itself.
//!
//! One task looks at the sources again and again and keeps a task for each worker found; that one listens to the
//! worker's `Describe` stream for as long as the worker is a member. Each change makes a new catalog.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use openskill_proto::limits::MAX_STATE_BYTES;
use openskill_proto::v1::DescribeRequest;
use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use tokio::task::{AbortHandle, JoinSet};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::Worker;
use super::attempt::ORIGIN;
use super::link::Via;
use super::source::Endpoint;
use crate::gateway::Gateway;

/// Between two tries to reach a worker: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));

/// Before the first try to reach a worker again that drained.
const DRAINED: Duration = Duration::from_millis(250);

/// How long one source may take to be looked up, so that it does not keep the others from it.
const LOOK_UP: Duration = Duration::from_secs(2);

/// How often a worker is asked for its health, and how long it may take to answer. One that hangs is left out soon, though
/// its connections stay; one on a busy machine is not taken for it.
const HEALTH: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// Finds and follows workers until dropped.
pub(crate) async fn run(gateway: Arc<Gateway>, shards: usize) {
    let mut following = Following::default();
    let mut last: HashMap<usize, BTreeSet<Endpoint>> = HashMap::new();
    loop {
        for (number, source) in gateway.config.workers.iter().enumerate() {
            match tokio::time::timeout(LOOK_UP, source.resolve()).await {
                Ok(Ok(found)) => {
                    last.insert(number, found.into_iter().collect());
                }
                // What was known stays: a name server that is down for a moment takes no worker away.
                Ok(Err(error)) => tracing::debug!(?source, %error, "workers could not be looked up"),
                Err(_) => tracing::debug!(?source, "looking up workers takes too long"),
            }
        }
        following.update(&gateway, shards, last.values().flatten().cloned().collect());
        tokio::time::sleep(gateway.config.refresh_interval).await;
    }
}

/// The tasks that follow workers. Dropping it ends them.
#[derive(Default)]
struct Following {
    tasks: JoinSet<()>,
    by_endpoint: HashMap<Endpoint, AbortHandle>,
}

impl Following {
    fn update(&mut self, gateway: &Arc<Gateway>, shards: usize, wanted: BTreeSet<Endpoint>) {
        let known = gateway.workers.members.load();
        if known.keys().eq(wanted.iter()) {
            return;
        }
        let members: BTreeMap<_, _> = wanted
            .into_iter()
            .map(|endpoint| match known.get(&endpoint) {
                Some(worker) => (endpoint, Arc::clone(worker)),
                None => (endpoint.clone(), Arc::new(Worker::new(endpoint, shards))),
            })
            .collect();
        self.by_endpoint.retain(|endpoint, task| {
            let stays = members.contains_key(endpoint);
            if !stays {
                tracing::info!(%endpoint, "worker removed");
                task.abort();
                // Calls that began before still know it.
                known.get(endpoint).map(|worker| worker.lose("removed".to_owned()));
            }
            stays
        });
        for (endpoint, worker) in &members {
            self.by_endpoint.entry(endpoint.clone()).or_insert_with(|| {
                tracing::info!(%endpoint, "worker found");
                self.tasks.spawn(follow(Arc::clone(gateway), Arc::clone(worker)))
            });
        }
        gateway.workers.replace(members);
        gateway.catalog.rebuild(&gateway.workers);
        while self.tasks.try_join_next().is_some() {}
    }
}

/// Listens to one worker, and tries again when it is lost.
async fn follow(gateway: Arc<Gateway>, worker: Arc<Worker>) {
    let mut back_off = BACK_OFF.0;
    loop {
        let listened = tokio::select! {
            ended = listen(&gateway, &worker) => ended,
            never = ask_for_health(&worker) => match never {},
        };
        let reason = match listened {
            Ok(()) => {
                back_off = BACK_OFF.0;
                "the connection ended".to_owned()
            }
            Err(status) => status.message().to_owned(),
        };
        let before = worker.lose(reason.clone());
        if let Some(state) = before {
            if state.draining {
                tracing::info!(endpoint = %worker.endpoint, "worker drains");
                // It goes on listening for a moment, with nothing new to say.
                back_off = DRAINED;
            } else {
                tracing::warn!(endpoint = %worker.endpoint, reason, "worker lost");
                back_off = BACK_OFF.0;
            }
            gateway.catalog.rebuild(&gateway.workers);
        }
        tokio::time::sleep(back_off).await;
        back_off = (back_off * 2).min(BACK_OFF.1);
    }
}

async fn listen(gateway: &Gateway, worker: &Worker) -> Result<(), tonic::Status> {
    let via = Via(Arc::clone(worker.control_link()));
    let mut client = WorkerServiceClient::with_origin(via, ORIGIN.clone()).max_decoding_message_size(MAX_STATE_BYTES);
    let mut states = client.describe(DescribeRequest {}).await?.into_inner();
    while let Some(state) = states.message().await? {
        tracing::info!(
            endpoint = %worker.endpoint,
            worker_id = state.worker_id,
            skills = state.skills.len(),
            draining = state.draining,
            "worker state"
        );
        gateway.catalog.learn(&state.skills);
        worker.learn(state);
        gateway.catalog.rebuild(&gateway.workers);
    }
    Ok(())
}

/// Asks the worker for its health again and again. What it answers does not matter, that it does.
async fn ask_for_health(worker: &Worker) -> std::convert::Infallible {
    let via = Via(Arc::clone(worker.control_link()));
    let mut client = HealthClient::with_origin(via, ORIGIN.clone());
    loop {
        tokio::time::sleep(HEALTH.0).await;
        if worker.state.load().is_none() {
            continue;
        }
        let answers = tokio::time::timeout(HEALTH.1, client.check(HealthCheckRequest::default())).await.is_ok();
        if worker.record.answers(answers) {
            match answers {
                true => tracing::info!(endpoint = %worker.endpoint, "worker answers again"),
                false => tracing::warn!(endpoint = %worker.endpoint, "worker does not answer and is left out"),
            }
        }
    }
}
