//! Log lines as text: time, level, spans, target, message and fields. [`Escaped`] has those as JSON.
//!
//! ```text
//! 2026-01-31T12:00:00.000000Z  INFO openskill::call: trace_id="4bf9…" skill_id="echo" latency_ms=0.25 success=true
//! ```
//!
//! Like the format of `tracing-subscriber`, but cheap enough for one line per call. External text cannot end a line, move the
//! cursor or change the writing direction: see [`openskill_telemetry::log::text`].

use std::fmt::{self, Debug, Write as _};

use openskill_telemetry::log::STDERR;
use openskill_telemetry::log::text::{self, OneLine};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

#[derive(Debug)]
pub(super) struct Plain {
    /// Whether the level is colored. Other parts of the line never are.
    pub(super) colours: bool,
}

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        if metadata.target() == STDERR {
            let mut stderr = StderrLines::default();
            event.record(&mut stderr);
            return stderr.write(&mut line);
        }
        SystemTime.format_time(&mut line)?;
        let (colour, level) = level(*metadata.level());
        if self.colours {
            write!(line, " \u{1b}[{colour}m{level}\u{1b}[0m ")?;
        } else {
            write!(line, " {level} ")?;
        }
        for span in context.event_scope().into_iter().flat_map(tracing_subscriber::registry::Scope::from_root) {
            line.write_str(span.name())?;
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>().filter(|it| !it.is_empty()) {
                write!(OneLine(&mut line), "{{{fields}}}")?;
            }
            line.write_str(": ")?;
        }
        line.write_str(metadata.target())?;
        line.write_char(':')?;
        let mut fields = FieldWriter { line: &mut line, result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        line.write_char('\n')
    }
}

/// Returns a level's color code and padded name.
fn level(level: Level) -> (u8, &'static str) {
    match level {
        Level::ERROR => (31, "ERROR"),
        Level::WARN => (33, " WARN"),
        Level::INFO => (32, " INFO"),
        Level::DEBUG => (34, "DEBUG"),
        Level::TRACE => (35, "TRACE"),
    }
}

/// The maximum number of lines that are shown of what a call wrote to stderr. The last ones say why it failed.
const MAX_STDERR_LINES: usize = 200;

/// What a call wrote to stderr. Shown line by line, so that a traceback stays readable, each after the names of the skill
/// and the call.
#[derive(Debug, Default)]
struct StderrLines {
    skill_id: String,
    call_id: String,
    text: String,
}

impl StderrLines {
    fn write(&self, out: &mut Writer<'_>) -> fmt::Result {
        let count = self.text.lines().count();
        let left_out = count.saturating_sub(MAX_STDERR_LINES);
        let note = (left_out > 0).then(|| format!("({left_out} lines are left out)"));
        for text in note.iter().map(String::as_str).chain(self.text.lines().skip(left_out)) {
            writeln!(out, "{}", text::one_line(&format!("{} {} | {text}", self.skill_id, self.call_id)))?;
        }
        Ok(())
    }
}

impl Visit for StderrLines {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "skill_id" => value.clone_into(&mut self.skill_id),
            "call_id" => value.clone_into(&mut self.call_id),
            "stderr" => value.clone_into(&mut self.text),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// Writes fields, each preceded by a space.
struct FieldWriter<'a, 'w> {
    line: &'a mut Writer<'w>,
    /// The first error from the writer.
    result: fmt::Result,
}

impl FieldWriter<'_, '_> {
    fn name(&mut self, field: &Field) -> fmt::Result {
        self.line.write_char(' ')?;
        if field.name() != "message" {
            self.line.write_str(field.name())?;
            self.line.write_char('=')?;
        }
        Ok(())
    }

    fn write(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.result.is_ok() {
            self.result = self.name(field).and_then(|()| value(self.line));
        }
    }
}

impl Visit for FieldWriter<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, |line| {
            if field.name() == "message" {
                OneLine(line).write_str(value)
            } else if value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
                line.write_char('"')?;
                line.write_str(value)?;
                line.write_char('"')
            } else {
                write!(OneLine(line), "{value:?}")
            }
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write(field, |line| write!(OneLine(line), "{value:?}"));
    }
}

/// The JSON format of `tracing-subscriber`, with the same characters escaped as in the text format.
#[derive(Debug)]
pub(super) struct Escaped<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for Escaped<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut formatted = String::with_capacity(512);
        self.0.format_event(context, Writer::new(&mut formatted), event)?;
        line.write_str(&text::json(&formatted))
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::telemetry::tests::Log;

    /// Returns the line that `log` writes, without its time.
    fn written(colours: bool, tell: impl FnOnce()) -> String {
        let text = raw(colours, tell);
        let (time, rest) = text.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z') && time.contains('T'), "{time}");
        rest.to_owned()
    }

    /// Returns all that `log` writes.
    fn raw(colours: bool, tell: impl FnOnce()) -> String {
        let log = Log::default();
        let writer = log.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).event_format(Plain { colours });
        let layer = layer.with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), tell);
        log.text()
    }

    #[test]
    fn a_line_has_level_target_message_and_fields() {
        let line = written(false, || {
            tracing::warn!(target: "target", name = "a \"b\"", plain = "c", took = 0.25, done = true, error.code = "X", "told");
        });
        let expected = " WARN target: told name=\"a \\\"b\\\"\" plain=\"c\" took=0.25 done=true error.code=\"X\"\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_line_names_the_spans_around_it() {
        let line = written(false, || {
            let _outer = tracing::info_span!("outer", id = 7).entered();
            tracing::error!(target: "target", "told");
        });
        assert_eq!(line, "ERROR outer{id=7}: target: told\n");
    }

    #[test]
    fn the_level_is_coloured_on_a_terminal() {
        let line = written(true, || tracing::info!(target: "target", name = "\u{1b}[31m", "told"));
        assert_eq!(line, "\u{1b}[32m INFO\u{1b}[0m target: told name=\"\\u{1b}[31m\"\n");
    }

    #[test]
    fn each_line_of_stderr_follows_its_skill_and_call() {
        let (skill_id, call_id) = ("boom", "call-1");
        let log = |text: &str| {
            let text = text.to_owned();
            raw(false, move || tracing::debug!(target: STDERR, trace_id = "t", call_id, skill_id, stderr = text, "m"))
        };
        let expected = "boom call-1 | Traceback\nboom call-1 |   at \\u{1b}[2J\nboom call-1 | Error\\u{202e}\n";
        assert_eq!(log("Traceback\n  at \u{1b}[2J\nError\u{202e}"), expected);
        let long = log(&"x\n".repeat(MAX_STDERR_LINES + 7));
        assert!(long.starts_with("boom call-1 | (7 lines are left out)\n"), "{long}");
        assert_eq!(long.lines().count(), MAX_STDERR_LINES + 1);
    }

    #[test]
    fn text_from_outside_stays_on_its_line() {
        let hostile = "a\n2026-01-01T00:00:00Z  INFO target: forged\u{1b}[2J\u{85}\u{202e}é";
        let line = written(false, || {
            tracing::info!(target: "target", shown = %hostile, debugged = ?hostile, text = hostile, "{hostile}");
        });
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert!(!line.trim_end().contains(openskill_telemetry::log::text::is_hidden), "{line}");
        assert_eq!(line.matches("forged\\u{1b}[2J").count(), 4, "{line}");
        assert!(line.contains('é'), "{line}");
    }
}
