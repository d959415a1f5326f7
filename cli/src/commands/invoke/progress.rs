//! Shows a call's progress on a terminal.

use openskill_proto::v1::InvokeEvent;
use openskill_proto::v1::invoke_event::Event;

use crate::terminal::overwrite;

/// Shows progress on a terminal, in one line that is overwritten.
pub(in crate::commands) fn show(event: &InvokeEvent) {
    match &event.event {
        Some(Event::Progress(it)) if it.fraction >= 0.0 => {
            overwrite(&format!("{:3.0}% {}", it.fraction * 100.0, short(&it.message)));
        }
        Some(Event::Progress(it)) => overwrite(&short(&it.message)),
        Some(Event::Result(_)) => overwrite(""),
        _ => {}
    }
}

/// Shortens a message to one line that can be overwritten.
pub(super) fn short(text: &str) -> String {
    text.replace('\n', " ").chars().take(100).collect()
}
