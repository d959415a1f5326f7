//! The layers that every request passes before it reaches a face, in order.

use std::convert::Infallible;

use axum::BoxError;
use bytes::Bytes;
use http::{Request, Response};
use tower::{Service, ServiceBuilder};

use super::bodies::outbound::Outbound;
use super::faces::{Faces, identity, reads, refuse};
use super::layers::bodies::BodiesLayer;
use super::layers::cors;
use super::layers::deadline::DeadlineLayer;
use super::layers::identity::IdentityLayer;
use super::layers::reads::ReadsLayer;
use super::layers::screen::ScreenLayer;
use super::layers::trace::TraceLayer;
use super::operations;
use super::resource::Resource;
use crate::gateway::Gateway;
use crate::state::limits::{Limits, SharedLimit};

/// Builds the complete service of one listener: layers and faces. `is_loopback`: the listener has a loopback
/// address. Its principals share `limits`.
pub(crate) fn stack<B>(
    gateway: &Gateway,
    faces: Faces,
    is_loopback: bool,
    limits: &Limits,
) -> impl Service<Request<B>, Response = Response<Outbound>, Error = Infallible, Future: Send> + Clone + Send + use<B>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let (inbound, outbound) = (limits.pool(SharedLimit::Requests).clone(), limits.pool(SharedLimit::Responses).clone());
    ServiceBuilder::new()
        .layer(TraceLayer { find: operations::find })
        .layer(DeadlineLayer)
        .layer(BodiesLayer { inbound, outbound, refuse: reads::too_much })
        .layer(ScreenLayer { is_loopback, sites: gateway.config.sites.clone(), refuse })
        .option_layer(cors::layer(gateway.config.sites.as_deref()))
        .layer(IdentityLayer {
            registry: gateway.registry.clone(),
            rules: identity::RULES,
            resource: Resource::for_gateway(gateway),
        })
        .layer(ReadsLayer {
            limits: limits.clone(),
            administrator_limits: gateway.operators.clone(),
            refuse: reads::refuse,
        })
        .service(faces)
}
