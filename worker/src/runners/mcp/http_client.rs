//! The streamable HTTP client. It sends the trace context of each call in headers.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use openskill_net::egress::allow::Allowed;
use openskill_net::egress::cause::refusal;
use openskill_net::egress::client::guarded_client;
use openskill_net::egress::reach::{EgressRefusal, Reach};
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

use super::http_post::{Fallible, Headers, Stream, bound_messages, post};
use super::message::MAX_MESSAGE_BYTES;
use super::tap::Tap;
use crate::config::Variables;
use crate::manifest::mcp::fill;

/// The maximum number of redirects that a request follows.
const MAX_REDIRECTS: usize = 3;

/// Creates an HTTP client that uses no proxy and obeys the manifest's egress rules. It follows only redirects that
/// keep the method and body, such as from `/mcp` to `/mcp/`, and only within the origin, because the headers may
/// contain secrets.
///
/// # Errors
/// Returns the reason if the client cannot be created.
fn client(url: &str, allowed: &Allowed) -> Result<reqwest::Client, String> {
    let url = Url::parse(url).map_err(|_| "its URL is invalid".to_owned())?;
    let reach = Reach::for_url(&url, allowed).map_err(|refusal| in_words(&refusal))?;
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

/// Creates a transport to a server, and a guard that cancels all its requests when dropped. Without the guard, the
/// library's task would keep the connection until the server answers an abandoned handshake. `headers`: names and
/// values; values may refer to `variables`.
///
/// # Errors
/// Returns the reason, for people, if the transport cannot be created.
pub(super) fn transport(
    url: &str,
    headers: &[(String, String)],
    allowed: &Allowed,
    calls: usize,
    variables: &Variables,
) -> Result<(StreamableHttpClientTransport<Traced>, DropGuard), String> {
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let value = fill(value, |name| variables.get(name));
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
        // A server that lost the session was restarted, so the lane reconnects and lists its tools again.
        .reinit_on_expired_session(false)
        .custom_headers(custom);
    let ended = CancellationToken::new();
    let traced = Traced { client: client(url, allowed)?, ended: ended.clone() };
    Ok((StreamableHttpClientTransport::with_client(traced, config), ended.drop_guard()))
}

/// A client that adds the call's headers and marks its tap as sent. It limits the size of events itself.
#[derive(Clone)]
pub(super) struct Traced {
    client: reqwest::Client,
    /// Cancelled when all answers are unwanted.
    ended: CancellationToken,
}

impl Traced {
    /// Runs a request until it completes or the transport is dropped.
    async fn while_wanted<T>(&self, request: impl Future<Output = Fallible<T>>) -> Fallible<T> {
        let answer = self.ended.run_until_cancelled(request).await;
        answer.unwrap_or(Err(StreamableHttpError::TransportChannelClosed))
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
        _: Option<String>,
        mut headers: Headers,
    ) -> Fallible<StreamableHttpPostResponse> {
        let tap = Tap::from_message(&message).cloned();
        if let Some(tap) = &tap {
            // The call may have withdrawn the request.
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
            tap.mark_unsent();
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
        let most = MAX_MESSAGE_BYTES;
        let get = self.client.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, most);
        Ok(self.stream_while_wanted(bound_messages(self.while_wanted(get).await?, None)))
    }
}

/// Returns whether a request certainly did not reach a tool, because there was no connection or the server does
/// not know the session.
fn was_refused(error: &StreamableHttpError<reqwest::Error>) -> bool {
    match error {
        StreamableHttpError::Client(error) => error.is_connect(),
        StreamableHttpError::SessionExpired => true,
        _ => false,
    }
}

/// Explains for people why communication with a server failed.
pub(super) fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::HttpStatus(HttpStatusError { status: 300..400, .. })) => {
            "it redirects to another address: set the entry to that address".to_owned()
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

/// Describes a refusal by the egress rules, with this manifest's name for the key.
fn in_words(refusal: &EgressRefusal) -> String {
    refusal.to_string().replace("http.allow", "mcp.allow")
}
