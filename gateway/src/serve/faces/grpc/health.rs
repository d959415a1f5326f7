//! `grpc.health.v1`: SERVING while the gateway is ready, for the server as a whole and for `SkillService`.

use std::sync::Arc;

use openskill_proto::v1::skill_service_server::SERVICE_NAME;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use crate::gateway::Gateway;

/// The status that all shards report.
#[derive(Clone)]
pub(crate) struct Health(HealthReporter);

impl Health {
    pub(crate) async fn new() -> Self {
        let health = Self(HealthReporter::new());
        health.set(false).await;
        health
    }

    pub(crate) fn add_to(&self, routes: Routes) -> Routes {
        routes.add_service(HealthServer::new(HealthService::from_health_reporter(self.0.clone())))
    }

    /// Follows the gateway until it shuts down.
    pub(crate) async fn follow(self, gateway: Arc<Gateway>) {
        let (mut changes, mut drained) = (gateway.catalog.changes(), gateway.drained());
        loop {
            self.set(gateway.is_ready()).await;
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                _ = drained.changed() => {}
                () = gateway.shutdown.cancelled() => return self.set(false).await,
            }
        }
    }

    async fn set(&self, serving: bool) {
        let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.0.set_service_status("", status).await;
        self.0.set_service_status(SERVICE_NAME, status).await;
    }
}
