//! Reads lines from the user's terminal.

use std::io;

use rustyline::error::ReadlineError;
use rustyline::{Behavior, Config, DefaultEditor};

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

/// A line editor with a history in memory.
pub(super) struct Editor(DefaultEditor);

impl Editor {
    pub(super) fn new() -> Result<Self, Failure> {
        // Not stdout: replies may go to a file there.
        let config = Config::builder().behavior(Behavior::PreferTerm).build();
        DefaultEditor::with_config(config).map(Self).map_err(failure)
    }

    /// Reads a line, on a thread of its own. Gives the editor back with its history.
    pub(super) async fn read(self, prompt: &str) -> Result<(Self, Entered), Failure> {
        let (mut editor, prompt) = (self.0, prompt.to_owned());
        let read = tokio::task::spawn_blocking(move || {
            let line = editor.readline(&prompt);
            if let Ok(line) = &line {
                // It fails only for a history in a file.
                let _ = editor.add_history_entry(line);
            }
            (editor, line)
        });
        let (editor, line) = read.await.map_err(|error| failure(ReadlineError::Io(io::Error::other(error))))?;
        let entered = match line {
            Ok(line) => Entered::Line(line),
            Err(ReadlineError::Interrupted) => Entered::Interrupted,
            Err(ReadlineError::Eof) => Entered::End,
            // Somebody pasted text that is not UTF-8. Only the line is lost.
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => Entered::Line(String::new()),
            Err(error) => return Err(failure(error)),
        };
        Ok((Self(editor), entered))
    }
}

fn failure(error: ReadlineError) -> Failure {
    Failure::system("reading from the terminal")(match error {
        ReadlineError::Io(error) => error,
        error => io::Error::other(error),
    })
}
