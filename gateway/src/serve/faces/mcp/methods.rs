//! `POST /mcp`: dispatches each message to its method, and returns the responses.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;

use super::call::ToolCallRequest;
use super::client::{self, McpClient};
use super::jsonrpc::{self, Body, Code, Id, Message, Params, RpcError, Unreadable, invalid_params};
use super::offerings::{self, ListKind, Viewer};
use super::response::{self, Accepts, SESSION, accepted_response, refuse, status_of};
use super::tasks::TaskRequest;
use super::view_access::ViewAccess;
use super::{batch, headers, list, listen, questions, resources, watch};
use crate::call::blocking_pool::HEAVY_BYTES;
use crate::call::reading::deadline;
use crate::call::request::RequestContext;
use crate::gateway::Shard;
use crate::mcp::clients::Level;
use crate::mcp::pages::List;
use crate::serve::faces::rest::body;
use crate::serve::layers::request_context;
use crate::state::limits::SharedLimit;

/// An HTTP request without its body.
struct Exchange {
    shard: Shard,
    access: ViewAccess,
    headers: HeaderMap,
    context: RequestContext,
    accepts: Accepts,
}

/// `POST /mcp`: handles a client's messages: requests, notifications, and answers to questions.
pub(crate) async fn post(State(shard): State<Shard>, access: ViewAccess, request: Request) -> Response {
    let context = request_context(request.extensions());
    let (parts, body) = request.into_parts();
    let exchange =
        Exchange { accepts: Accepts::from_headers(&parts.headers), headers: parts.headers, shard, access, context };
    if !exchange.accepts.json && !exchange.accepts.events {
        let message = "the answer is JSON or a stream: send 'Accept: application/json, text/event-stream'";
        return refuse(StatusCode::NOT_ACCEPTABLE, None, &RpcError::new(Code::InvalidRequest, message));
    }
    let bytes = match body::bytes(&exchange.headers, body).await {
        Ok(bytes) => bytes,
        Err(unread) => return refuse(unread.status, None, &RpcError::new(Code::InvalidRequest, unread.message)),
    };
    match exchange.parse(bytes).await {
        Err(fault) => refuse(StatusCode::SERVICE_UNAVAILABLE, None, &fault),
        Ok(Body::One(Ok(message))) => exchange.answer(message).await,
        Ok(Body::One(Err(Unreadable { id, fault }))) => refuse(StatusCode::BAD_REQUEST, id.as_ref(), &fault),
        Ok(Body::Batch(messages)) => Box::pin(exchange.batch(messages)).await,
    }
}

impl Exchange {
    /// Parses a body, off the shard's thread if it is large.
    async fn parse(&self, bytes: Bytes) -> Result<Body, RpcError> {
        if bytes.len() <= HEAVY_BYTES {
            return Ok(jsonrpc::read(&bytes));
        }
        let gateway = &self.shard.gateway;
        let (until, held) = (deadline(gateway.config.default_timeout, &self.context), 2 * bytes.len());
        let read = gateway.blocking_pool.run_until(until, &self.context.principal, held, move || jsonrpc::read(&bytes));
        Box::pin(read).await.map_err(|error| RpcError::new(Code::Overloaded, error.message))
    }

    async fn answer(&self, message: Message) -> Response {
        match message {
            Message::Request { id, method, params } => {
                let client =
                    match McpClient::identify(&self.shard, &self.headers, &self.context.principal, Some(&params)) {
                        Ok(client) => client,
                        Err((status, fault)) => return refuse(status, Some(&id), &fault),
                    };
                self.shard.gateway.observer.mcp_request(&self.access.view.name, client.revision.name(), &method);
                let is_stateless = client.revision.is_stateless();
                match self.request(client, id.clone(), &method, params).await {
                    Ok(response) => response,
                    Err(fault) => refuse(status_of(fault.code, is_stateless), Some(&id), &fault),
                }
            }
            Message::Notification { method, params } => self.handle_notification(&method, &params),
            Message::Response { id, result } => {
                Box::pin(questions::forward_answer(&self.shard, &self.context.principal, &id, result.as_deref())).await;
                accepted_response()
            }
        }
    }

