//! The events of one exchange: from a client's input to `done`.
//!
//! A client that can't send more input gets a `done` event as soon as only the user can continue the turn. The
//! turn itself keeps waiting.

use std::collections::{BTreeSet, VecDeque};

use futures_util::future::OptionFuture;
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::chat_event::Event;
use openskill_proto::v1::{self, ChatEvent, TurnEnd};

use crate::agent::{Accepted, Events, Input, request_id};
use crate::error::AgentError;
use crate::hosted::Hosted;
use crate::skills::Caller;

/// The client's later inputs. An error ends the exchange.
pub(super) type Inputs<E> = BoxStream<'static, Result<Input, E>>;

struct Exchange<E> {
    agent: Hosted,
    caller: Caller,
    conversation: String,
    events: Events,
    /// `None` means that the client can't send more input.
    inputs: Option<Inputs<E>>,
    state: ExchangeState,
    ended: bool,
}

/// Returns the events after the first input, ending with `done`. Sends `inputs` to the same conversation. The
/// exchange ends with an error if the client's stream fails, the agent rejects an input, or the agent shuts down.
pub(super) fn exchange<E: From<AgentError> + Send + 'static>(
    agent: Hosted,
    caller: Caller,
    accepted: Accepted,
    inputs: Option<Inputs<E>>,
) -> impl Stream<Item = Result<ChatEvent, E>> + Send + 'static {
    let state = ExchangeState::default();
    let (conversation, events) = (accepted.conversation_id, accepted.events);
    let exchange = Exchange { agent, caller, conversation, events, inputs, state, ended: false };
    stream::unfold(exchange, Exchange::step)
}

impl<E: From<AgentError>> Exchange<E> {
    async fn step(mut self) -> Option<(Result<ChatEvent, E>, Self)> {
        if self.ended {
            return None;
        }
        let item = loop {
            if self.inputs.is_none() && self.state.is_waiting() {
                self.ended = true;
                break Ok(self.state.done_event(&self.conversation));
            }
            tokio::select! {
                event = self.events.next() => {
                    // The stream ends only when the conversation is deleted.
                    let event = event.unwrap_or(Err(AgentError::NoConversation));
                    self.ended = event.as_ref().map_or(true, |it| self.state.see(it));
                    break event.map_err(E::from);
                }
                Some(input) = OptionFuture::from(self.inputs.as_mut().map(|it| it.next())) => {
                    if let Err(error) = self.take(input).await {
                        self.ended = true;
                        break Err(error);
                    }
                }
            }
        };
        Some((item, self))
    }

    /// Passes an input to the agent.
    async fn take(&mut self, input: Option<Result<Input, E>>) -> Result<(), E> {
        let Some(input) = input.transpose()? else {
            self.inputs = None;
            return Ok(());
        };
        let (request_id, cancels) = (request_id(&input).map(str::to_owned), matches!(input, Input::Cancel(_)));
        match self.agent.send(&self.caller, &self.conversation, input).await {
            // The turn has already ended, and its `done` event follows.
            Err(AgentError::NotWaiting) if cancels => {}
            sent => drop(sent?),
        }
        self.state.record_input(request_id);
        Ok(())
    }
}

/// The maximum number of remembered answers. An answer only matters until the events written before it have
/// arrived.
const MAX_ANSWERED: usize = 64;

/// The state of a turn, derived from its events and the client's inputs.
#[derive(Debug, Default)]
struct ExchangeState {
    /// The requests that wait for the user. `None` means that the turn can continue without the user.
    waiting: Option<BTreeSet<String>>,
    /// Requests answered by this client. Events written before the answer may still list them as open.
    answered: VecDeque<String>,
    is_cancelled: bool,
    usage: Option<v1::Usage>,
}

impl ExchangeState {
    /// Updates the state with an event. Returns whether it is the last event.
    fn see(&mut self, event: &ChatEvent) -> bool {
        match &event.event {
            Some(Event::Done(_)) => return true,
            Some(Event::Usage(usage)) => self.usage = Some(*usage),
            Some(Event::Waiting(it)) => self.waiting = Some(it.request_ids.iter().cloned().collect()),
            // Ephemeral events may arrive late, so they don't affect the state.
            Some(Event::Text(_) | Event::Progress(_)) => {}
            _ => self.waiting = None,
        }
        false
    }

    /// Records that an input was passed to the agent. `request_id` is the request that it answers.
    fn record_input(&mut self, request_id: Option<String>) {
        match request_id {
            None => self.is_cancelled = true,
            Some(id) => {
                self.answered.push_back(id);
                if self.answered.len() > MAX_ANSWERED {
                    self.answered.pop_front();
                }
            }
        }
    }

    /// Returns whether only the user can continue the turn.
    fn is_waiting(&self) -> bool {
        let is_open = |waiting: &BTreeSet<String>| !self.answered.iter().any(|id| waiting.contains(id));
        !self.is_cancelled && self.waiting.as_ref().is_some_and(is_open)
    }

    /// Returns the event that ends the exchange while the turn waits.
    fn done_event(&self, conversation: &str) -> ChatEvent {
        let done = v1::TurnDone { end: TurnEnd::Waiting.into(), usage: self.usage, ..v1::TurnDone::default() };
        crate::event::ephemeral(conversation, Timestamp::now().0, Event::Done(done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: &mut ExchangeState, event: Event) -> bool {
        state.see(&ChatEvent { event: Some(event), ..ChatEvent::default() })
    }

    fn waiting(ids: &[&str]) -> Event {
        Event::Waiting(v1::TurnWaiting { request_ids: ids.iter().map(|it| (*it).to_owned()).collect() })
    }

    #[test]
    fn a_turn_waits_until_something_else_happens() {
        let mut state = ExchangeState::default();
        assert!(!state.is_waiting());
        assert!(!seen(&mut state, waiting(&["a"])));
        assert!(state.is_waiting());
        seen(&mut state, Event::Text(v1::TextPiece::default()));
        assert!(state.is_waiting());
        seen(&mut state, Event::Answered(v1::InputAnswered::default()));
        assert!(!state.is_waiting());
        assert!(seen(&mut state, Event::Done(v1::TurnDone::default())));
    }

    #[test]
    fn an_answer_overtakes_the_event_that_says_it_is_missing() {
        let mut state = ExchangeState::default();
        state.record_input(Some("a".to_owned()));
        seen(&mut state, waiting(&["a", "b"]));
        assert!(!state.is_waiting(), "the answer to a is on its way");
        seen(&mut state, Event::Answered(v1::InputAnswered::default()));
        seen(&mut state, waiting(&["b"]));
        assert!(state.is_waiting());
    }

    #[test]
    fn a_cancelled_turn_ends_instead_of_waiting() {
        let mut state = ExchangeState::default();
        seen(&mut state, waiting(&["a"]));
        state.record_input(request_id(&Input::Cancel(v1::CancelTurn {})).map(str::to_owned));
        assert!(!state.is_waiting());
    }

    #[test]
    fn who_leaves_a_waiting_turn_learns_what_it_used() {
        let mut state = ExchangeState::default();
        let usage = v1::Usage { iterations: 2, ..v1::Usage::default() };
        seen(&mut state, Event::Usage(usage));
        let left = state.done_event("c");
        let Some(Event::Done(done)) = left.event else { panic!("{left:?}") };
        assert_eq!((left.number, done.end(), done.usage), (0, TurnEnd::Waiting, Some(usage)));
    }
}
