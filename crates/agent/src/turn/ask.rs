//! One request to the model, or the router's choice if there is no model.

use std::sync::Arc;
use std::time::Duration;

use openskill_proto::v1::{self, chat_event::Event};

use super::toolbox::Toolbox;
use super::{State, Turn};
use crate::context::messages::{View, summary_request, view};
use crate::context::prompt::{Facts, system};
use crate::context::result::plain;
use crate::entry::{End, Ended, Entry, Replied, ReplyCall, Stopped, Summarized};
use crate::error::AgentError;
use crate::message::Message;
use crate::provider::{Model, ModelError, Reply, Request, Stop};
use crate::router::route;
use crate::secret_tail::Tail;

/// How often a request is made before its failure counts.
const ATTEMPTS: u32 = 3;

/// The longest time between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The time of a last request, after the turn's own.
const GRACE: Duration = Duration::from_secs(60);

/// The longest id of a call that is kept as the model wrote it, in bytes.
const MAX_ID_BYTES: usize = 64;

/// The longest piece of text that is shown at once, in bytes.
const MAX_PIECE_BYTES: usize = 2 << 10;

/// Calls of one reply.
const MAX_CALLS: usize = 128;

/// Why there is no answer.
#[derive(Debug)]
enum Failure {
    Model(ModelError),
    Empty,
    Late,
}

impl Turn {
    /// Asks the model, or the router, and writes what it answers.
    pub(super) async fn ask(&self) -> Result<(), AgentError> {
        let wanted = self.state().started().map(|it| it.model.clone()).unwrap_or_default();
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
        let limit = self.state().limit();
        let (request, time) = self.model_request(view, &toolbox, limit);
        match self.ask_patiently(&model, &request, time).await {
            Ok(reply) => {
                let replied = self.replied(&model, reply, limit.is_some());
                self.write(vec![Entry::Replied(replied)]).await?;
                self.show_usage();
                Ok(())
            }
            Err(Failure::Late) => {
                let text = self.state().reply_text().to_owned();
                let limit = "timeout_ms".to_owned();
                self.finish(Ended { end: End::Limit, limit, text, ..Ended::default() }).await
            }
            Err(Failure::Empty) => self.fail(format!("{wanted} answered nothing: no text and no call")).await,
            Err(Failure::Model(error)) => self.fail(error.to_string()).await,
        }
    }

    fn view(&self) -> View {
        let config = &self.shared.config;
        view(self.state().entries(), config.window, config.token_budget)
    }

    fn model_request(&self, view: View, toolbox: &Toolbox, limit: Option<&str>) -> (Request, Duration) {
        let config = &self.shared.config;
        let state = self.state();
        let facts = Facts {
            instructions: self.delegated.as_ref().map_or(config.instructions.as_str(), |it| &it.prompt),
            disabled: &toolbox.disabled,
            mode: state.started().map(|it| it.mode).unwrap_or_default(),
            own_tools: &toolbox.own,
            limit,
            is_delegated: self.delegated.is_some(),
            sees_pictures: self.sees_pictures(),
        };
        // A bound of tokens bounds the answer too.
        let most = state.tokens_left().filter(|_| limit.is_none()).unwrap_or_default();
        let mut messages = view.messages;
        self.show_pictures(&mut messages);
        let request = Request {
            system: system(&facts),
            messages,
            tools: toolbox.definitions.clone(),
            may_call: limit.is_none(),
            max_tokens: u32::try_from(most).unwrap_or(u32::MAX),
            text_calls: config.text_calls,
        };
        (request, if limit.is_some() { state.time_left().max(GRACE) } else { state.time_left() })
    }

    /// Asks until there is an answer, the failure is lasting, or the time is up.
    async fn ask_patiently(&self, model: &Arc<dyn Model>, request: &Request, time: Duration) -> Result<Reply, Failure> {
        let asking = async {
            let mut backoff = Duration::from_millis(500);
            let mut attempt = 1;
            loop {
                let failure = match self.ask_once(model, request, time).await {
                    Ok(reply) if reply.text.is_empty() && reply.calls.is_empty() && reply.stop == Stop::Done => {
                        Failure::Empty
                    }
                    Ok(reply) => return Ok(reply),
                    Err(error) => Failure::Model(error),
                };
                let (is_transient, wanted) = match &failure {
                    Failure::Model(error) => (error.is_transient(), retry_after(error)),
                    _ => (true, None),
                };
                let pause = wanted.unwrap_or(backoff);
                if !is_transient || attempt == ATTEMPTS || pause > MAX_BACKOFF {
                    return Err(failure);
                }
                tracing::warn!(conversation = self.conversation, attempt, ?failure, "the model is asked again");
                tokio::time::sleep(pause).await;
                let text = v1::TextPiece { text: String::new(), restart: true };
                self.show(Event::Text(text));
                (attempt, backoff) = (attempt + 1, backoff * 2);
            }
        };
        tokio::time::timeout(time, asking).await.unwrap_or(Err(Failure::Late))
    }

    async fn ask_once(&self, model: &Arc<dyn Model>, request: &Request, time: Duration) -> Result<Reply, ModelError> {
        let mut tail = Tail::default();
        let mut show = |text: &str| self.show_text(&tail.push(text, &self.secrets));
        let asking = self.spans.asks(&self.conversation, model.as_ref(), request, time);
        let answer = model.ask(request, &mut show).await;
        self.show_text(&tail.end(&self.secrets));
        asking.end(&answer);
        answer
    }

