//! Reads lines from the user's terminal, and secrets without showing them.

use std::io::{self, BufRead as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::{Behavior, Config, DefaultEditor};

use crate::exit::Failure;
use crate::terminal::print_err;

/// The user's input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptInput {
    Line(String),
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The user pressed Ctrl-D, or the terminal was closed.
    End,
}

/// A line editor with an in-memory history.
pub(super) struct Editor(DefaultEditor);

impl Editor {
    pub(super) fn new() -> Result<Self, Failure> {
        // The prompt goes to the terminal, not to stdout: stdout may be a file that collects replies.
        let config = Config::builder().behavior(Behavior::PreferTerm).build();
        DefaultEditor::with_config(config).map(Self).map_err(failure)
    }

    /// Reads a line on a blocking thread. Returns the editor with its history.
    pub(super) async fn read(self, prompt: &str) -> Result<(Self, PromptInput), Failure> {
        let (mut editor, prompt) = (self.0, prompt.to_owned());
        let read = tokio::task::spawn_blocking(move || {
            let line = editor.readline(&prompt);
            if let Ok(line) = &line {
                // Fails only for a history in a file.
                let _ = editor.add_history_entry(line);
            }
            (editor, line)
        });
        let (editor, line) = read.await.map_err(|error| failure(ReadlineError::Io(io::Error::other(error))))?;
        let input = match line {
            Ok(line) => PromptInput::Line(line),
            Err(ReadlineError::Interrupted) => PromptInput::Interrupted,
            Err(ReadlineError::Eof) => PromptInput::End,
            // The user pasted text that is not UTF-8. Discard only this line.
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                PromptInput::Line(String::new())
            }
            Err(error) => return Err(failure(error)),
        };
        Ok((Self(editor), input))
    }
}

fn failure(error: ReadlineError) -> Failure {
    Failure::system("reading from the terminal")(match error {
        ReadlineError::Io(error) => error,
        error => io::Error::other(error),
    })
}

/// Turns off the terminal's echo until it is dropped.
struct EchoOff(Option<Termios>);

impl EchoOff {
    fn begin() -> Self {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &silent);
        }
        Self(before)
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Reads a line without echo. Ctrl-C ends it as at any prompt.
pub(super) async fn read_secret(prompt: &str) -> PromptInput {
    print_err(prompt);
    let echo_off = EchoOff::begin();
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|count| (count, line))
    });
    let input = tokio::select! {
        read = read => match read {
            Ok(Ok((count, line))) if count > 0 => PromptInput::Line(line.trim_end_matches(['\r', '\n']).to_owned()),
            _ => PromptInput::End,
        },
        _ = tokio::signal::ctrl_c() => PromptInput::Interrupted,
    };
    drop(echo_off);
    print_err("\n");
    input
}
