//! OTLP over HTTP, with protobuf.

use prost::Message as _;
use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderValue};

use super::export::{Export, MAX_ANSWER_BYTES, SendError};

const PROTOBUF: &str = "application/x-protobuf";

pub(super) async fn exchange<E: Export>(client: &Client, endpoint: &str, message: &E) -> Result<E::Answer, SendError> {
    let unreachable = |error: reqwest::Error| SendError::Unreachable(Box::new(error.without_url()));
    let request = client.post(endpoint).header(CONTENT_TYPE, PROTOBUF).body(message.encode_to_vec());
    let mut response = request.send().await.map_err(unreachable)?;
    if !response.status().is_success() {
        return Err(SendError::HttpStatus(response.status()));
    }
    // Some collectors respond with another content type or an empty body. The status already says that they
    // accepted the message.
    let kind = response.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    if !kind.starts_with(PROTOBUF.as_bytes()) {
        return Ok(E::Answer::default());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ANSWER_BYTES {
            return Ok(E::Answer::default());
        }
    }
    Ok(E::Answer::decode(&body[..]).unwrap_or_default())
}
