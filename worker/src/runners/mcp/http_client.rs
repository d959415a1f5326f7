//! Streamable HTTP: the client that requests go through, with the trace context of each call in its headers.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::lines::MAX_MESSAGE_BYTES;
use super::tap::Tap;
use crate::manifest::http::Allowed;
use crate::manifest::mcp::fill;
use crate::runners::http::client::guarded_client;
use crate::runners::http::egress;

/// The client that MCP's requests go through: no redirects, no proxy, and nowhere that the manifest does not allow.
///
/// # Errors
/// Why there can be none.
fn client(url: &str, allowed: &Allowed) -> Result<reqwest::Client, String> {
    let url = Url::parse(url).map_err(|_| "its URL is none".to_owned())?;
    let reach =
        egress::Reach::of(&url, allowed).map_err(|refusal| refusal.to_string().replace("http.allow", "mcp.allow"))?;
    guarded_client(reach)
}

/// A transport to a server, and what ends all its requests when it is dropped: the library's own task goes on, and keeps its
/// connection, until a handshake that nobody waits for is answered. `headers`: names, and values that may name variables of the
/// worker's environment.
///
/// # Errors
/// Why there can be none, for people.
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
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("'{name}' is no header"))?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| format!("the value of {name} is no header's"))?;
        value.set_sensitive(true);
        custom.insert(name, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_concurrent_requests(calls)
        .max_sse_event_size(MAX_MESSAGE_BYTES)
        // A server that forgot the session is another one: the lane connects anew, and lists what it has.
        .reinit_on_expired_session(false)
        .custom_headers(custom);
    let ended = CancellationToken::new();
    let traced = Traced { client: client(url, allowed)?, ended: ended.clone() };
    Ok((StreamableHttpClientTransport::with_client(traced, config), ended.drop_guard()))
}

/// A client that adds a call's trace context, and tells its tap that it is sent.
#[derive(Clone)]
pub(super) struct Traced {
    client: reqwest::Client,
    /// Nobody waits for answers any more.
    ended: CancellationToken,
}

impl Traced {
    /// What comes of a request, for as long as anybody waits for it.
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

type Headers = HashMap<HeaderName, HeaderValue>;
type Stream = BoxStream<'static, Result<Sse, SseError>>;
type Fallible<T> = Result<T, StreamableHttpError<reqwest::Error>>;

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
        token: Option<String>,
        mut headers: Headers,
        most: usize,
    ) -> Fallible<StreamableHttpPostResponse> {
        let tap = Tap::of(&message).cloned();
        if let Some(tap) = &tap {
            // Its caller may be gone by now.
            if !tap.send() {
                return Err(StreamableHttpError::UnexpectedServerResponse("taken back before it was sent".into()));
            }
            for (name, value) in tap.headers() {
                if let Ok(value) = HeaderValue::from_str(value) {
                    headers.insert(HeaderName::from_static(name), value);
                }
            }
        }
        let post = self.client.post_message_with_max_sse_event_size(uri, message, session, token, headers, most);
        let sent = self.while_wanted(post).await;
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
        Ok(self.stream_while_wanted(self.while_wanted(get).await?))
    }
}

/// Whether a request certainly did not reach the server's tools: there was no connection, or the session is none of its.
fn was_refused(error: &StreamableHttpError<reqwest::Error>) -> bool {
    match error {
        StreamableHttpError::Client(error) => error.is_connect(),
        StreamableHttpError::SessionExpired => true,
        _ => false,
    }
}
