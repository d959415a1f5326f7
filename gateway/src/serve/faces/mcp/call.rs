//! `tools/call`: one call, as over REST. The answer is JSON, unless something comes before the result.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use openskill_proto::metadata::IDEMPOTENCY_KEY;
use openskill_proto::trace::Trace;
use openskill_proto::v1::InvokeRequest;
use openskill_proto::v1::invoke_request::Arguments;

use super::answer::{Accepts, traced};
use super::asker::Asker;
use super::jsonrpc::{Code, Fault, Id, Meta, Params};
use super::reply::Reply;
use super::stream::{self, Call as Streamed, Running, Voice};
use super::{answer, headers};
use crate::call::reading;
use crate::call::request::RequestContext;
use crate::gateway::Shard;
use crate::invoke::{invoke, refuse};
use crate::mcp::clients::Level;
use crate::observe::call_record::CallRecord;
use crate::serve::streams;

/// A request for a call.
pub(super) struct Asked<'a> {
    pub(super) shard: &'a Shard,
    pub(super) headers: &'a HeaderMap,
    pub(super) context: RequestContext,
    pub(super) accepts: Accepts,
    pub(super) asker: Asker,
    pub(super) id: Id,
    pub(super) params: Params,
}

impl Asked<'_> {
    /// Calls the tool.
    ///
    /// # Errors
    /// The request is not a call of a tool that exists.
    pub(super) async fn call(mut self) -> Result<Response, Fault> {
        let Some(name) = self.params.name.take() else {
            return Err(Fault::new(Code::InvalidParams, "params.name is missing: it says which tool to call"));
        };
        let (shard, is_stateless) = (self.shard, self.asker.revision.is_stateless());
        let entry = shard.gateway.catalog.get_for(&name, &self.context.principal);
        let arguments = self.params.arguments.take().map_or_else(|| "{}".to_owned(), |it| Box::<str>::from(it).into());
        if is_stateless && let Some(entry) = &entry {
            headers::check_arguments(self.headers, entry.definition.schema(), &arguments)?;
        }
        let voice = self.voice(&name)?;
        let meta = self.params.meta.take().unwrap_or_default();
        let session = self.asker.session_name();
        let cancellable = match session.as_str() {
            "" => None,
            session => Some(shard.gateway.mcp.clients.begin(session, self.id.json()).ok_or_else(|| {
                Fault::new(Code::InvalidRequest, "a request with this id is in flight: ids must not be used twice")
            })?),
        };
        let request = self.request(name, arguments, &meta, session);
        let context = RequestContext { trace: trace(&meta, self.context.trace), ..self.context };
        let (aside, default) = (&shard.gateway.aside, shard.gateway.config.default_timeout);
        let call = Arc::new(reading::read(aside, default, request, context).await);
        let trace_id = call.trace.id.clone();
        let reply = Reply { shard: shard.clone(), id: self.id, revision: self.asker.revision, entry };
        let permit = match shard.gateway.admit(&call) {
            Ok(permit) => permit,
            Err(refusal) => {
                let message = reply.message(refuse(shard, &call, refusal.into())).await?;
                return Ok(traced(answer::json(StatusCode::OK, message), &trace_id));
            }
        };
        let running = if voice.is_heard() && self.accepts.events {
            Running::Heard(streams::one(shard.clone(), call, permit).boxed())
        } else {
            let (shard, record) = (shard.clone(), CallRecord::begin(&shard.gateway.observer, &call));
            Running::Silent(async move { invoke(&shard, call, permit, None, record).await }.boxed())
        };
        let response = stream::answer(Streamed { running, reply, voice, cancellable }, self.accepts).await?;
        Ok(traced(response, &trace_id))
    }

    fn request(&self, skill_id: String, arguments: String, meta: &Meta, session: String) -> InvokeRequest {
        let key = || self.headers.get(IDEMPOTENCY_KEY).map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        InvokeRequest {
            skill_id,
            arguments: Some(Arguments::InputJson(arguments)),
            session_id: meta.session_id.clone().unwrap_or(session),
            idempotency_key: meta.idempotency_key.clone().or_else(key).unwrap_or_default(),
            ..InvokeRequest::default()
        }
    }

    /// What the client wants to hear while the call runs.
    fn voice(&self, skill_id: &str) -> Result<Voice, Fault> {
        let meta = self.params.meta.as_ref();
        let token = meta.and_then(|it| it.progress_token.as_ref()).map(|it| it.get().to_owned());
        let is_token = |it: &String| it.starts_with(|it: char| it == '"' || it == '-' || it.is_ascii_digit());
        if token.as_ref().is_some_and(|it| !is_token(it) || it.len() > 256) {
            let message = "params._meta.progressToken must be a string or a number of at most 256 bytes";
            return Err(Fault::new(Code::InvalidParams, message));
        }
        let level = match (meta.and_then(|it| it.log_level.as_deref()), self.asker.session) {
            (Some(level), _) if self.asker.revision.is_stateless() => Some(
                Level::named(level)
                    .ok_or_else(|| Fault::new(Code::InvalidParams, "there is no such level of messages"))?,
            ),
            (_, Some(session)) => self.shard.gateway.mcp.clients.level(&session.name()),
            _ => None,
        };
        Ok(Voice::new(token, level, skill_id))
    }
}

/// The trace that the message continues, or else that of the headers.
fn trace(meta: &Meta, of_headers: Trace) -> Trace {
    let Some(parent) = &meta.traceparent else { return of_headers };
    let state = meta.tracestate.as_deref().map(str::as_bytes);
    Some(Trace::from_headers(None, Some(parent.as_bytes()), state)).filter(|it| it.has_parent).unwrap_or(of_headers)
}
