//! `POST /mcp`: messages to their methods, and the answers back.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;

use super::answer::{self, Accepts, SESSION, accepted, refuse, status_of};
use super::asker::Asker;
use super::call::Asked;
use super::entrance::Entrance;
use super::jsonrpc::{self, Body, Code, Fault, Id, Message, Params, Unreadable};
use super::shelf::{self, Listed, Viewer};
use super::{batch, headers, hello, list, listen, questions, resources, tasks, watch};
use crate::call::aside::HEAVY_BYTES;
use crate::call::reading::deadline;
use crate::call::request::RequestContext;
use crate::gateway::Shard;
use crate::mcp::clients::Level;
use crate::serve::faces::rest::body;
use crate::serve::layers::request_context;
use crate::state::limits::SharedLimit;

/// A request over HTTP, without its body.
struct Exchange {
    shard: Shard,
    entrance: Entrance,
    headers: HeaderMap,
    context: RequestContext,
    accepts: Accepts,
}

/// Answers a request.
pub(super) async fn post(shard: Shard, entrance: Entrance, request: Request) -> Response {
    let context = request_context(request.extensions());
    let (parts, body) = request.into_parts();
    let exchange = Exchange { accepts: Accepts::of(&parts.headers), headers: parts.headers, shard, entrance, context };
    if !exchange.accepts.json && !exchange.accepts.events {
        let message = "the answer is JSON or a stream: send 'Accept: application/json, text/event-stream'";
        return refuse(StatusCode::NOT_ACCEPTABLE, None, &Fault::new(Code::InvalidRequest, message));
    }
    let bytes = match body::bytes(&exchange.headers, body).await {
        Ok(bytes) => bytes,
        Err(unread) => return refuse(unread.status, None, &Fault::new(Code::InvalidRequest, unread.message)),
    };
    match exchange.parse(bytes).await {
        Err(fault) => refuse(StatusCode::SERVICE_UNAVAILABLE, None, &fault),
        Ok(Body::One(Ok(message))) => exchange.answer(message).await,
        Ok(Body::One(Err(Unreadable { id, fault }))) => refuse(StatusCode::BAD_REQUEST, id.as_ref(), &fault),
        Ok(Body::Batch(messages)) => Box::pin(exchange.batch(messages)).await,
    }
}

impl Exchange {
    /// Reads a body, and a large one aside.
    async fn parse(&self, bytes: Bytes) -> Result<Body, Fault> {
        if bytes.len() <= HEAVY_BYTES {
            return Ok(jsonrpc::read(&bytes));
        }
        let gateway = &self.shard.gateway;
        let (until, held) = (deadline(gateway.config.default_timeout, &self.context), 2 * bytes.len());
        let read = gateway.aside.run_until(until, (&self.context.principal, held), move || jsonrpc::read(&bytes));
        Box::pin(read).await.map_err(|error| Fault::new(Code::Overloaded, error.message))
    }

    async fn answer(&self, message: Message) -> Response {
        match message {
            Message::Request { id, method, params } => {
                let asker = match Asker::of(&self.shard, &self.headers, &self.context.principal, Some(&params)) {
                    Ok(asker) => asker,
                    Err((status, fault)) => return refuse(status, Some(&id), &fault),
                };
                self.shard.gateway.observer.mcp_request(&self.entrance.view.name, asker.revision.name(), &method);
                let is_stateless = asker.revision.is_stateless();
                match self.request(asker, id.clone(), &method, params).await {
                    Ok(response) => response,
                    Err(fault) => refuse(status_of(fault.code, is_stateless), Some(&id), &fault),
                }
            }
            Message::Notification { method, params } => self.notified(&method, &params),
            Message::Response { id, result } => {
                Box::pin(questions::answered(&self.shard, &self.context.principal, &id, result.as_deref())).await;
                accepted()
            }
        }
    }

