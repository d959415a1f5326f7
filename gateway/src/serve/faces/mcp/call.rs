//! `tools/call`: one call, as over REST. The response is JSON, unless events precede the result.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::{FutureExt as _, StreamExt as _};
use openskill_proto::metadata::IDEMPOTENCY_KEY;
use openskill_proto::trace::{Trace, hex, random_id};
use openskill_proto::v1::InvokeRequest;
use openskill_proto::v1::invoke_request::Arguments;
use tokio::time::Instant;

use super::client::McpClient;
use super::jsonrpc::{self, Code, Id, Meta, Params, RpcError, invalid_params};
use super::list::{self, CalledVia, ToolRequest};
use super::questions::{self, ElicitationMode, Resumed};
use super::reply::ToolReply;
use super::response::{self, Accepts, with_trace_id};
use super::sse::ResumableStream;
use super::stream::{self, Notifications, StreamedCall};
use super::tasks::PendingCall;
use super::view_access::ViewAccess;
use super::{content, headers, tasks};
use crate::call::claim::CallClaim;
use crate::call::reading;
use crate::call::request::RequestContext;
use crate::catalog::entry::Entry;
use crate::gateway::Shard;
use crate::invoke::{invoke, refuse};
use crate::mcp::clients::Level;
use crate::mcp::owner::Owner;
use crate::mcp::parked::{Fingerprint, FollowedCall, RunningCall};
use crate::mcp::session::Abilities;
use crate::mcp::views::{CALL_TOOL, View};
use crate::observe::call_record::CallRecord;
use crate::streams;

/// The maximum number of characters quoted from an unknown name.
const MAX_NAME: usize = 64;

/// A `tools/call` request.
pub(super) struct ToolCallRequest<'a> {
    pub(super) shard: &'a Shard,
    pub(super) access: &'a ViewAccess,
    pub(super) headers: &'a HeaderMap,
    pub(super) context: &'a RequestContext,
    pub(super) accepts: Accepts,
    pub(super) client: McpClient,
    pub(super) id: Id,
    pub(super) params: Box<Params>,
}

