//! The events of one exchange: from what a client sent to `done`.
//!
//! A client that can send no more gets a `done` of its own once only the user can continue the turn. The turn itself still
//! waits.

use std::collections::{BTreeSet, VecDeque};

use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use openskill_proto::v1::chat_event::Event;
use openskill_proto::v1::{self, ChatEvent, TurnEnd};

use crate::agent::{Accepted, Events, Input};
use crate::error::AgentError;
use crate::hosted::Hosted;
use crate::skills::Owner;

/// What a client still sends. An error of the client's half ends the exchange.
pub(super) type Inputs<E> = BoxStream<'static, Result<Input, E>>;

/// Why an exchange ends early.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Broken<E> {
    /// The client's half broke, or can't be read.
    Client(E),
    /// The agent refuses an input, or shuts down.
    Agent(AgentError),
}

struct Exchange<E> {
    agent: Hosted,
    owner: Owner,
    conversation: String,
    events: Events,
    /// None: the client can send no more.
    inputs: Option<Inputs<E>>,
    course: Course,
    ended: bool,
}

/// The events from the input on, `done` last. What comes from `inputs` goes to the same conversation.
pub(super) fn exchange<E: Send + 'static>(
    agent: Hosted,
    owner: Owner,
    accepted: Accepted,
    inputs: Option<Inputs<E>>,
) -> impl Stream<Item = Result<ChatEvent, Broken<E>>> + Send + 'static {
    let course = Course::default();
    let (conversation, events) = (accepted.conversation_id, accepted.events);
    let exchange = Exchange { agent, owner, conversation, events, inputs, course, ended: false };
    stream::unfold(exchange, Exchange::step)
}

impl<E> Exchange<E> {
    async fn step(mut self) -> Option<(Result<ChatEvent, Broken<E>>, Self)> {
        if self.ended {
            return None;
        }
        loop {
            if self.inputs.is_none() && self.course.is_waiting() {
                self.ended = true;
                return Some((Ok(self.course.left(&self.conversation)), self));
            }
            tokio::select! {
                event = self.events.next() => {
                    let item = match event {
                        Some(Ok(event)) => {
                            self.ended = self.course.see(&event);
                            Ok(event)
                        }
                        Some(Err(error)) => {
                            self.ended = true;
                            Err(Broken::Agent(error))
                        }
                        // Deleted.
                        None => {
                            self.ended = true;
                            Err(Broken::Agent(AgentError::NoConversation))
                        }
                    };
                    return Some((item, self));
                }
                input = next(&mut self.inputs), if self.inputs.is_some() => {
                    if let Err(broken) = self.take(input).await {
                        self.ended = true;
                        return Some((Err(broken), self));
                    }
                }
            }
        }
    }

    /// Hands an input on. The events go on where they are.
    async fn take(&mut self, input: Option<Result<Input, E>>) -> Result<(), Broken<E>> {
        let Some(input) = input else {
            self.inputs = None;
            return Ok(());
        };
        let input = input.map_err(Broken::Client)?;
        let (answered, cancels) = (Answered::of(&input), input == Input::Cancel);
        match self.agent.send(&self.owner, &self.conversation, input).await {
            // The turn ended by itself: its `done` is among the events.
            Err(AgentError::NotWaiting) if cancels => {}
            sent => drop(sent.map_err(Broken::Agent)?),
        }
        self.course.sent(answered);
        Ok(())
    }
}

async fn next<E>(inputs: &mut Option<Inputs<E>>) -> Option<Result<Input, E>> {
    match inputs {
        Some(inputs) => inputs.next().await,
        None => None,
    }
}

/// What an input settles.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answered {
    Request(String),
    All,
}

impl Answered {
    fn of(input: &Input) -> Self {
        match input {
            Input::Answers(it) => Self::Request(it.request_id.clone()),
            Input::Decision(it) => Self::Request(it.request_id.clone()),
            Input::Message(_) | Input::Cancel => Self::All,
        }
    }
}

