//! `grpc.health.v1`: SERVING while the gateway is ready, for the server as a whole, for `SkillService`, and for
//! `AgentService` if it is served.

use std::sync::Arc;

use openskill_agent::faces::grpc::SERVICE_NAME as AGENT;
use openskill_proto::v1::skill_service_server::SERVICE_NAME as SKILLS;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use crate::gateway::Gateway;

/// The status that all shards report.
#[derive(Clone)]
pub(crate) struct Health {
    reporter: HealthReporter,
    services: &'static [&'static str],
}

impl Health {
    pub(crate) async fn new(with_agent: bool) -> Self {
        Self::of(if with_agent { &["", SKILLS, AGENT] } else { &["", SKILLS] }).await
    }

    /// Of a listener that serves an agent alone.
    pub(crate) async fn of_agent() -> Self {
        Self::of(&["", AGENT]).await
    }

    async fn of(services: &'static [&'static str]) -> Self {
        let health = Self { reporter: HealthReporter::new(), services };
        health.set(false).await;
        health
    }

    pub(crate) fn add_to(&self, routes: Routes) -> Routes {
        routes.add_service(HealthServer::new(HealthService::from_health_reporter(self.reporter.clone())))
    }

    /// Follows the gateway until it is told to shut down.
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
                () = gateway.leaving.cancelled() => return self.set(false).await,
            }
        }
    }

    pub(crate) async fn set(&self, serving: bool) {
        let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in self.services {
            self.reporter.set_service_status(*service, status).await;
        }
    }
}
