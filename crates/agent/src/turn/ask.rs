//! A model request, or the router's choice if there is no model.

use std::sync::Arc;
use std::time::Duration;

use openskill_model::{Message, Model, ModelCall, ModelError, ModelRequest, ModelResponse, StopReason};
use openskill_proto::v1::{self, chat_event::Event};

use super::toolbox::Toolbox;
use super::{State, Turn};
use crate::context::messages::{ConversationView, summary_request, view};
use crate::context::prompt::{PromptInputs, system};
use crate::context::result::plain;
use crate::entry::{EndReason, Entry, Replied, Summarized, TurnEnded};
use crate::error::AgentError;
use crate::router::route;
use crate::secret_tail::Tail;

/// The maximum number of attempts for a request before the turn fails.
const ATTEMPTS: u32 = 3;

/// The maximum delay between two attempts. If the provider asks for a longer delay, the turn fails.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The minimum time for the last request, even if the turn's time has run out.
const GRACE: Duration = Duration::from_secs(60);

/// The maximum length of a call id that is kept unchanged, in bytes.
const MAX_ID_BYTES: usize = 64;

/// The maximum length of the text in one event, in bytes.
const MAX_PIECE_BYTES: usize = 2 << 10;

/// The maximum number of calls in a reply. Additional calls are ignored.
const MAX_CALLS: usize = 128;

/// Why a model request produced no answer.
#[derive(Debug)]
enum Failure {
    Model(ModelError),
    Empty,
    Late,
}

impl Turn {
    /// Calls the model or the router, and writes the reply to the log.
    pub(super) async fn ask(&self) -> Result<(), AgentError> {
        let wanted = self.state.lock().turn_start().map(|it| it.model.clone()).unwrap_or_default();
        if wanted.is_empty() {
            return self.route().await;
        }
        let model = match self.shared.models.pick(&wanted) {
            Ok(Some(model)) => model,
            Ok(None) => return self.fail(format!("no model {wanted:?} is configured")).await,
            Err(error) => return self.fail(error.to_string()).await,
        };
        let mut view = self.view();
        if let Some(until) = view.summarize {
            self.summarize(&model, until).await?;
            view = self.view();
        }
        let toolbox = self.toolbox_with(&[]).await?;
        let limit = self.state.lock().limit();
        let (request, time) = self.model_request(view, &toolbox, limit);
        match self.ask_patiently(&model, &request, time).await {
            Ok(reply) => {
                let replied = self.reply_entry(&model, reply, limit.is_some());
                self.write(vec![Entry::Replied(replied)]).await?;
                self.show_usage();
                Ok(())
            }
            Err(Failure::Late) => {
                let text = self.state.lock().reply_text().to_owned();
                let limit = "timeout_ms".to_owned();
                self.finish(TurnEnded { end: EndReason::Limit, limit, text, ..TurnEnded::default() }).await
            }
            Err(Failure::Empty) => self.fail(format!("{wanted} returned neither text nor a call")).await,
            Err(Failure::Model(error)) => self.fail(error.to_string()).await,
        }
    }

    fn view(&self) -> ConversationView {
        let config = &self.shared.config;
        view(&self.state.lock().entries, config.window, config.token_budget)
    }

    fn model_request(
        &self,
        view: ConversationView,
        toolbox: &Toolbox,
        limit: Option<&str>,
    ) -> (ModelRequest, Duration) {
        let config = &self.shared.config;
        let state = self.state.lock();
        let inputs = PromptInputs {
            instructions: self.delegated.as_ref().map_or(config.instructions.as_str(), |it| &it.prompt),
            disabled: &toolbox.disabled,
            mode: state.turn_start().map(|it| it.mode).unwrap_or_default(),
            builtin_tools: &toolbox.builtin,
            limit,
            is_delegated: self.delegated.is_some(),
            sees_pictures: self.sees_pictures(),
        };
        // The token limit also limits the length of the answer.
        let most = state.tokens_left().filter(|_| limit.is_none()).unwrap_or_default();
        let mut messages = view.messages;
        self.pictures.lock().add_to(&mut messages);
        let request = ModelRequest {
            system: system(&inputs),
            messages,
            tools: toolbox.definitions.clone(),
            may_call: limit.is_none(),
            max_tokens: u32::try_from(most).unwrap_or(u32::MAX),
            temperature: None,
            text_calls: config.text_calls,
        };
        (request, if limit.is_some() { state.time_left().max(GRACE) } else { state.time_left() })
    }

