//! OTLP over gRPC.

use std::error::Error as _;
use std::sync::Arc;

use http_body_util::BodyExt as _;
use reqwest::Client;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::export::{Export, MAX_ANSWER_BYTES, SendError};

pub(super) async fn exchange<E: Export>(client: &Client, endpoint: &str, message: E) -> Result<E::Answer, SendError> {
    let origin = endpoint.parse().map_err(|error| SendError::Unreachable(Box::new(error)))?;
    let service = tower::service_fn(|request| call(client.clone(), request));
    let mut grpc = Grpc::with_origin(service, origin).max_decoding_message_size(MAX_ANSWER_BYTES);
    let codec = ProstCodec::<E, E::Answer>::default();
    let answer = grpc.unary(tonic::Request::new(message), PathAndQuery::from_static(E::METHOD), codec).await;
    answer.map(tonic::Response::into_inner).map_err(|status| match status.code() {
        // The error arose in this process: a status that the collector sent has no source.
        Code::Unavailable if status.source().is_some() => SendError::Unreachable(status.into()),
        _ => SendError::Status(Box::new(status)),
    })
}

async fn call(client: Client, request: Request<Body>) -> Result<Response<reqwest::Body>, Status> {
    let (head, body) = request.into_parts();
    // The body is the message encoded above, already in memory.
    let body = body.collect().await?.to_bytes();
    let unreachable = |error: reqwest::Error| {
        let mut status = Status::unavailable("the collector cannot be reached");
        status.set_source(Arc::new(error.without_url()));
        status
    };
    let request = reqwest::Request::try_from(Request::from_parts(head, body)).map_err(unreachable)?;
    client.execute(request).await.map(Response::from).map_err(unreachable)
}