    /// Answers a batch, which only one protocol revision supports.
    async fn batch(self, messages: Vec<Result<Message, Unreadable>>) -> Response {
        let invalid =
            |message: &str| refuse(StatusCode::BAD_REQUEST, None, &RpcError::new(Code::InvalidRequest, message));
        match McpClient::identify(&self.shard, &self.headers, &self.context.principal, None) {
            Ok(client) if client.revision.has_batches() => {}
            Ok(_) => return invalid("this revision of the protocol has no batches: send one message at a time"),
            Err((status, fault)) => return refuse(status, None, &fault),
        }
        let begins =
            |it: &Result<Message, _>| matches!(it, Ok(Message::Request { method, .. }) if method == "initialize");
        if messages.iter().any(begins) {
            return invalid("initialize must not be part of a batch");
        }
        let (pool, principal) =
            (self.shard.gateway.limits.pool(SharedLimit::Responses).clone(), &self.context.principal);
        let principal = principal.shared_name();
        let exchange = Arc::new(Self { accepts: Accepts { json: true, events: false }, ..self });
        let one = move |message| {
            let exchange = Arc::clone(&exchange);
            async move { exchange.answer(message).await }
        };
        batch::answer(&pool, principal, messages, one).await
    }

    fn handle_notification(&self, method: &str, params: &Params) -> Response {
        let client = match McpClient::identify(&self.shard, &self.headers, &self.context.principal, None) {
            Ok(client) => client,
            // A notification may omit its revision.
            Err((_, fault)) if fault.code == Code::InvalidParams => return accepted_response(),
            Err((status, fault)) => return refuse(status, None, &fault),
        };
        if let (Some(session), Some(id), "notifications/cancelled") = (&client.session, &params.request_id, method) {
            self.shard.gateway.mcp.clients.cancel(session.name(), id.get());
        }
        accepted_response()
    }

    async fn request(
        &self,
        client: McpClient,
        id: Id,
        method: &str,
        params: Box<Params>,
    ) -> Result<Response, RpcError> {
        if client.revision.is_stateless() {
            check(&self.headers, method, &params)?;
        }
        if method == "tools/call" {
            let Self { shard, access, headers, context, accepts } = self;
            let accepts = *accepts;
            return ToolCallRequest { shard, access, headers, context, accepts, client, id, params }.call().await;
        }
        // Boxed, so that the future of a call does not reserve space for it.
        Box::pin(self.other(client, id, method, params)).await
    }

    /// Answers a request other than `tools/call`.
    async fn other(
        &self,
        client: McpClient,
        id: Id,
        method: &str,
        mut params: Box<Params>,
    ) -> Result<Response, RpcError> {
        let (shard, principal, session) = (&self.shard, &self.context.principal, client.session_name());
        let viewer = self.viewer(session);
        let page = |items: &List, field| list::page(shard, items, field, &params, principal, client.revision);
        let offered = |kind: ListKind| page(&offerings::current(shard, kind, viewer), kind.field());
        let result = match (method, client.revision.is_stateless()) {
            ("tools/list", _) => page(&list::current(shard, &self.access.view, principal), "tools")?,
            ("prompts/list", _) => offered(ListKind::Prompts)?,
            ("resources/list", _) => offered(ListKind::Resources)?,
            ("resources/templates/list", _) => offered(ListKind::Templates)?,
            ("prompts/get", _) => offerings::prompt(shard, &mut params, viewer, &client).await?,
            ("completion/complete", _) => offerings::complete(shard, &params, viewer, client.revision).await?,
            ("resources/subscribe", false) => self.subscribe(&client, &params).await?,
            ("resources/unsubscribe", false) => self.unsubscribe(&client, &params)?,
            ("resources/read", _) => resources::read(shard, &params, viewer, client.revision).await?,
            ("server/discover", true) => client::discover(shard),
            ("subscriptions/listen", true) => {
                let filter = params.notifications.unwrap_or_default();
                return listen::subscribe(shard, self.access.clone(), principal.clone(), id, filter).await;
            }
            ("initialize", false) => {
                let (result, session) = client::initialize(shard, &params, principal)?;
                let mut response = response::json(StatusCode::OK, jsonrpc::result(&id, &result));
                // A session id is base64url, so this can't fail.
                response.headers_mut().extend(HeaderValue::try_from(session).ok().map(|it| (SESSION, it)));
                return Ok(response);
            }
            ("ping", false) => "{}".to_owned(),
            ("logging/setLevel", false) => self.set_level(&client, &params)?,
            ("tasks/get" | "tasks/update" | "tasks/cancel", true) => {
                let request = TaskRequest { shard, id: &id, revision: client.revision, viewer };
                request.answer(method, &mut params).await?
            }
            _ => return Err(RpcError::new(Code::MethodNotFound, "the server has no such method")),
        };
        Ok(response::json(StatusCode::OK, jsonrpc::result(&id, &result)))
    }