    /// Repeats the request until it succeeds, fails permanently, or runs out of time.
    async fn ask_patiently(
        &self,
        model: &Arc<dyn Model>,
        request: &ModelRequest,
        time: Duration,
    ) -> Result<ModelResponse, Failure> {
        let asking = async {
            let mut backoff = Duration::from_millis(500);
            let mut attempt = 1;
            loop {
                let failure = match self.ask_once(model, request, time).await {
                    Ok(reply) if reply.text.is_empty() && reply.calls.is_empty() && reply.stop == StopReason::Done => {
                        Failure::Empty
                    }
                    Ok(reply) => return Ok(reply),
                    Err(error) => Failure::Model(error),
                };
                let (is_transient, wanted) = match &failure {
                    Failure::Model(error @ ModelError::Refused { retry_after, .. }) => {
                        (error.is_transient(), *retry_after)
                    }
                    Failure::Model(error) => (error.is_transient(), None),
                    Failure::Empty | Failure::Late => (true, None),
                };
                let pause = wanted.unwrap_or(backoff);
                if !is_transient || attempt == ATTEMPTS || pause > MAX_BACKOFF {
                    return Err(failure);
                }
                tracing::warn!(conversation = self.conversation, attempt, ?failure, "asking the model again");
                tokio::time::sleep(pause).await;
                let text = v1::TextPiece { text: String::new(), restart: true };
                self.show(Event::Text(text));
                (attempt, backoff) = (attempt + 1, backoff * 2);
            }
        };
        tokio::time::timeout(time, asking).await.unwrap_or(Err(Failure::Late))
    }

    async fn ask_once(
        &self,
        model: &Arc<dyn Model>,
        request: &ModelRequest,
        time: Duration,
    ) -> Result<ModelResponse, ModelError> {
        let mut tail = Tail::default();
        let mut show = |text: &str| self.show_text(&tail.push(text, &self.secrets));
        let asking = self.spans.start_request(&self.conversation, model.as_ref(), request, time);
        let answer = model.ask(request, &mut show).await;
        self.show_text(&tail.end(&self.secrets));
        asking.end(&answer);
        answer
    }

    /// Sends the model's text to watchers, in pieces small enough to be buffered.
    fn show_text(&self, mut text: &str) {
        while !text.is_empty() {
            let (piece, rest) = text.split_at(text.floor_char_boundary(MAX_PIECE_BYTES));
            self.show(Event::Text(v1::TextPiece { text: piece.to_owned(), restart: false }));
            text = rest;
        }
    }

    /// Converts a reply into an entry, and gives its calls unique ids. Drops the calls of the last reply at a
    /// limit.
    fn reply_entry(&self, model: &Arc<dyn Model>, reply: ModelResponse, is_last: bool) -> Replied {
        let state = self.state.lock();
        let tokens = reply.tokens;
        let mut calls: Vec<ModelCall> = Vec::new();
        let wanted = if is_last { Vec::new() } else { reply.calls };
        for (i, call) in wanted.into_iter().take(MAX_CALLS).enumerate() {
            let is_new = |id: &String| !state.is_used(id) && calls.iter().all(|it| it.id != *id);
            // The model may have written such an id before, so check it too.
            let own = |n: usize| format!("call_{}_{n}", state.next_number());
            let id = Some(call.id).filter(|id| is_id(id) && is_new(id));
            let id = id.or_else(|| (i..).map(own).find(is_new)).unwrap_or_default();
            calls.push(ModelCall { id, ..call });
        }
        Replied {
            text: reply.text,
            calls,
            model: model.name().to_owned(),
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cost_micros: self.shared.config.cost(model.name(), tokens),
            is_last,
            stopped: reply.stop,
            routing: None,
        }
    }

