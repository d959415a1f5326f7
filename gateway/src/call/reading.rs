//! Reads requests into calls, large ones aside from the shard's thread.

use std::time::{Duration, Instant};

use openskill_proto::v1::InvokeRequest;

use super::aside::Aside;
use super::input::is_heavy_to_read;
use super::request::{Call, RequestContext};

/// Reads a request. Waits no longer than the request's headers, or `default`, allow.
pub(crate) async fn read(aside: &Aside, default: Duration, request: InvokeRequest, context: RequestContext) -> Call {
    if !is_heavy_to_read(request.arguments.as_ref()) {
        return Call::new(request, context);
    }
    // Boxed, so that the future of a small call stays small.
    Box::pin(read_aside(aside, default, request, context)).await
}

async fn read_aside(aside: &Aside, default: Duration, mut request: InvokeRequest, context: RequestContext) -> Call {
    let arguments = request.arguments.take();
    let (named, heard) = (request.clone(), context.clone());
    request.arguments = arguments;
    let (bytes, until) = (prost::Message::encoded_len(&request), deadline(default, &context));
    let read = aside.run_until(until, (&heard.principal, bytes), move || Call::new(request, context)).await;
    read.unwrap_or_else(|error| Call::unread(named, heard, error))
}

/// When a request that is not read yet ends at the latest.
pub(crate) fn deadline(default: Duration, context: &RequestContext) -> Instant {
    Instant::now() + context.timeout.map_or(default, |timeout| timeout.min(default))
}
