//! Runs one turn, from its first event to `done`.

use std::time::Duration;

use openskill_proto::v1::chat_event::Event;
use openskill_proto::v1::{CancelTurn, TurnEnd, chat_request::Request};
use tonic::Code;

use super::ChatSession;
use super::ask;
use super::exchange::Exchange;
use crate::commands::client;
use crate::exit::Failure;
use crate::terminal::print_err;

/// The interval at which the line of running calls is redrawn.
const TICK: Duration = Duration::from_millis(120);

impl ChatSession<'_> {
    /// Shows the events of a turn and sends the user's answers.
    pub(super) async fn follow(&mut self, mut exchange: Exchange) -> Result<TurnEnd, Failure> {
        let into_failure = client::into_failure(self.settings);
        let mut ticks = tokio::time::interval(TICK);
        let mut is_cancelled = false;
        // Questions and approvals that wait for the user, oldest first.
        let mut open: Vec<Event> = Vec::new();
        loop {
            let event = tokio::select! {
                event = exchange.next(self.seen) => event.map_err(&into_failure)?,
                _ = ticks.tick() => {
                    self.screen.tick();
                    continue;
                }
                _ = tokio::signal::ctrl_c() => {
                    self.screen.clear();
                    if is_cancelled {
                        return Ok(TurnEnd::Cancelled);
                    }
                    is_cancelled = true;
                    print_err("cancelling; press Ctrl-C again to leave the turn\n");
                    exchange.send(Request::Cancel(CancelTurn {})).await.map_err(&into_failure)?;
                    continue;
                }
            };
            let Some(event) = event else {
                return Err(Failure::gateway(&self.settings.base_url, "closed the stream before the turn ended"));
            };
            if event.number > 0 {
                if event.number <= self.seen {
                    continue;
                }
                self.seen = event.number;
            }
            let is_over = (1..self.resumed_at).contains(&event.number);
            self.conversation.clone_from(&event.conversation_id);
            self.screen.show(&event);
            match event.event {
                Some(asked @ (Event::InputRequired(_) | Event::ApprovalRequired(_))) => open.push(asked),
                Some(Event::Answered(it)) => open.retain(|asked| request_id(asked) != it.request_id),
                Some(Event::Decided(it)) => open.retain(|asked| request_id(asked) != it.request_id),
                _ if is_over => {}
                Some(Event::Done(done)) => return Ok(done.end()),
                Some(Event::Waiting(_)) if !is_cancelled => {
                    if !self.is_interactive {
                        return Ok(self.leave(&open));
                    }
                    for asked in open.clone() {
                        self.ask_user(&mut exchange, &asked).await?;
                    }
                }
                _ => {}
            }
        }
    }

    /// Leaves a turn that needs an answer when there is no user to answer. Says what is asked. The turn can be resumed.
    fn leave(&self, open: &[Event]) -> TurnEnd {
        open.iter().for_each(|asked| print_err(&ask::describe(asked)));
        print_err(&format!(
            "The turn is waiting for an answer. Continue with: openskill chat --resume {}\n",
            self.conversation
        ));
        TurnEnd::Waiting
    }

    /// Asks the user and sends the response. If the agent rejects it, the question stays open.
    async fn ask_user(&mut self, exchange: &mut Exchange, asked: &Event) -> Result<(), Failure> {
        let response = match asked {
            Event::ApprovalRequired(asked) => ask::ask_decision(asked).await?,
            Event::InputRequired(asked) => ask::ask_questions(asked).await?,
            _ => return Ok(()),
        };
        match exchange.send(response.unwrap_or(Request::Cancel(CancelTurn {}))).await {
            Ok(()) => Ok(()),
            Err(status) if matches!(status.code(), Code::InvalidArgument | Code::FailedPrecondition) => {
                print_err(&format!("{}\n", status.message()));
                Ok(())
            }
            Err(status) => Err(client::into_failure(self.settings)(status)),
        }
    }
}

fn request_id(asked: &Event) -> &str {
    match asked {
        Event::ApprovalRequired(it) => &it.request_id,
        Event::InputRequired(it) => &it.request_id,
        _ => "",
    }
}