impl ToolCallRequest<'_> {
    /// Calls the tool.
    ///
    /// # Errors
    /// The request names no tool of the view, or is malformed.
    pub(super) async fn call(mut self) -> Result<Response, RpcError> {
        let Some(name) = self.params.name.take() else {
            return Err(invalid_params("params.name is missing: set it to the tool to call"));
        };
        let (shard, view) = (self.shard, Arc::clone(&self.access.view));
        let arguments = self.params.arguments.take().map_or_else(|| "{}".to_owned(), |it| Box::<str>::from(it).into());
        let (name, arguments, via) = match list::tool_request(&view, name, arguments) {
            Ok(ToolRequest::Call { name, arguments, via }) => (name, arguments, via),
            Ok(ToolRequest::Search { task, limit }) => {
                let found = list::search_results(&shard.gateway, &self.context.principal, &view, &task, limit);
                return Ok(self.builtin_response(&found, &found, false));
            }
            Err(reason) => return Ok(self.builtin_response(&reason, "", true)),
        };
        let Some((name, entry)) = self.skill(&view, &name, via) else {
            let name: String = name.chars().filter(|it| !it.is_control()).take(MAX_NAME).collect();
            let fault = invalid_params(format!("there is no tool '{name}' in this view"));
            // If the model wrote the wrong name in the arguments, it can correct it.
            return if via == CalledVia::Name {
                Err(fault)
            } else {
                Ok(self.builtin_response(&fault.message, "", true))
            };
        };
        let may_change = entry.as_ref().is_none_or(|it| !it.skill.read_only);
        if via == CalledVia::ReadOnly && may_change {
            let message = format!("'{}' may change something: call it with {CALL_TOOL}", view.name_of(&name));
            return Ok(self.builtin_response(&message, "", true));
        }
        if may_change && let Some(refusal) = self.access.refuse_write(&shard.gateway, self.headers, &self.id) {
            return Ok(refusal);
        }
        if self.client.revision.is_stateless()
            && via == CalledVia::Name
            && let Some(entry) = &entry
        {
            headers::check_arguments(self.headers, entry.definition.schema(), &arguments)?;
        }
        let task_after = tasks::task_delay(shard, &self.params, self.client.revision, entry.as_deref())?;
        let task_at = || task_after.map(|after| Instant::now() + after);
        let notifications = self.notifications(&name)?;
        let (elicitation, abilities) = self.elicitation(&name, &arguments);
        let reply = ToolReply {
            shard: shard.clone(),
            id: self.id.clone(),
            revision: self.client.revision,
            entry,
            principal: self.context.principal.clone(),
            owner: Owner { principal: self.context.principal.name().to_owned(), view: view.name.clone() },
            abilities,
        };
        if let (ElicitationMode::ByResult(fingerprint), Some(state)) = (elicitation, &self.params.request_state) {
            let principal = &self.context.principal;
            // An earlier request was admitted with this call, but this is a new request: the policy must still
            // allow the tool.
            if reply.entry.is_none() && !principal.sees_all() {
                return Err(invalid_params("there is no such tool in this view, or it was removed"));
            }
            let answers = self.params.input_responses.take().unwrap_or_default();
            let resumed = questions::resume_with_answers(shard, principal, fingerprint, state, &answers);
            return match Box::pin(resumed).await? {
                Resumed::AskAgain(result) => Ok(response::json(StatusCode::OK, jsonrpc::result(&self.id, &result))),
                Resumed::Continues(followed) => {
                    let running = RunningCall::WithEvents(followed);
                    let mut pending = PendingCall::new(running, reply);
                    pending.question_count = answers.len();
                    let (cancellable, early_answers, resumable) = Default::default();
                    let task_at = task_at();
                    let streamed = StreamedCall {
                        pending,
                        notifications,
                        cancellable,
                        elicitation,
                        early_answers,
                        task_at,
                        resumable,
                    };
                    stream::answer(Box::new(streamed), self.accepts).await
                }
            };
        }
        let meta = self.params.meta.take().unwrap_or_default();
        let session = self.client.session_name();
        let cancellable = match session {
            "" => None,
            session => Some(shard.gateway.mcp.clients.begin(session, self.id.json()).ok_or_else(|| {
                RpcError::new(Code::InvalidRequest, "a request with this id is in flight: ids must not be used twice")
            })?),
        };
        let early_answers = self.params.input_responses.take().unwrap_or_default();
        let kinds = abilities.kinds();
        let (interactive, answers) = (!kinds.is_empty(), kinds.into_iter().map(i32::from).collect());
        let request = InvokeRequest { interactive, answers, ..self.request(name, arguments, &meta, session) };
        let mut context = self.context.clone();
        continue_trace(&mut context.trace, &meta);
        let (pool, default) = (&shard.gateway.blocking_pool, shard.gateway.config.default_timeout);
        let mut call = reading::read(pool, default, request, context).await;
        if task_after.is_some() && shard.gateway.long_running.has_tasks() {
            call.claim = Some(CallClaim::reserve(hex(&random_id::<16>())));
        }
        let call = Arc::new(call);
        let trace_id = call.trace.id.clone();
        let permit = match shard.gateway.admit(&call) {
            Ok(permit) => permit,
            Err(refusal) => {
                let message = reply.message(refuse(shard, &call, refusal.into())).await?;
                return Ok(with_trace_id(response::json(StatusCode::OK, message), &trace_id));
            }
        };
        let wants_events = notifications.wants_any() && self.accepts.events;
        let running = if wants_events || interactive || task_after.is_some() {
            let adoptable = call.claim.is_some().then(|| Arc::clone(&call));
            let events = streams::one(shard.clone(), call, permit).boxed();
            RunningCall::WithEvents(FollowedCall { events, call: adoptable })
        } else {
            let (shard, record) = (shard.clone(), CallRecord::begin(&shard.gateway.observer, &call));
            RunningCall::ResultOnly(async move { invoke(&shard, call, permit, None, record).await }.boxed())
        };
        let (pending, task_at) = (PendingCall::new(running, reply), task_at());
        let resumable = ResumableStream::for_client(&shard.gateway, &self.context.principal, &self.client, &view);
        let streamed =
            StreamedCall { pending, notifications, cancellable, elicitation, early_answers, task_at, resumable };
        let response = stream::answer(Box::new(streamed), self.accepts).await?;
        Ok(with_trace_id(response, &trace_id))
    }

    /// Returns the skill id of a tool, and the skill if it currently exists. None if the view has no such tool.
    fn skill(&self, view: &View, name: &str, via: CalledVia) -> Option<(String, Option<Arc<Entry>>)> {
        let (catalog, principal) = (&self.shard.gateway.catalog, &self.context.principal);
        // A tool is a skill in whichever version its traffic rule chooses: `id@version` is no tool.
        let id = view.id_of(name).filter(|id| !id.contains('@'))?;
        let entry = catalog.get_for(id, principal);
        let is_here = match &entry {
            Some(entry) => view.has(&entry.skill) && (via != CalledVia::Name || view.lists(id)),
            // The call fails with a suggestion of similar names.
            None if view.is_full_catalog() && via == CalledVia::Name => true,
            // The call fails with a hint that the skill may be back soon.
            None => {
                view.chooses(id)
                    && (via != CalledVia::Name || view.lists(id))
                    && catalog.had_recently_for(id, principal)
            }
        };
        is_here.then(|| (id.to_owned(), entry))
    }

    /// Builds the response of a built-in tool. `structured` is JSON, or empty.
    fn builtin_response(&self, text: &str, structured: &str, is_error: bool) -> Response {
        let result = content::builtin_result(text, structured, is_error, self.client.revision);
        response::json(StatusCode::OK, jsonrpc::result(&self.id, &result))
    }

    /// Decides how questions reach the client's user. Also returns the kinds of questions that the client supports.
    fn elicitation(&self, name: &str, arguments: &str) -> (ElicitationMode, Abilities) {
        let declared = || Some(self.params.meta.as_ref()?.capabilities.as_ref()?.abilities());
        let by_result = || ElicitationMode::ByResult(Fingerprint::new(&self.access.view.name, name, arguments));
        let is_able = |abilities: &Abilities| *abilities != Abilities::default();
        let able = match self.client.session {
            _ if self.client.revision.is_stateless() => declared().filter(is_able).map(|it| (by_result(), it)),
            Some(session) if self.accepts.events => {
                Some(session.abilities).filter(is_able).map(|it| (ElicitationMode::OnStream, it))
            }
            _ => None,
        };
        able.unwrap_or((ElicitationMode::Never, Abilities::default()))
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

    /// Returns the notifications that the client wants while the call runs.
    fn notifications(&self, skill_id: &str) -> Result<Notifications, RpcError> {
        let meta = self.params.meta.as_ref();
        let token = meta.and_then(|it| it.progress_token.as_ref()).map(|it| it.get().to_owned());
        if token.as_ref().is_some_and(|it| it.len() > 256 || !jsonrpc::is_echoed(it)) {
            let message = "params._meta.progressToken must be a readable string or number of at most 256 bytes";
            return Err(invalid_params(message));
        }
        let level = match (meta.and_then(|it| it.log_level.as_deref()), self.client.session) {
            (Some(level), _) if self.client.revision.is_stateless() => {
                Some(Level::from_name(level).ok_or_else(|| invalid_params("the level is not an MCP log level"))?)
            }
            (_, Some(session)) => self.shard.gateway.mcp.clients.level(self.context.principal.name(), session.name()),
            _ => None,
        };
        Ok(Notifications::new(token, level, skill_id))
    }
}

/// Continues the trace that the message contains, which takes precedence over that of the headers.
fn continue_trace(trace: &mut Trace, meta: &Meta) {
    let Some(parent) = &meta.traceparent else { return };
    let of_message = Trace::from_headers(None, Some(parent.as_bytes()), meta.tracestate.as_deref().map(str::as_bytes));
    if of_message.has_parent {
        *trace = of_message;
    }
}
