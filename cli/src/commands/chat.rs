//! `openskill chat`: a conversation with the agent in a terminal.
//!
//! ```text
//! prompt -> turn: one exchange with the agent -> screen: shows the turn to a person
//!                    <- answers and decisions <- ask
//! ```
//!
//! Each line is printed once, so that the terminal's scrollback works. Only the line of running calls is replaced.

use std::io::{BufRead as _, IsTerminal as _};

use openskill_proto::v1::agent_service_client::AgentServiceClient;
use openskill_proto::v1::{
    ApprovalMode, ChatRequest, Conversation, ConversationState, GetConversationRequest, ListConversationsRequest,
    TurnEnd, UserMessage, chat_request::Request,
};

use self::exchange::Exchange;
use self::prompt::{Editor, PromptInput};
use self::screen::Screen;
use super::client;
use crate::args::{ChatArgs, ChatMode};
use crate::channel::Channel;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::{has_colours, print_err};

mod ask;
mod exchange;
mod markdown;
mod prompt;
mod screen;
mod turn;

struct ChatSession<'a> {
    args: &'a ChatArgs,
    settings: &'a Settings,
    client: AgentServiceClient<Channel>,
    /// The conversation's id. Empty before the first message.
    conversation: String,
    /// The number of the last event shown.
    seen: u64,
    /// The number of the last event when the conversation was resumed. Earlier events are shown again, but waits and
    /// ends among them are over.
    resumed_at: u64,
    screen: Screen,
    /// Whether a user can answer questions.
    is_interactive: bool,
}

pub(super) async fn run(args: &ChatArgs, settings: &Settings) -> Result<(), Failure> {
    let client = AgentServiceClient::new(client::connect(settings).await?);
    let is_interactive = std::io::stdin().is_terminal() && args.message.is_none();
    let screen = Screen::new(args.json, has_colours(&std::io::stdout()), std::io::stderr().is_terminal());
    let mut session = ChatSession {
        args,
        settings,
        client,
        conversation: String::new(),
        seen: 0,
        resumed_at: 0,
        screen,
        is_interactive,
    };
    let mut last = None;
    if let Some(wanted) = &args.resume {
        last = session.resume(wanted).await?;
    }
    match &args.message {
        Some(text) => last = session.say(super::input::text_or_stdin(text)?).await?,
        None if is_interactive => return session.interactive().await,
        None => {
            for line in std::io::stdin().lock().lines() {
                let line = line.map_err(Failure::system("reading stdin"))?;
                if !line.trim().is_empty() {
                    last = session.say(line).await?;
                }
            }
        }
    }
    let is_fine = last.is_none_or(|end| matches!(end, TurnEnd::Completed | TurnEnd::Limit));
    if is_fine { Ok(()) } else { Err(Failure::Reported) }
}

impl ChatSession<'_> {
    /// Reads and sends messages until the user ends the conversation.
    async fn interactive(&mut self) -> Result<(), Failure> {
        print_err(
            "Ask the agent. Ctrl-C cancels a turn or clears the line. Press it twice, or press Ctrl-D, to leave.\n",
        );
        let mut editor = Editor::new()?;
        let mut interrupted = false;
        loop {
            let (given_back, input) = editor.read("> ").await?;
            editor = given_back;
            match input {
                PromptInput::Line(line) if line.trim().is_empty() => {}
                PromptInput::Line(line) => drop(self.say(line).await?),
                PromptInput::Interrupted if interrupted => break,
                PromptInput::Interrupted => {
                    interrupted = true;
                    continue;
                }
                PromptInput::End => break,
            }
            interrupted = false;
        }
        if !self.conversation.is_empty() {
            print_err(&format!("Continue with: openskill chat --resume {}\n", self.conversation));
        }
        Ok(())
    }

    /// Sends a message and follows the turn to its end.
    async fn say(&mut self, text: String) -> Result<Option<TurnEnd>, Failure> {
        let mode = match self.args.mode {
            None => ApprovalMode::Unspecified,
            Some(ChatMode::Ask) => ApprovalMode::Ask,
            Some(ChatMode::ReadOnly) => ApprovalMode::ReadOnly,
            Some(ChatMode::Auto) => ApprovalMode::Auto,
        };
        let message = UserMessage {
            text,
            model: self.args.model.clone().unwrap_or_default(),
            mode: mode.into(),
            toolset: self.args.toolset.clone(),
            ..UserMessage::default()
        };
        let first =
            ChatRequest { conversation_id: self.conversation.clone(), request: Some(Request::Message(message)) };
        let exchange =
            Exchange::begin(self.client.clone(), first).await.map_err(client::into_failure(self.settings))?;
        self.follow(exchange).await.map(Some)
    }

    /// Resumes a conversation. Shows and follows its last turn if that turn is still running.
    async fn resume(&mut self, wanted: &str) -> Result<Option<TurnEnd>, Failure> {
        let conversation = self.find(wanted).await?;
        print_err(&format!("Resuming: {}\n", conversation.title));
        let state = conversation.state();
        self.conversation = conversation.id;
        self.seen = conversation.last_number;
        if !matches!(state, ConversationState::Running | ConversationState::Waiting) {
            return Ok(None);
        }
        (self.seen, self.resumed_at) = (0, conversation.last_number);
        let id = self.conversation.clone();
        let exchange =
            Exchange::watch(self.client.clone(), id, 0).await.map_err(client::into_failure(self.settings))?;
        self.follow(exchange).await.map(Some)
    }

    async fn find(&mut self, wanted: &str) -> Result<Conversation, Failure> {
        let into_failure = client::into_failure(self.settings);
        if wanted != "last" {
            let request = GetConversationRequest { conversation_id: wanted.to_owned() };
            return self.client.get_conversation(request).await.map(tonic::Response::into_inner).map_err(into_failure);
        }
        let request = ListConversationsRequest { limit: 1, ..ListConversationsRequest::default() };
        let page = self.client.list_conversations(request).await.map_err(into_failure)?.into_inner();
        let missing = || Failure::Usage("there is no conversation to resume: start one without --resume".to_owned());
        page.conversations.into_iter().next().ok_or_else(missing)
    }
}
