//! Converts requests to calls, in the blocking pool if they are large.

use std::time::{Duration, Instant};

use openskill_proto::v1::InvokeRequest;

use super::blocking_pool::BlockingPool;
use super::input::is_heavy_to_read;
use super::request::{Call, RequestContext};

/// Reads a request. Waits at most for the timeout in its headers, or for `default`.
pub(crate) async fn read(
    pool: &BlockingPool,
    default: Duration,
    request: InvokeRequest,
    context: RequestContext,
) -> Call {
    if !is_heavy_to_read(request.arguments.as_ref()) {
        return Call::new(request, context);
    }
    // Boxed, so that the future of a small call stays small.
    Box::pin(read_in_pool(pool, default, request, context)).await
}

async fn read_in_pool(
    pool: &BlockingPool,
    default: Duration,
    mut request: InvokeRequest,
    context: RequestContext,
) -> Call {
    let arguments = request.arguments.take();
    let (named, heard) = (request.clone(), context.clone());
    request.arguments = arguments;
    let (bytes, until) = (prost::Message::encoded_len(&request), deadline(default, &context));
    let read = pool.run_until(until, &heard.principal, bytes, move || Call::new(request, context)).await;
    read.unwrap_or_else(|error| Call::unread(named, heard, error))
}

/// Returns the deadline of a request that is not read yet.
pub(crate) fn deadline(default: Duration, context: &RequestContext) -> Instant {
    Instant::now() + context.timeout.map_or(default, |timeout| timeout.min(default))
}
