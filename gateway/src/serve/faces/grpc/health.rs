//! `grpc.health.v1`. Reports SERVING while the gateway is ready, for the server as a whole and for each service of
//! the listener.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{self, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::gateway::Gateway;

/// The status that all shards report.
#[derive(Clone)]
pub(crate) struct Health {
    is_serving: watch::Sender<bool>,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self { is_serving: watch::Sender::new(false) }
    }

    /// Adds a health service that knows `services`.
    pub(crate) fn add_to(&self, routes: Routes, services: &[&'static str]) -> Routes {
        routes.add_service(HealthServer::new(HealthService { health: self.clone(), services: services.into() }))
    }

    /// Updates the status until the gateway shuts down.
    pub(crate) async fn follow(self, gateway: Arc<Gateway>) {
        let (mut changes, mut drained) = (gateway.catalog.changes(), gateway.watch_drained());
        loop {
            self.set(gateway.is_ready());
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                _ = drained.changed() => {}
                () = gateway.leaving.cancelled() => return self.set(false),
            }
        }
    }

    pub(crate) fn set(&self, is_serving: bool) {
        self.is_serving.send_if_modified(|it| std::mem::replace(it, is_serving) != is_serving);
    }
}

/// The health service of one listener.
struct HealthService {
    health: Health,
    services: Vec<&'static str>,
}

impl HealthService {
    /// Whether a request names a service of this listener, or the server as a whole.
    fn knows(&self, request: &HealthCheckRequest) -> bool {
        request.service.is_empty() || self.services.contains(&request.service.as_str())
    }
}

#[tonic::async_trait]
impl health_server::Health for HealthService {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !self.knows(request.get_ref()) {
            return Err(Status::not_found("there is no such service: use reflection to list them"));
        }
        Ok(Response::new(response(status(*self.health.is_serving.borrow()))))
    }

    /// Streams the status. An unknown service gets SERVICE_UNKNOWN, not an error: to clients, an error means that
    /// the server does not support Watch.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        if !self.knows(request.get_ref()) {
            let unknown = stream::iter([Ok(response(ServingStatus::ServiceUnknown))]);
            return Ok(Response::new(unknown.chain(stream::pending()).boxed()));
        }
        let mut changes = self.health.is_serving.subscribe();
        // Make the first message the current status.
        changes.mark_changed();
        let statuses = stream::unfold(changes, |mut changes| async move {
            changes.changed().await.ok()?;
            let now = status(*changes.borrow_and_update());
            Some((Ok(response(now)), changes))
        });
        Ok(Response::new(statuses.boxed()))
    }
}

fn status(is_serving: bool) -> ServingStatus {
    if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tonic_health::pb::health_server::Health as _;

    use super::*;

    fn about(service: &str) -> Request<HealthCheckRequest> {
        Request::new(HealthCheckRequest { service: service.to_owned() })
    }

    #[tokio::test]
    async fn every_listed_service_is_checked_and_an_unknown_one_is_watched_without_an_end() {
        let health = Health::new();
        let services = ["a.One", "grpc.health.v1.Health"];
        let service = HealthService { health: health.clone(), services: services.as_slice().into() };
        let mut known = service.watch(about("grpc.health.v1.Health")).await.unwrap().into_inner();
        let mut unknown = service.watch(about("no.such.Service")).await.unwrap().into_inner();
        let mut next = async || known.next().await.unwrap().unwrap().status();
        assert_eq!(next().await, ServingStatus::NotServing);
        health.set(true);
        assert_eq!(next().await, ServingStatus::Serving);
        health.set(true);
        assert!(known.next().now_or_never().is_none(), "nothing changed");
        assert_eq!(unknown.next().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
        assert!(unknown.next().now_or_never().is_none(), "the stream stays open");
        for name in services.into_iter().chain([""]) {
            let checked = service.check(about(name)).await.unwrap().into_inner();
            assert_eq!(checked.status(), ServingStatus::Serving, "{name}");
        }
        assert_eq!(service.check(about("no.such.Service")).await.unwrap_err().code(), tonic::Code::NotFound);
    }
}
