//! A trace as Markdown, for an issue or a chat. Omits arguments, results and messages unless a setting includes
//! them, since redaction cannot know what the readers of an issue may see.

use openskill_telemetry::log::text::one_line;
use serde_json::Value;

use super::recorded::{RecordedCall, RecordedEvent, millis};

/// Event fields that contain documents from callers and skills.
const DOCUMENTS: [&str; 3] = ["arguments", "data", "details"];

/// Renders the calls of a trace. `is_raw` includes arguments, results and messages.
pub(super) fn render(gateway: &str, calls: &[RecordedCall], is_raw: bool) -> String {
    let trace = calls.first().map_or("", |call| call.field("trace"));
    let mut text = format!("# Trace {}\n\nGateway {}\n", code(trace), code(gateway));
    for call in calls {
        let (skill, end) = (code(call.field("skill")), code(call.code()));
        text += &format!("\n## {skill}: {end} in {}\n\n", millis(call.duration_us()));
        text += &format!("Received {}, {}\n\n", code(call.field("time")), code(call.field("call")));
        text += "| at | event | |\n|---:|---|---|\n";
        for event in &call.0 {
            text += &format!("| {} | {} | {} |\n", millis(event.number("at_us")), cell(event.name()), facts(event));
        }
        if is_raw {
            call.0.iter().for_each(|event| text += &raw(event));
        }
    }
    text
}

/// Describes an event, without text from callers and skills.
fn facts(event: &RecordedEvent) -> String {
    let mut facts = Vec::new();
    for key in ["code", "worker_id", "scope", "state", "action", "level", "media_type", "version"] {
        if !event.text(key).is_empty() {
            facts.push(format!("{key} {}", code(event.text(key))));
        }
    }
    for key in ["number", "attempts", "repair_count", "size_bytes", "events_left_out"] {
        if event.number(key) > 0 {
            facts.push(format!("{key} {}", event.number(key)));
        }
    }
    for key in ["took_us", "queued_us"] {
        if event.number(key) > 0 {
            facts.push(format!("{} {}", key.trim_end_matches("_us"), millis(event.number(key))));
        }
    }
    let flags = ["strict", "interactive", "elsewhere", "truncated", "redacted", "cut", "may_have_run"];
    facts.extend(flags.iter().filter(|key| event.flag(key)).map(|key| (*key).to_owned()));
    facts.extend(repairs(event));
    let defaults = event.fields["defaults"].as_array().into_iter().flatten().filter_map(Value::as_str);
    facts.extend(defaults.map(|path| format!("default at {}", code(path))));
    facts.extend(error(event));
    facts.join(", ")
}

fn repairs(event: &RecordedEvent) -> impl Iterator<Item = String> {
    let repairs = event.fields["repairs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |it: &Value, key: &str| code(it[key].as_str().unwrap_or_default());
    repairs.iter().map(move |it| format!("repair {} at {}", text(it, "kind"), text(it, "path")))
}

/// Describes who caused the error and which arguments are invalid, without their values.
fn error(event: &RecordedEvent) -> Vec<String> {
    let error = &event.fields["error"];
    let blame = error["blame"].as_str().map(|blame| format!("blame {}", code(blame)));
    let violations = error["details"]["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let paths = violations.iter().filter_map(|it| it["path"].as_str()).map(|path| format!("invalid {}", code(path)));
    blame.into_iter().chain(paths).collect()
}

fn raw(event: &RecordedEvent) -> String {
    let mut text = String::new();
    for key in DOCUMENTS {
        if let Some(document) = event.document(key) {
            text += &block(event.name(), key, &document);
        }
    }
    let error = &event.fields["error"];
    for (key, value) in [("message", event.fields["message"].as_str()), ("text", event.fields["text"].as_str())] {
        text += &value.map(|value| block(event.name(), key, value)).unwrap_or_default();
    }
    text += &error["message"].as_str().map(|it| block(event.name(), "error", it)).unwrap_or_default();
    text
}

/// Formats a fenced block. The fence is longer than any run of backticks in the content.
fn block(event: &str, key: &str, content: &str) -> String {
    let fence = "`".repeat(longest_run(content).max(2) + 1);
    format!("\n{} {key}:\n\n{fence}\n{content}\n{fence}\n", cell(event))
}

/// Formats text as inline code for a table cell.
fn code(text: &str) -> String {
    // A backslash before the pipe would undo the escape.
    let text = one_line(text).replace("\\|", "\\ |").replace('|', "\\|");
    let fence = "`".repeat(longest_run(&text) + 1);
    // The spaces separate backticks in the text from the fence. Markdown does not render them.
    match text.as_str() {
        "" => "-".to_owned(),
        text if text.starts_with('`') || text.ends_with('`') => format!("{fence} {text} {fence}"),
        text => format!("{fence}{text}{fence}"),
    }
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|it| it != '`').map(str::len).max().unwrap_or_default()
}

/// Sanitizes a name that openskill defines. A gateway of another version may define other names, so all unsafe
/// characters are removed.
fn cell(text: &str) -> String {
    text.chars().filter(|it| it.is_ascii_alphanumeric() || *it == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::super::recorded::calls;
    use super::*;

    #[test]
    fn text_can_not_leave_its_place() {
        assert_eq!(code("a|b\n"), "`a\\|b\\n`");
        assert_eq!(code("a\\|b"), "`a\\ \\|b`");
        for (text, expected) in
            [("a`b", "``a`b``"), ("`", "`` ` ``"), ("a`` <b>", "```a`` <b>```"), ("```x", "```` ```x ````")]
        {
            assert_eq!(code(text), expected);
        }
        assert!(block("log", "message", "a```\n# b").starts_with("\nlog message:\n\n````\n"));
    }

    #[test]
    fn raw_content_is_left_out_unless_it_is_asked_for() {
        let lines = [
            r#"{"event":"call","trace":"t","call":"call_1","skill":"echo","time":"now","arguments":{"text":"private"}}"#,
            r#"{"event":"result","at_us":5,"code":"INVALID_ARGUMENT","error":{"message":"not private","blame":"caller","details":{"violations":[{"path":"/text","got":"private"}]}}}"#,
        ];
        let calls = calls(&lines.map(str::to_owned));
        let without = render("g", &calls, false);
        assert!(!without.contains("private") && without.contains("invalid `/text`"), "{without}");
        let with = render("g", &calls, true);
        assert!(with.contains("{\"text\":\"private\"}") && with.contains("not private"), "{with}");
    }
}
