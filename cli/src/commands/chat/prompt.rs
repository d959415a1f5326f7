//! Reads lines from the user's terminal.

use std::borrow::Cow;

use reedline::{Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal};

use crate::exit::Failure;

/// What the user entered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// A line editor with a history.
pub(super) struct Editor(Reedline);

impl Editor {
    pub(super) fn new() -> Self {
        Self(Reedline::create())
    }

    /// Reads a line, on a thread of its own. Gives the editor back with its history.
    pub(super) async fn read(self, prompt: &str) -> Result<(Self, Entered), Failure> {
        let (mut editor, prompt) = (self.0, Plain(prompt.to_owned()));
        let read = tokio::task::spawn_blocking(move || {
            let signal = editor.read_line(&prompt);
            (editor, signal)
        });
        let failed = Failure::system("reading from the terminal");
        let (editor, signal) = match read.await {
            Ok(read) => read,
            Err(error) => return Err(failed(std::io::Error::other(error))),
        };
        let entered = match signal.map_err(Failure::system("reading from the terminal"))? {
            Signal::Success(line) => Entered::Line(line),
            Signal::CtrlC => Entered::Interrupted,
            _ => Entered::End,
        };
        Ok((Self(editor), entered))
    }
}

/// A prompt without colours.
struct Plain(String);

impl Prompt for Plain {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed(". ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("search {}: ", search.term))
    }
}
