//! The log lines of a recorded call. All functions are pure.

use openskill_log::text::one_line;
use openskill_proto::timestamp::Timestamp;
use serde_json::json;

use crate::commands::trace::recorded::{RecordedCall, RecordedEvent, millis};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogLine {
    time_us: u64,
    /// `debug`, `info`, `warning` or `error`. `stderr` marks the stderr output of a failed skill.
    level: String,
    skill: String,
    trace: String,
    message: String,
}

/// Returns the lines that the skill logged, then its stderr output if recorded, then the outcome of the call.
pub(super) fn lines(call: &RecordedCall, received_us: u64) -> Vec<LogLine> {
    let line = |event: &RecordedEvent, level: &str, message: String| LogLine {
        time_us: received_us + event.number("at_us"),
        level: level.to_owned(),
        skill: call.field("skill").to_owned(),
        trace: call.field("trace").to_owned(),
        message,
    };
    let mut lines = Vec::new();
    for event in &call.0 {
        match event.name() {
            "log" => lines.push(line(event, event.text("level"), event.text("message").to_owned())),
            "result" => {
                let stderr = event.fields["error"]["details"]["stderr"].as_str().unwrap_or_default();
                lines.extend(stderr.lines().map(|text| line(event, "stderr", text.to_owned())));
                let level = if event.text("code") == "OK" { "info" } else { "error" };
                lines.push(line(event, level, end(event)));
            }
            _ => {}
        }
    }
    lines
}

fn end(result: &RecordedEvent) -> String {
    let outcome = format!("{} in {}", result.text("code"), millis(result.number("at_us")));
    match result.fields["error"]["message"].as_str() {
        Some(message) => format!("{outcome}: {message}"),
        None => outcome,
    }
}

impl LogLine {
    pub(super) fn text(&self) -> String {
        let time = Timestamp(self.time_us).to_string()[..23].replace('T', " ");
        let Self { level, skill, trace, message, .. } = self;
        let line = format!("{time}  {level:<7}  {skill:<16}  {trace}  {message}");
        format!("{}\n", one_line(&line))
    }

    pub(super) fn json(&self) -> String {
        let Self { time_us, level, skill, trace, message } = self;
        let time = Timestamp(*time_us).to_string();
        let line = json!({ "time": time, "level": level, "skill": skill, "trace": trace, "message": message });
        format!("{line}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::trace::recorded::calls;

    fn shown(events: &[&str]) -> Vec<String> {
        let events: Vec<_> = events.iter().map(|it| (*it).to_owned()).collect();
        lines(&calls(&events)[0], 1_769_860_800_000_000).iter().map(LogLine::text).collect()
    }

    #[test]
    fn a_call_has_what_the_skill_logged_and_how_it_ended() {
        let lines = shown(&[
            r#"{"event":"call","trace":"run-7","skill":"echo"}"#,
            r#"{"event":"progress","at_us":5,"message":"half"}"#,
            r#"{"event":"log","at_us":1500,"level":"warning","message":"a\nb\u202e"}"#,
            r#"{"event":"result","at_us":2500,"code":"OK"}"#,
        ]);
        let expected = [
            "2026-01-31 12:00:00.001  warning  echo              run-7  a\\nb\\u{202e}\n",
            "2026-01-31 12:00:00.002  info     echo              run-7  OK in 2.5 ms\n",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_failed_call_has_its_reason_and_its_stderr() {
        let lines = shown(&[
            r#"{"event":"call","trace":"run-7","skill":"echo"}"#,
            r#"{"event":"result","at_us":10,"code":"EXECUTION_ERROR","error":{"message":"why","details":{"stderr":"a\nb\n"}}}"#,
        ]);
        let messages: Vec<_> = lines.iter().map(|line| line[25..].trim_end()).collect();
        let expected = [
            "stderr   echo              run-7  a",
            "stderr   echo              run-7  b",
            "error    echo              run-7  EXECUTION_ERROR in 10 µs: why",
        ];
        assert_eq!(messages, expected);
    }
}
