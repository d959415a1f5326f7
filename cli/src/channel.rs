//! A connection to a gateway whose requests carry the key of the settings.

use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use tonic::body::Body;
use tonic::transport;
use tower::Service;

/// A connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    inner: transport::Channel,
    authorization: Option<HeaderValue>,
}

impl Channel {
    /// `authorization`: the header of each request, if a key is set.
    pub(crate) fn new(inner: transport::Channel, authorization: Option<HeaderValue>) -> Self {
        Self { inner, authorization }
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = transport::Error;
    type Future = <transport::Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), transport::Error>> {
        Service::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        Service::call(&mut self.inner, request)
    }
}