    fn viewer<'a>(&'a self, session_id: &'a str) -> Viewer<'a> {
        let Self { access, context, .. } = self;
        Viewer { principal: &context.principal, view: &access.view, session_id, trace_id: &context.trace.id }
    }

    /// Subscribes a session to a resource.
    async fn subscribe(&self, client: &McpClient, params: &Params) -> Result<String, RpcError> {
        let (session, uri) = subscription(client, params)?;
        let Some(state) = watch::subscribe(&self.shard, self.viewer(session), uri).await? else {
            let fault = RpcError::new(Code::NoResource, "there is no such resource");
            return Err(fault.with_data(format!("{{\"uri\":{}}}", jsonrpc::string(uri))));
        };
        match self.shard.gateway.mcp.clients.subscribe(self.context.principal.name(), session, uri, state) {
            true => Ok("{}".to_owned()),
            false => Err(RpcError::new(Code::Overloaded, "the session, or its principal, has too many subscriptions")),
        }
    }

    fn unsubscribe(&self, client: &McpClient, params: &Params) -> Result<String, RpcError> {
        let (session, uri) = subscription(client, params)?;
        self.shard.gateway.mcp.clients.unsubscribe(self.context.principal.name(), session, uri);
        Ok("{}".to_owned())
    }

    fn set_level(&self, client: &McpClient, params: &Params) -> Result<String, RpcError> {
        let level = params.level.as_deref().and_then(Level::from_name);
        let level = level.ok_or_else(|| invalid_params("params.level is missing or not a level"))?;
        if let Some(session) = &client.session {
            self.shard.gateway.mcp.clients.set_level(self.context.principal.name(), session.name(), level);
        }
        Ok("{}".to_owned())
    }
}

/// Returns the session and the URI of a subscription.
fn subscription<'a>(client: &'a McpClient, params: &'a Params) -> Result<(&'a str, &'a str), RpcError> {
    let Some(uri) = params.uri.as_deref() else {
        return Err(invalid_params("params.uri is missing: set it to the resource"));
    };
    if uri.len() > watch::MAX_URI {
        return Err(invalid_params(format!("params.uri has more than {} bytes", watch::MAX_URI)));
    }
    match client.session_name() {
        "" => Err(RpcError::new(Code::InvalidRequest, "a subscription needs a session: send initialize")),
        session => Ok((session, uri)),
    }
}

/// Rejects a request without the metadata that is required since revision 2026-07-28.
fn check(headers: &HeaderMap, method: &str, params: &Params) -> Result<(), RpcError> {
    headers::check(headers, method, params)?;
    if params.meta.as_ref().is_none_or(|it| it.capabilities.is_none()) {
        let field = "params._meta[\"io.modelcontextprotocol/clientCapabilities\"]";
        return Err(invalid_params(format!("{field} is missing")));
    }
    Ok(())
}
