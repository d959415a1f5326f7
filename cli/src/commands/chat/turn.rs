//! One turn, from its first event to `done`.

use std::time::Duration;

use openskill_proto::v1::chat_event::Event;
use openskill_proto::v1::{CancelTurn, TurnEnd, chat_request::Request};
use tonic::Code;

use super::Talk;
use super::ask::{self, Given};
use super::exchange::Exchange;
use crate::commands::client;
use crate::exit::Failure;
use crate::terminal::complain;

/// How often the line of running calls is drawn.
const TICK: Duration = Duration::from_millis(120);

impl Talk<'_> {
    /// Shows the events of a turn, and brings the user's answers to it.
    pub(super) async fn follow(&mut self, mut exchange: Exchange) -> Result<TurnEnd, Failure> {
        let refused = client::refused(self.settings);
        let mut ticks = tokio::time::interval(TICK);
        let mut is_cancelled = false;
        // What only the user can continue, in the order it was asked.
        let mut open: Vec<Event> = Vec::new();
        loop {
            let event = tokio::select! {
                event = exchange.next(self.seen) => event.map_err(&refused)?,
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
                    complain("cancelling; Ctrl-C again leaves the turn\n");
                    exchange.send(Request::Cancel(CancelTurn {})).await.map_err(&refused)?;
                    continue;
                }
            };
            let Some(event) = event else {
                let reason = "closed the stream before the turn ended".to_owned();
                return Err(Failure::Gateway { url: self.settings.base_url.clone(), reason });
            };
            if event.number > 0 {
                if event.number <= self.seen {
                    continue;
                }
                self.seen = event.number;
            }
            self.conversation.clone_from(&event.conversation_id);
            self.screen.show(&event);
            match event.event {
                Some(asked @ (Event::InputRequired(_) | Event::ApprovalRequired(_))) => open.push(asked),
                Some(Event::Answered(it)) => open.retain(|asked| request_id(asked) != it.request_id),
                Some(Event::Decided(it)) => open.retain(|asked| request_id(asked) != it.request_id),
                Some(Event::Done(done)) => return Ok(done.end()),
                Some(Event::Waiting(_)) if !is_cancelled => {
                    if !self.is_interactive {
                        return Ok(self.leave());
                    }
                    for asked in open.clone() {
                        self.settle(&mut exchange, &asked).await?;
                    }
                }
                _ => {}
            }
        }
    }

    /// Nobody is there to answer: the turn waits, and can be resumed.
    fn leave(&self) -> TurnEnd {
        complain(&format!("The turn waits for an answer: openskill chat --resume {}\n", self.conversation));
        TurnEnd::Waiting
    }

    /// Asks until the agent takes what the user gives.
    async fn settle(&mut self, exchange: &mut Exchange, asked: &Event) -> Result<(), Failure> {
        let given = match asked {
            Event::ApprovalRequired(asked) => ask::decision(asked).await?,
            Event::InputRequired(asked) => ask::answers(asked).await?,
            _ => return Ok(()),
        };
        let request = match given {
            Given::Decision(decision) => Request::Decision(decision),
            Given::Answers(answers) => Request::Answers(answers),
            Given::Interrupted => Request::Cancel(CancelTurn {}),
        };
        match exchange.send(request).await {
            Ok(()) => Ok(()),
            Err(status) if matches!(status.code(), Code::InvalidArgument | Code::FailedPrecondition) => {
                complain(&format!("{}\n", status.message()));
                Ok(())
            }
            Err(status) => Err(client::refused(self.settings)(status)),
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
