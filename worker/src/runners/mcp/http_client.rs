//! The streamable HTTP client. It sends the trace context of each call in headers.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    HttpStatusError, StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::http_post::{Fallible, Headers, Stream, bounded, post};
use super::message::MAX_MESSAGE_BYTES;
use super::tap::Tap;
use crate::manifest::http::Allowed;
use crate::manifest::mcp::fill;
use crate::runners::http::cause::refusal;
use crate::runners::http::client::guarded_client;
use crate::runners::http::egress;

/// How many redirects a request follows.
const MAX_REDIRECTS: usize = 3;

/// An HTTP client without proxies, bound to the manifest's egress rules. It follows redirects that keep the method and the body,
/// such as those between `/mcp` and `/mcp/`, within the origin: the headers may hold secrets.
///
/// # Errors
/// The reason why it cannot be created.
fn client(url: &str, allowed: &Allowed) -> Result<reqwest::Client, String> {
    let url = Url::parse(url).map_err(|_| "its URL is invalid".to_owned())?;
    let reach = egress::Reach::of(&url, allowed).map_err(|refusal| in_words(&refusal))?;
    guarded_client(reach, within_origin)
}

fn within_origin() -> Policy {
    Policy::custom(|attempt| {
        let is_same = attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
        let is_kept = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let may_follow = is_same && is_kept && attempt.previous().len() <= MAX_REDIRECTS;
        if may_follow { attempt.follow() } else { attempt.stop() }
    })
}

/// A transport to a server, and a guard that cancels all its requests when it is dropped: the library's own task would keep the
/// connection until an abandoned handshake is answered. `headers`: names and values; values may name variables of the worker's
/// environment.
///
/// # Errors
/// The reason why it cannot be created, for people.
pub(super) fn transport(
    url: &str,
    headers: &[(String, String)],
    allowed: &Allowed,
    calls: usize,
) -> Result<(StreamableHttpClientTransport<Traced>, DropGuard), String> {
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let value = fill(value, |name| std::env::var(name).ok());
        let value = value.ok_or_else(|| format!("the header {name} names a variable that is not set"))?;
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("'{name}' is not a valid header name"))?;
        let mut value =
            HeaderValue::from_str(&value).map_err(|_| format!("the value of the header {name} is invalid"))?;
        value.set_sensitive(true);
        custom.insert(name, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_concurrent_requests(calls)
        .max_sse_event_size(MAX_MESSAGE_BYTES)
        // A server that lost the session has restarted: the lane reconnects and lists its tools again.
        .reinit_on_expired_session(false)
        .custom_headers(custom);
    let ended = CancellationToken::new();
    let traced = Traced { client: client(url, allowed)?, ended: ended.clone() };
    Ok((StreamableHttpClientTransport::with_client(traced, config), ended.drop_guard()))
}

/// A client that adds the call's headers and marks its tap as sent.
#[derive(Clone)]
pub(super) struct Traced {
    client: reqwest::Client,
    /// Cancelled when nobody waits for answers.
    ended: CancellationToken,
}

impl Traced {
    /// Awaits a request unless the transport is dropped.
    async fn while_wanted<T>(&self, request: impl Future<Output = Fallible<T>>) -> Fallible<T> {
        tokio::select! {
            () = self.ended.cancelled() => Err(StreamableHttpError::TransportChannelClosed),
            answer = request => answer,
        }
    }

    fn stream_while_wanted(&self, stream: Stream) -> Stream {
        stream.take_until(self.ended.clone().cancelled_owned()).boxed()
    }
}

impl StreamableHttpClient for Traced {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Fallible<StreamableHttpPostResponse> {
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, MAX_MESSAGE_BYTES).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        mut headers: Headers,
        _: usize,
    ) -> Fallible<StreamableHttpPostResponse> {
        let tap = Tap::of(&message).cloned();
        if let Some(tap) = &tap {
            // The call may have withdrawn it.
            if !tap.send() {
                return Err(StreamableHttpError::UnexpectedServerResponse("withdrawn before it was sent".into()));
            }
            for (name, value) in tap.headers() {
                if let Ok(value) = HeaderValue::from_str(value) {
                    headers.insert(HeaderName::from_static(name), value);
                }
            }
        }
        let sent = self.while_wanted(post(&self.client, &uri, message, session.as_deref(), headers)).await;
        if let (Err(error), Some(tap)) = (&sent, &tap)
            && was_refused(error)
        {
            tap.never_sent();
        }
        sent.map(|answer| match answer {
            StreamableHttpPostResponse::Sse(stream, session) => {
                StreamableHttpPostResponse::Sse(self.stream_while_wanted(stream), session)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Fallible<()> {
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Fallible<Stream> {
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, MAX_MESSAGE_BYTES).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Fallible<Stream> {
        let get = self.client.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, most);
        Ok(self.stream_while_wanted(bounded(self.while_wanted(get).await?, None)))
    }
}

/// Whether a request certainly did not reach a tool: there was no connection, or the session is unknown to the server.
fn was_refused(error: &StreamableHttpError<reqwest::Error>) -> bool {
    match error {
        StreamableHttpError::Client(error) => error.is_connect(),
        StreamableHttpError::SessionExpired => true,
        _ => false,
    }
}

/// Why a server can't be spoken to, for people.
pub(super) fn why(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::HttpStatus(HttpStatusError { status: 300..400, .. })) => {
            "it redirects elsewhere: set the entry to the address where it is".to_owned()
        }
        Some(StreamableHttpError::HttpStatus(error)) => {
            format!("it refused the handshake with HTTP status {}", error.status)
        }
        Some(StreamableHttpError::UnexpectedContentType(_)) => {
            "its answer to the handshake is neither JSON nor a stream of events".to_owned()
        }
        Some(StreamableHttpError::Client(error)) => refusal(error).map_or_else(unreachable, in_words),
        _ => unreachable(),
    }
}

fn unreachable() -> String {
    "it can't be reached".to_owned()
}

/// A refusal of the egress rules, with the key of this manifest.
fn in_words(refusal: &egress::Refusal) -> String {
    refusal.to_string().replace("http.allow", "mcp.allow")
}
