//! `tools/call`: one call, as over REST. The answer is JSON, unless something comes before the result.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::FutureExt as _;
use futures_util::{StreamExt as _, TryStreamExt as _};
use openskill_proto::metadata::IDEMPOTENCY_KEY;
use openskill_proto::trace::Trace;
use openskill_proto::v1::InvokeRequest;
use openskill_proto::v1::invoke_request::Arguments;
use tokio::time::Instant;

use super::answer::{Accepts, traced};
use super::asker::Asker;
use super::entrance::Entrance;
use super::jsonrpc::{self, Code, Fault, Id, Meta, Params};
use super::questions::{self, Asks, Back, Way};
use super::reply::Reply;
use super::resumed::Resumable;
use super::running::Running;
use super::search::{self, By, Wanted};
use super::stream::{self, Call as Streamed, Voice};
use super::{answer, content, headers, task_rules};
use crate::call::reading;
use crate::call::request::RequestContext;
use crate::catalog::entry::Entry;
use crate::gateway::Shard;
use crate::invoke::{invoke, refuse};
use crate::mcp::clients::Level;
use crate::mcp::owner::Owner;
use crate::mcp::parked::Fingerprint;
use crate::mcp::session::Abilities;
use crate::mcp::views::{CALL_TOOL, View};
use crate::observe::call_record::CallRecord;
use crate::serve::streams::{self, StreamError};

/// How much of an unknown name is repeated, in characters.
const MAX_NAME: usize = 64;