    /// Many messages in one body, for the one revision that has that.
    async fn batch(self, messages: Vec<Result<Message, Unreadable>>) -> Response {
        let invalid = |message: &str| refuse(StatusCode::BAD_REQUEST, None, &Fault::new(Code::InvalidRequest, message));
        match Asker::of(&self.shard, &self.headers, &self.context.principal, None) {
            Ok(asker) if asker.revision.has_batches() => {}
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

    fn notified(&self, method: &str, params: &Params) -> Response {
        let asker = match Asker::of(&self.shard, &self.headers, &self.context.principal, None) {
            Ok(asker) => asker,
            // A notification need not say by which revision.
            Err((_, fault)) if fault.code == Code::InvalidParams => return accepted(),
            Err((status, fault)) => return refuse(status, None, &fault),
        };
        if let (Some(session), Some(id), "notifications/cancelled") = (&asker.session, &params.request_id, method) {
            self.shard.gateway.mcp.clients.cancel(session.name(), id.get());
        }
        accepted()
    }

    async fn request(&self, asker: Asker, id: Id, method: &str, params: Box<Params>) -> Result<Response, Fault> {
        if asker.revision.is_stateless() {
            check(&self.headers, method, &params)?;
        }
        if method == "tools/call" {
            return self.asked(asker, id, params).call().await;
        }
        // Boxed, so that a call's future does not reserve space for it.
        Box::pin(self.other(asker, id, method, params)).await
    }

    /// Answers a request that is no call.
    async fn other(&self, asker: Asker, id: Id, method: &str, mut params: Box<Params>) -> Result<Response, Fault> {
        let (shard, principal, session) = (&self.shard, &self.context.principal, asker.session_name());
        let viewer = self.viewer(session);
        let result = match (method, asker.revision.is_stateless()) {
            ("tools/list", _) => list::tools(shard, &self.entrance.view, &params, principal, asker.revision)?,
            ("prompts/list", _) => shelf::list(shard, Listed::Prompts, &params, viewer, asker.revision)?,
            ("prompts/get", _) => shelf::prompt(shard, &mut params, viewer, &asker).await?,
            ("completion/complete", _) => shelf::complete(shard, &params, viewer, asker.revision).await?,
            ("resources/list", _) => shelf::list(shard, Listed::Resources, &params, viewer, asker.revision)?,
            ("resources/templates/list", _) => shelf::list(shard, Listed::Templates, &params, viewer, asker.revision)?,
            ("resources/subscribe", false) => self.subscribe(&asker, &params).await?,
            ("resources/unsubscribe", false) => self.unsubscribe(&asker, &params)?,
            ("resources/read", _) => resources::read(shard, &params, viewer, asker.revision).await?,
            ("server/discover", true) => hello::discover(shard),
            ("subscriptions/listen", true) => {
                let filter = params.notifications.unwrap_or_default();
                return listen::subscribe(shard, self.entrance.clone(), principal.clone(), id, filter).await;
            }
            ("initialize", false) => {
                let (result, session) = hello::initialize(shard, &params, principal)?;
                let mut response = answer::json(StatusCode::OK, jsonrpc::result(&id, &result));
                // It is base64url.
                response.headers_mut().extend(HeaderValue::try_from(session).ok().map(|it| (SESSION, it)));
                return Ok(response);
            }
            ("ping", false) => "{}".to_owned(),
            ("logging/setLevel", false) => self.set_level(&asker, &params)?,
            (_, true) if let Some(result) = tasks::method(shard, method, &mut params, viewer).await => result?,
            _ => return Err(Fault::new(Code::MethodNotFound, "the server has no such method")),
        };
        Ok(answer::json(StatusCode::OK, jsonrpc::result(&id, &result)))
    }

    fn asked(&self, asker: Asker, id: Id, params: Box<Params>) -> Asked<'_> {
        let (shard, headers, accepts) = (&self.shard, &self.headers, self.accepts);
        Asked { shard, entrance: &self.entrance, headers, context: &self.context, accepts, asker, id, params }
    }

    fn viewer<'a>(&'a self, session_id: &'a str) -> Viewer<'a> {
        let Self { entrance, context, .. } = self;
        Viewer { principal: &context.principal, view: &entrance.view, session_id, trace_id: &context.trace.id }
    }

    /// Subscribes a session to a resource.
    async fn subscribe(&self, asker: &Asker, params: &Params) -> Result<String, Fault> {
        let (session, uri) = subscription(asker, params)?;
        let Some(state) = watch::subscribe(&self.shard, self.viewer(session), uri).await? else {
            let fault = Fault::new(Code::NoResource, "there is no such resource");
            return Err(fault.with_data(format!("{{\"uri\":{}}}", jsonrpc::string(uri))));
        };
        match self.shard.gateway.mcp.clients.subscribe(self.context.principal.name(), session, uri, state) {
            true => Ok("{}".to_owned()),
            false => Err(Fault::new(Code::Overloaded, "the session, or its principal, has too many subscriptions")),
        }
    }

    fn unsubscribe(&self, asker: &Asker, params: &Params) -> Result<String, Fault> {
        let (session, uri) = subscription(asker, params)?;
        self.shard.gateway.mcp.clients.unsubscribe(self.context.principal.name(), session, uri);
        Ok("{}".to_owned())
    }

    fn set_level(&self, asker: &Asker, params: &Params) -> Result<String, Fault> {
        let level = params.level.as_deref().and_then(Level::named);
        let level = level.ok_or_else(|| Fault::new(Code::InvalidParams, "params.level is missing or no level"))?;
        if let Some(session) = &asker.session {
            self.shard.gateway.mcp.clients.set_level(self.context.principal.name(), session.name(), level);
        }
        Ok("{}".to_owned())
    }
}

/// Who subscribes to what.
fn subscription<'a>(asker: &'a Asker, params: &'a Params) -> Result<(&'a str, &'a str), Fault> {
    let Some(uri) = params.uri.as_deref() else {
        return Err(Fault::new(Code::InvalidParams, "params.uri is missing: it says which resource"));
    };
    if uri.len() > watch::MAX_URI {
        return Err(Fault::new(Code::InvalidParams, format!("params.uri has more than {} bytes", watch::MAX_URI)));
    }
    match asker.session_name() {
        "" => Err(Fault::new(Code::InvalidRequest, "a subscription needs a session: send initialize")),
        session => Ok((session, uri)),
    }
}

/// What each request has to say since 2026-07-28.
fn check(headers: &HeaderMap, method: &str, params: &Params) -> Result<(), Fault> {
    headers::check(headers, method, params)?;
    if params.meta.as_ref().is_none_or(|it| it.capabilities.is_none()) {
        let field = "params._meta[\"io.modelcontextprotocol/clientCapabilities\"]";
        return Err(Fault::new(Code::InvalidParams, format!("{field} is missing")));
    }
    Ok(())
}