/// How many answers are remembered. Only those count that overtake an event.
const MAX_ANSWERED: usize = 64;

/// Where a turn is, as its events and the client's inputs tell.
#[derive(Debug, Default)]
struct Course {
    /// The requests that wait for the user, if nothing else goes on.
    waiting: Option<BTreeSet<String>>,
    /// Requests that this client answered: an event that was written before may still call them open.
    answered: VecDeque<String>,
    is_cancelled: bool,
    usage: Option<v1::Usage>,
}

impl Course {
    /// Whether it is the last event.
    fn see(&mut self, event: &ChatEvent) -> bool {
        match &event.event {
            Some(Event::Done(_)) => return true,
            Some(Event::Usage(usage)) => self.usage = Some(*usage),
            Some(Event::Waiting(it)) => self.waiting = Some(it.request_ids.iter().cloned().collect()),
            // Not kept: they may come late.
            Some(Event::Text(_) | Event::Progress(_)) => {}
            _ => self.waiting = None,
        }
        false
    }

    fn sent(&mut self, answered: Answered) {
        match answered {
            Answered::All => self.is_cancelled = true,
            Answered::Request(id) => {
                self.answered.push_back(id);
                if self.answered.len() > MAX_ANSWERED {
                    self.answered.pop_front();
                }
            }
        }
    }

    /// Whether only the user can continue the turn.
    fn is_waiting(&self) -> bool {
        let is_open = |waiting: &BTreeSet<String>| !self.answered.iter().any(|id| waiting.contains(id));
        !self.is_cancelled && self.waiting.as_ref().is_some_and(is_open)
    }

    /// The end of the exchange, while the turn waits.
    fn left(&self, conversation: &str) -> ChatEvent {
        let done = v1::TurnDone { end: TurnEnd::Waiting.into(), usage: self.usage, ..v1::TurnDone::default() };
        crate::entry::event::ephemeral(conversation, crate::clock::now_us(), Event::Done(done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(course: &mut Course, event: Event) -> bool {
        course.see(&ChatEvent { event: Some(event), ..ChatEvent::default() })
    }

    fn waiting(ids: &[&str]) -> Event {
        Event::Waiting(v1::TurnWaiting { request_ids: ids.iter().map(|it| (*it).to_owned()).collect() })
    }

    #[test]
    fn a_turn_waits_until_something_else_happens() {
        let mut course = Course::default();
        assert!(!course.is_waiting());
        assert!(!seen(&mut course, waiting(&["a"])));
        assert!(course.is_waiting());
        seen(&mut course, Event::Text(v1::TextPiece::default()));
        assert!(course.is_waiting());
        seen(&mut course, Event::Answered(v1::InputAnswered::default()));
        assert!(!course.is_waiting());
        assert!(seen(&mut course, Event::Done(v1::TurnDone::default())));
    }

    #[test]
    fn an_answer_overtakes_the_event_that_says_it_is_missing() {
        let mut course = Course::default();
        course.sent(Answered::Request("a".to_owned()));
        seen(&mut course, waiting(&["a", "b"]));
        assert!(!course.is_waiting(), "the answer to a is on its way");
        seen(&mut course, Event::Answered(v1::InputAnswered::default()));
        seen(&mut course, waiting(&["b"]));
        assert!(course.is_waiting());
    }

    #[test]
    fn a_cancelled_turn_ends_instead_of_waiting() {
        let mut course = Course::default();
        seen(&mut course, waiting(&["a"]));
        course.sent(Answered::of(&Input::Cancel));
        assert!(!course.is_waiting());
    }

    #[test]
    fn who_leaves_a_waiting_turn_learns_what_it_used() {
        let mut course = Course::default();
        let usage = v1::Usage { iterations: 2, ..v1::Usage::default() };
        seen(&mut course, Event::Usage(usage));
        let left = course.left("c");
        let Some(Event::Done(done)) = left.event else { panic!("{left:?}") };
        assert_eq!((left.number, done.end(), done.usage), (0, TurnEnd::Waiting, Some(usage)));
    }
}