    /// Asks the model to summarize rounds that no longer fit. If this fails, the turn continues, and the model
    /// sees less of the conversation.
    async fn summarize(&self, model: &Arc<dyn Model>, until: u64) -> Result<(), AgentError> {
        let (request, time) = {
            let state = self.state.lock();
            let (system, text) = summary_request(&state.entries, until);
            let request = ModelRequest { system, messages: vec![Message::User(text)], ..ModelRequest::default() };
            (request, state.time_left())
        };
        let mut silent = |_: &str| {};
        let asking = self.spans.start_request(&self.conversation, model.as_ref(), &request, time);
        let asked = tokio::time::timeout(time, model.ask(&request, &mut silent)).await;
        if let Ok(answer) = &asked {
            asking.end(answer);
        }
        match asked {
            Ok(Ok(reply)) if !reply.text.is_empty() => {
                let summarized = Summarized {
                    until,
                    text: reply.text,
                    tokens: reply.tokens.input.saturating_add(reply.tokens.output),
                    cost_micros: self.shared.config.cost(model.name(), reply.tokens),
                };
                self.write(vec![Entry::Summarized(summarized)]).await
            }
            failed => {
                tracing::warn!(conversation = self.conversation, ?failed, "earlier messages could not be summarized");
                Ok(())
            }
        }
    }

    /// Lets the router choose a skill for the message.
    async fn route(&self) -> Result<(), AgentError> {
        let (text, trace_id) = {
            let state = self.state.lock();
            let started = state.turn_start().cloned().unwrap_or_default();
            (started.text, started.trace_id)
        };
        let skills = match self.shared.skills.list(&self.caller).await {
            Ok(skills) => skills,
            Err(error) => return self.fail(error.to_string()).await,
        };
        let choice = route(&text, &skills);
        let routing = choice.routing;
        tracing::info!(
            trace_id,
            selected_skill_id = routing.skill_id,
            routing_reason = routing.reason,
            "the router chose a skill"
        );
        let id = format!("call_{}_0", self.state.lock().next_number());
        let name = routing.skill_id.clone();
        let call = choice.arguments.map(|arguments| ModelCall { id, name, arguments, opaque: String::new() });
        let replied = Replied {
            text: choice.text,
            calls: call.into_iter().collect(),
            routing: Some(routing),
            ..Replied::default()
        };
        self.write(vec![Entry::Replied(replied)]).await
    }

    /// Ends the turn with its last reply.
    pub(super) async fn end(&self) -> Result<(), AgentError> {
        let ended = answer(&self.state.lock());
        self.finish(ended).await
    }

    /// Ends the turn with a failure.
    async fn fail(&self, error: String) -> Result<(), AgentError> {
        let text = self.state.lock().reply_text().to_owned();
        self.finish(TurnEnded { end: EndReason::Failed, error, text, ..TurnEnded::default() }).await
    }
}

/// Returns the end of a turn whose last reply is its answer.
fn answer(state: &State) -> TurnEnded {
    let Some(reply) = state.last_reply() else { return TurnEnded::default() };
    let limit = reply.is_last.then(|| state.limit().unwrap_or("max_iterations"));
    let mut ended = TurnEnded { text: reply.text.clone(), ..TurnEnded::default() };
    if reply.routing.is_some() {
        let results = reply.calls.iter().filter_map(|call| state.result(&call.id));
        let texts = results.map(plain);
        let all: Vec<_> = texts.chain((!reply.text.is_empty()).then(|| reply.text.clone())).collect();
        ended.text = all.join("\n\n");
    }
    match (limit, reply.stopped) {
        (Some(limit), _) => (ended.end, ended.limit) = (EndReason::Limit, limit.to_owned()),
        (None, StopReason::Length) => {
            (ended.end, ended.limit) = (EndReason::Limit, "max_tokens of one answer".to_owned())
        }
        (None, StopReason::Refused) => {
            ended.end = EndReason::Failed;
            ended.error = "the provider refused or filtered the answer: rephrase the message".to_owned();
        }
        (None, StopReason::Done) => {}
    }
    ended
}

/// Returns whether every provider accepts this id.
fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= MAX_ID_BYTES
        && id.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-'))
}
