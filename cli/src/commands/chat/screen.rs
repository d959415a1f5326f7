//! Shows a turn to a person.
//!
//! The model's text goes to stdout, one complete line at a time. Everything else about the turn goes to stderr,
//! including one line with the running calls.

use std::time::Instant;

use openskill_proto::render::chat_event_line;
use openskill_proto::v1::chat_event::Event;
use openskill_proto::v1::{ChatEvent, ModelReply, Repair, ToolCall, ToolResult, TurnDone, TurnEnd};
use openskill_telemetry::log::text::one_line;

use super::markdown::Markdown;
use crate::terminal::{columns, cut, overwrite, print_err, print_json, print_styled, shorten};

/// The minimum width of the call in a line with its outcome.
const MIN_SHOWN: usize = 12;

const SPINNER: [&str; 4] = ["|", "/", "-", "\\"];

/// Prints one conversation's turns to the terminal.
#[derive(Default)]
pub(super) struct Screen {
    is_json: bool,
    has_styles: bool,
    has_spinner: bool,
    markdown: Markdown,
    /// The model's text after its last line break.
    pending: String,
    /// Whether the text of the current reply was shown as it arrived.
    is_streamed: bool,
    /// Whether routing rules answer this turn instead of a model.
    is_routed: bool,
    running: Vec<RunningCall>,
    frame: usize,
    is_drawn: bool,
}

struct RunningCall {
    call_id: String,
    name: String,
    begun: Instant,
    progress: String,
}

impl Screen {
    pub(super) fn new(is_json: bool, has_styles: bool, has_spinner: bool) -> Self {
        Self { is_json, has_styles, has_spinner: has_spinner && !is_json, ..Self::default() }
    }

    pub(super) fn show(&mut self, event: &ChatEvent) {
        if self.is_json {
            return print_json(&format!("{}\n", chat_event_line(event).trim_end()));
        }
        match &event.event {
            Some(Event::Text(piece)) if piece.restart && !self.is_streamed => {}
            Some(Event::Text(piece)) if piece.restart => {
                self.flush();
                self.note("(the answer starts again)");
            }
            Some(Event::Text(piece)) => self.show_text(&piece.text),
            Some(Event::Reply(reply)) => self.show_reply(reply),
            Some(Event::ToolCall(call)) => self.show_call(call),
            Some(Event::Progress(progress)) => {
                if let Some(running) = self.running.iter_mut().find(|it| it.call_id == progress.call_id) {
                    running.progress.clone_from(&progress.message);
                }
            }
            Some(Event::ToolResult(result)) => self.show_result(result),
            Some(Event::Summarized(_)) => self.note("(earlier messages were summarized)"),
            Some(Event::Done(done)) => self.show_done(done),
            Some(Event::Waiting(_)) => self.clear(),
            _ => {}
        }
    }

    /// Draws the line of running calls.
    pub(super) fn tick(&mut self) {
        if !self.has_spinner || self.running.is_empty() {
            return;
        }
        self.frame = (self.frame + 1) % SPINNER.len();
        let calls: Vec<_> = self.running.iter().map(RunningCall::line).collect();
        overwrite(&format!("{} {}", SPINNER[self.frame], calls.join(", ")));
        self.is_drawn = true;
    }