    /// Shows watchers text of the model, in pieces that they need not wait for.
    fn show_text(&self, mut text: &str) {
        while !text.is_empty() {
            let (piece, rest) = text.split_at(text.floor_char_boundary(MAX_PIECE_BYTES));
            self.show(Event::Text(v1::TextPiece { text: piece.to_owned(), restart: false }));
            text = rest;
        }
    }

    /// A reply as an entry: its calls have ids of their own, and a last one has no calls.
    fn replied(&self, model: &Arc<dyn Model>, reply: Reply, is_last: bool) -> Replied {
        let state = self.state();
        let price = self.shared.config.prices.iter().find(|it| it.model == model.name());
        let tokens = reply.tokens;
        let mut calls: Vec<ReplyCall> = Vec::new();
        let wanted = if is_last { Vec::new() } else { reply.calls };
        for (i, call) in wanted.into_iter().take(MAX_CALLS).enumerate() {
            let is_new = |id: &String| !state.is_used(id) && calls.iter().all(|it| it.id != *id);
            // The model may have written such an id before.
            let own = |n: usize| format!("call_{}_{n}", state.next_number());
            let id = Some(call.id).filter(|id| is_id(id) && is_new(id));
            let id = id.or_else(|| (i..).map(own).find(is_new)).unwrap_or_default();
            calls.push(ReplyCall { id, name: call.name, arguments: call.arguments, opaque: call.opaque });
        }
        Replied {
            text: reply.text,
            calls,
            model: model.name().to_owned(),
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cost_micros: price.map_or(0, |it| it.of(tokens.input, tokens.output)),
            is_last,
            stopped: match reply.stop {
                Stop::Done => Stopped::No,
                Stop::Length => Stopped::Length,
                Stop::Refused => Stopped::Refused,
            },
            routing: None,
        }
    }

    /// Summarizes what no longer fits. A summary that fails is no failure of the turn: the model then sees less.
    async fn summarize(&self, model: &Arc<dyn Model>, until: u64) -> Result<(), AgentError> {
        let config = &self.shared.config;
        let (request, time) = {
            let state = self.state();
            let (system, text) = summary_request(state.entries(), until);
            let request = Request { system, messages: vec![Message::User(text)], ..Request::default() };
            (request, state.time_left())
        };
        let mut silent = |_: &str| {};
        let asking = self.spans.asks(&self.conversation, model.as_ref(), &request, time);
        let asked = tokio::time::timeout(time, model.ask(&request, &mut silent)).await;
        if let Ok(answer) = &asked {
            asking.end(answer);
        }
        match asked {
            Ok(Ok(reply)) if !reply.text.is_empty() => {
                let price = config.prices.iter().find(|it| it.model == model.name());
                let (input, output) = (reply.tokens.input, reply.tokens.output);
                let summarized = Summarized {
                    until,
                    text: reply.text,
                    tokens: input.saturating_add(output),
                    cost_micros: price.map_or(0, |it| it.of(input, output)),
                };
                self.write(vec![Entry::Summarized(summarized)]).await
            }
            failed => {
                tracing::warn!(conversation = self.conversation, ?failed, "earlier messages could not be summarized");
                Ok(())
            }
        }
    }

    /// Lets rules choose a skill for the message.
    async fn route(&self) -> Result<(), AgentError> {
        let (text, trace_id) = {
            let state = self.state();
            let started = state.started().cloned().unwrap_or_default();
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
            "the router chose"
        );
        let id = format!("call_{}_0", self.state().next_number());
        let call =
            choice.call.map(|it| ReplyCall { id, name: it.skill_id, arguments: it.arguments, opaque: String::new() });
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
        let ended = {
            let state = self.state();
            let reply = state.last_reply();
            let is_last = reply.is_some_and(|it| it.is_last);
            let stopped = reply.map(|it| it.stopped).unwrap_or_default();
            let limit = state.limit().unwrap_or("max_iterations");
            answer(&state, is_last.then_some(limit), stopped)
        };
        self.finish(ended).await
    }

    /// Ends the turn because the model can't be asked.
    async fn fail(&self, error: String) -> Result<(), AgentError> {
        let text = self.state().reply_text().to_owned();
        self.finish(Ended { end: End::Failed, error, text, ..Ended::default() }).await
    }
}

/// The end of a turn whose last reply is its answer.
fn answer(state: &State, limit: Option<&str>, stopped: Stopped) -> Ended {
    let Some(reply) = state.last_reply() else { return Ended::default() };
    let mut ended = Ended { text: reply.text.clone(), ..Ended::default() };
    if reply.routing.is_some() {
        let results = reply.calls.iter().filter_map(|call| state.result(&call.id));
        let texts = results.map(plain);
        let all: Vec<_> = texts.chain((!reply.text.is_empty()).then(|| reply.text.clone())).collect();
        ended.text = all.join("\n\n");
    }
    match (limit, stopped) {
        (Some(limit), _) => (ended.end, ended.limit) = (End::Limit, limit.to_owned()),
        (None, Stopped::Length) => (ended.end, ended.limit) = (End::Limit, "max_tokens of one answer".to_owned()),
        (None, Stopped::Refused) => {
            ended.end = End::Failed;
            ended.error = "the provider refused or filtered the answer: put it another way".to_owned();
        }
        (None, Stopped::No) => {}
    }
    ended
}

fn retry_after(error: &ModelError) -> Option<Duration> {
    match error {
        ModelError::Refused { retry_after, .. } => *retry_after,
        _ => None,
    }
}

/// Whether every provider takes an id back as it is.
fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= MAX_ID_BYTES
        && id.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-'))
}
