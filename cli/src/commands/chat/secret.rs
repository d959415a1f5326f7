//! Reads a secret without showing it.

use std::io::BufRead as _;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::prompt::PromptInput;
use crate::terminal::print_err;

/// Turns off the terminal's echo until it is dropped.
struct EchoOff(Option<rustix::termios::Termios>);

impl EchoOff {
    fn begin() -> Self {
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(before) = &before {
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &silent);
        }
        Self(before)
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Reads a line without echo. Ctrl-C ends it as at any prompt.
pub(super) async fn read(prompt: &str) -> PromptInput {
    print_err(prompt);
    let echo_off = EchoOff::begin();
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|count| (count, line))
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