    /// Removes the line of running calls.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            overwrite("");
        }
    }

    fn show_text(&mut self, text: &str) {
        self.is_streamed = true;
        self.pending.push_str(text);
        while let Some(end) = self.pending.find('\n') {
            let line: String = self.pending.drain(..=end).collect();
            self.show_line(line.trim_end_matches(['\r', '\n']));
        }
    }

    fn show_line(&mut self, text: &str) {
        self.clear();
        let line = self.markdown.line(text);
        print_styled(&line, self.has_styles);
    }

    fn flush(&mut self) {
        let rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() {
            self.show_line(&rest);
        }
        self.markdown = Markdown::default();
    }

    fn show_reply(&mut self, reply: &ModelReply) {
        self.flush();
        // The reply was not streamed, because this client joined the turn later.
        if !std::mem::take(&mut self.is_streamed) && reply.routing.is_none() {
            let text = reply.text.clone();
            text.lines().for_each(|it| self.show_line(it));
            self.markdown = Markdown::default();
        }
        if let Some(routing) = &reply.routing {
            if !routing.selected_skill_id.is_empty() {
                self.note(&format!("{} ({})", routing.selected_skill_id, routing.reason));
            }
            (self.is_streamed, self.is_routed) = (false, true);
        }
    }

    fn show_call(&mut self, call: &ToolCall) {
        let repairs: Vec<_> = call.repairs.iter().map(describe_repair).collect();
        if !repairs.is_empty() {
            self.note(&format!("{}: repaired {}", call.name, repairs.join("; ")));
        }
        self.running.push(RunningCall {
            call_id: call.call_id.clone(),
            name: format!("{} {}", call.name, shorten(&call.arguments_json)),
            begun: Instant::now(),
            progress: String::new(),
        });
    }

    fn show_result(&mut self, result: &ToolResult) {
        self.clear();
        let at = self.running.iter().position(|it| it.call_id == result.call_id);
        let name = at.map(|at| self.running.remove(at).name).unwrap_or_else(|| result.call_id.clone());
        let outcome = match (result.success, result.unknown) {
            (_, true) => "? ",
            (true, _) => "✓ ",
            (false, _) => "✗ ",
        };
        let error = if result.success { String::new() } else { format!("  {}", result.code().as_str_name()) };
        let again = if result.replayed { "  (its earlier result)" } else { "" };
        let rest = format!("  {:.0} ms{error}{again}", result.latency_ms);
        print_err(&format!("{}\n", fit_line(&format!("{outcome}{name}"), &rest, columns(std::io::stderr()))));
    }

    fn show_done(&mut self, done: &TurnDone) {
        self.flush();
        self.clear();
        self.running.clear();
        match done.end() {
            TurnEnd::Failed => print_err(&format!("The turn failed: {}\n", done.error)),
            TurnEnd::Limit => print_err(&format!("The turn reached its limit {}.\n", done.limit)),
            TurnEnd::Cancelled => print_err("Cancelled.\n"),
            _ => {}
        }
        let usage = done.usage.unwrap_or_default();
        if std::mem::take(&mut self.is_routed) {
            // With routing, no reply contains the answer.
            done.text.lines().for_each(|it| self.show_line(it));
            return;
        }
        print_err(&format!(
            "({} tokens read, {} written, {} calls)\n",
            usage.input_tokens, usage.output_tokens, usage.tool_calls
        ));
    }

    fn note(&mut self, text: &str) {
        self.clear();
        print_err(&format!("{text}\n"));
    }
}

impl RunningCall {
    fn line(&self) -> String {
        let progress = if self.progress.is_empty() { String::new() } else { format!(": {}", self.progress) };
        format!("{}{progress} {:.1} s", self.name, self.begun.elapsed().as_secs_f64())
    }
}

/// Truncates the beginning of a line so that the whole line fits a terminal of this width.
fn fit_line(beginning: &str, rest: &str, width: Option<usize>) -> String {
    let beginning = one_line(beginning);
    match width {
        Some(width) => format!("{}{rest}", cut(&beginning, width.saturating_sub(rest.len()).max(MIN_SHOWN))),
        None => format!("{beginning}{rest}"),
    }
}

fn describe_repair(it: &Repair) -> String {
    let place = if it.path.is_empty() { "the arguments" } else { &it.path };
    format!("{place} ({})", it.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_result_fits_the_terminal() {
        assert_eq!(fit_line("✓ echo {\"text\":\"hello\"}", "  12 ms", Some(24)), "✓ echo {\"text\":\"…  12 ms");
        assert_eq!(fit_line("✓ echo {}", "  12 ms", None), "✓ echo {}  12 ms");
    }
}
