//! Reads a secret without showing it.

use std::io::BufRead as _;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::prompt::Entered;
use crate::terminal::complain;

/// Shows typing again, however reading ends.
struct Hidden(Option<rustix::termios::Termios>);

impl Hidden {
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

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Reads a line that the terminal does not show. Ctrl-C ends it as at any prompt.
pub(super) async fn read(prompt: &str) -> Entered {
    complain(prompt);
    let hidden = Hidden::begin();
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|count| (count, line))
    });
    let entered = tokio::select! {
        read = read => match read {
            Ok(Ok((count, line))) if count > 0 => Entered::Line(line.trim_end_matches(['\r', '\n']).to_owned()),
            _ => Entered::End,
        },
        _ = tokio::signal::ctrl_c() => Entered::Interrupted,
    };
    drop(hidden);
    complain("\n");
    entered
}