/// A request for a call.
pub(super) struct Asked<'a> {
    pub(super) shard: &'a Shard,
    pub(super) entrance: &'a Entrance,
    pub(super) headers: &'a HeaderMap,
    pub(super) context: &'a RequestContext,
    pub(super) accepts: Accepts,
    pub(super) asker: Asker,
    pub(super) id: Id,
    pub(super) params: Box<Params>,
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
        let (shard, view) = (self.shard, Arc::clone(&self.entrance.view));
        let arguments = self.params.arguments.take().map_or_else(|| "{}".to_owned(), |it| Box::<str>::from(it).into());
        let (name, arguments, by) = match search::read(&view, name, arguments) {
            Ok(Wanted::Call { name, arguments, by }) => (name, arguments, by),
            Ok(Wanted::Search { task, limit }) => {
                let found = search::found(&shard.gateway, &self.context.principal, &view, &task, limit);
                return Ok(self.said(&found, &found, false));
            }
            Err(reason) => return Ok(self.said(&reason, "", true)),
        };
        let Some((name, entry)) = self.skill(&view, &name, by) else {
            let name: String = name.chars().filter(|it| !it.is_control()).take(MAX_NAME).collect();
            let fault = Fault::new(Code::InvalidParams, format!("there is no tool '{name}' here"));
            // What a model wrote into arguments, it can write again.
            return if by == By::Name { Err(fault) } else { Ok(self.said(&fault.message, "", true)) };
        };
        let may_change = entry.as_ref().is_none_or(|it| !it.skill.read_only);
        if by == By::ReadOnly && may_change {
            let message = format!("'{}' may change something: call it with {CALL_TOOL}", view.name_of(&name));
            return Ok(self.said(&message, "", true));
        }
        if may_change && let Some(refusal) = self.entrance.refuse_write(&shard.gateway, self.headers, &self.id) {
            return Ok(refusal);
        }
        if self.asker.revision.is_stateless()
            && by == By::Name
            && let Some(entry) = &entry
        {
            headers::check_arguments(self.headers, entry.definition.schema(), &arguments)?;
        }
        let task_after = task_rules::after(shard, (&self.params, self.asker.revision), entry.as_deref())?;
        let task_at = || task_after.map(|after| Instant::now() + after);
        let (voice, asks) = (self.voice(&name)?, self.asks(&name, &arguments));
        let abilities = asks.abilities();
        let kinds = abilities.kinds();
        let owner = Owner { principal: self.context.principal.name().to_owned(), view: view.name.clone() };
        let caller = || (shard.clone(), self.context.principal.clone(), owner.clone());
        let reply = |id: Id| Reply::new(caller(), id, self.asker.revision, entry.clone(), abilities);
        let run = async |call: Streamed| stream::answer(Box::new(call), self.accepts).await;
        if let (Asks::ByResult(way), Some(state)) = (&asks, &self.params.request_state) {
            // The call was admitted, but this is a new request: it is for whom the policy allows the tool now.
            if entry.is_none() && !self.context.principal.sees_all() {
                return Err(Fault::new(Code::InvalidParams, "there is no such tool here, or no longer"));
            }
            let answers = self.params.input_responses.take().unwrap_or_default();
            return match Box::pin(questions::come_back(way, state, &answers)).await? {
                Back::Asked(result) => Ok(answer::json(StatusCode::OK, jsonrpc::result(&self.id, &result))),
                Back::On(events) => {
                    let (running, reply, asked) = (Running::Heard(events), reply(self.id), answers.len());
                    let (given, together) = Default::default();
                    let (cancellable, task_at, resumable) = (None, task_at(), None);
                    let call = Streamed {
                        running,
                        reply,
                        voice,
                        cancellable,
                        asks,
                        asked,
                        given,
                        together,
                        task_at,
                        resumable,
                    };
                    run(call).await
                }
            };
        }
        let meta = self.params.meta.take().unwrap_or_default();
        let session = self.asker.session_name();
        let cancellable = match session {
            "" => None,
            session => Some(shard.gateway.mcp.clients.begin(session, self.id.json()).ok_or_else(|| {
                Fault::new(Code::InvalidRequest, "a request with this id is in flight: ids must not be used twice")
            })?),
        };
        let given = self.params.input_responses.take().unwrap_or_default();
        let (interactive, answers) = (!kinds.is_empty(), kinds.into_iter().map(i32::from).collect());
        let request = InvokeRequest { interactive, answers, ..self.request(name, arguments, &meta, session) };
        let mut context = self.context.clone();
        continue_trace(&mut context.trace, &meta);
        let (aside, default) = (&shard.gateway.aside, shard.gateway.config.default_timeout);
        let call = Arc::new(reading::read(aside, default, request, context).await);
        let trace_id = call.trace.id.clone();
        let reply = reply(self.id);
        let permit = match shard.gateway.admit(&call) {
            Ok(permit) => permit,
            Err(refusal) => {
                let message = reply.message(refuse(shard, &call, refusal.into())).await?;
                return Ok(traced(answer::json(StatusCode::OK, message), &trace_id));
            }
        };
        let is_heard = voice.is_heard() && self.accepts.events;
        let running = if is_heard || interactive || task_after.is_some() {
            Running::Heard(streams::one(shard.clone(), call, permit).map_err(StreamError::into_gateway).boxed())
        } else {
            let (shard, record) = (shard.clone(), CallRecord::begin(&shard.gateway.observer, &call));
            Running::Silent(async move { invoke(&shard, call, permit, None, record).await }.boxed())
        };
        let (asked, together, task_at) = (0, Vec::new(), task_at());
        let resumable = Resumable::of(&shard.gateway, &self.context.principal, &self.asker, view);
        let streamed =
            Streamed { running, reply, voice, cancellable, asks, asked, given, together, task_at, resumable };
        let response = run(streamed).await?;
        Ok(traced(response, &trace_id))
    }

    /// The id of a tool's skill, and the skill if there is one now. None if the view has no such tool.
    fn skill(&self, view: &View, name: &str, by: By) -> Option<(String, Option<Arc<Entry>>)> {
        let (catalog, principal) = (&self.shard.gateway.catalog, &self.context.principal);
        let id = view.id_of(name)?;
        let entry = catalog.get_for(id, principal);
        let is_here = match &entry {
            Some(entry) => view.has(&entry.skill) && (by != By::Name || view.lists(id)),
            // The call itself says what is near.
            None if view.is_whole() && by == By::Name => true,
            // Or that it may be back soon.
            None => view.chooses(id) && (by != By::Name || view.lists(id)) && catalog.had_recently_for(id, principal),
        };
        is_here.then(|| (id.to_owned(), entry))
    }

    /// The answer to a call of no skill. `structured`: JSON; empty for none.
    fn said(&self, text: &str, structured: &str, is_error: bool) -> Response {
        let result = content::said(text, structured, is_error, self.asker.revision);
        answer::json(StatusCode::OK, jsonrpc::result(&self.id, &result))
    }

    /// How the client is asked for something.
    fn asks(&self, name: &str, arguments: &str) -> Asks {
        let declared = || Some(self.params.meta.as_ref()?.capabilities.as_ref()?.abilities());
        let way = |abilities: Abilities| Way {
            shard: self.shard.clone(),
            principal: self.context.principal.clone(),
            fingerprint: Fingerprint::of(&self.entrance.view.name, name, arguments),
            abilities,
        };
        let is_able = |abilities: &Abilities| *abilities != Abilities::default();
        match self.asker.session {
            _ if self.asker.revision.is_stateless() => {
                declared().filter(is_able).map_or(Asks::Never, |it| Asks::ByResult(way(it)))
            }
            Some(session) if is_able(&session.abilities) && self.accepts.events => {
                Asks::OnStream(way(session.abilities))
            }
            _ => Asks::Never,
        }
    }

    fn request(&self, skill_id: String, arguments: String, meta: &Meta, session: &str) -> InvokeRequest {
        let key = || self.headers.get(IDEMPOTENCY_KEY).map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        InvokeRequest {
            skill_id,
            arguments: Some(Arguments::InputJson(arguments)),
            session_id: meta.session_id.clone().unwrap_or_else(|| session.to_owned()),
            idempotency_key: meta.idempotency_key.clone().or_else(key).unwrap_or_default(),
            ..InvokeRequest::default()
        }
    }

    /// What the client wants to hear while the call runs.
    fn voice(&self, skill_id: &str) -> Result<Voice, Fault> {
        let meta = self.params.meta.as_ref();
        let token = meta.and_then(|it| it.progress_token.as_ref()).map(|it| it.get().to_owned());
        if token.as_ref().is_some_and(|it| it.len() > 256 || !jsonrpc::is_echoed(it)) {
            let message = "params._meta.progressToken must be a readable string or number of at most 256 bytes";
            return Err(Fault::new(Code::InvalidParams, message));
        }
        let level = match (meta.and_then(|it| it.log_level.as_deref()), self.asker.session) {
            (Some(level), _) if self.asker.revision.is_stateless() => Some(
                Level::named(level)
                    .ok_or_else(|| Fault::new(Code::InvalidParams, "there is no such level of messages"))?,
            ),
            (_, Some(session)) => self.shard.gateway.mcp.clients.level(self.context.principal.name(), session.name()),
            _ => None,
        };
        Ok(Voice::new(token, level, skill_id))
    }
}

/// A trace that the message names goes before that of the headers.
fn continue_trace(trace: &mut Trace, meta: &Meta) {
    let Some(parent) = &meta.traceparent else { return };
    let of_message = Trace::from_headers(None, Some(parent.as_bytes()), meta.tracestate.as_deref().map(str::as_bytes));
    if of_message.has_parent {
        *trace = of_message;
    }
}
