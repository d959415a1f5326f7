//! A trace on a terminal: one line per event, with a bar for its time.

use openskill_telemetry::log::text::one_line;
use serde_json::Value;

use super::recorded::{RecordedCall, RecordedEvent, millis};
use crate::terminal::shorten;

/// The width of the bars, in characters.
const WIDTH: usize = 32;

/// Renders the calls of a trace, one line per event.
pub(super) fn render(gateway: &str, calls: &[RecordedCall]) -> String {
    let trace = calls.first().map_or("", |call| call.field("trace"));
    let mut text = format!("trace {} on gateway {}\n", one_line(trace), one_line(gateway));
    for call in calls {
        text += &format!("\n{}\n", title(call));
        let whole = call.duration_us().max(1);
        for event in &call.0 {
            let at = millis(event.number("at_us"));
            let detail = detail(event);
            let line = format!("{at:>10}  {:<10} {} {}", label(event), bar(event, whole), one_line(&detail));
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}

fn title(call: &RecordedCall) -> String {
    let principal = Some(call.field("principal")).filter(|it| !it.is_empty()).unwrap_or("anonymous");
    let session = Some(call.field("session")).filter(|it| !it.is_empty()).map_or(String::new(), |it| format!("  {it}"));
    let parts = format!(
        "{}  {}  {}  {}  {principal}  {}{session}",
        call.field("skill"),
        call.code(),
        millis(call.duration_us()),
        call.field("time"),
        call.field("call"),
    );
    one_line(&parts).into_owned()
}

fn label(event: &RecordedEvent) -> String {
    match event.name() {
        "attempt" => format!("attempt {}", event.number("number")),
        name => one_line(name).into_owned(),
    }
}

/// Draws the time span of the event within its call. In the bar of an attempt, the time in the worker's queue has
/// a lighter shade.
fn bar(event: &RecordedEvent, whole: u64) -> String {
    let place = |micros: u64| (micros.min(whole) as f64 / whole as f64 * WIDTH as f64) as usize;
    let begin = place(event.number("at_us")).min(WIDTH - 1);
    let mut cells = vec![' '; WIDTH];
    if event.name() == "attempt" {
        let end = place(event.number("at_us") + event.number("took_us")).max(begin + 1);
        let queued = place(event.number("at_us") + event.number("queued_us"));
        for (index, cell) in cells[begin..end].iter_mut().enumerate() {
            *cell = if begin + index < queued { '░' } else { '█' };
        }
    } else {
        cells[begin] = '▏';
    }
    format!("│{}│", cells.into_iter().collect::<String>())
}

fn detail(event: &RecordedEvent) -> String {
    let parts: Vec<String> = match event.name() {
        "call" => vec![document(event, "arguments")],
        "prepared" => vec![
            repairs(event),
            texts(event, "defaults", "default"),
            document(event, "arguments"),
            texts(event, "warnings", "warning"),
        ],
        "attempt" => attempt(event),
        "retry" if event.flag("elsewhere") => vec!["on another worker".to_owned()],
        "retry" => vec!["after a pause".to_owned()],
        "circuit" => vec![format!("of the {}: {}", event.text("scope"), event.text("state"))],
        "progress" => {
            let fraction = event.fields["fraction"].as_f64().map(|it| format!("{:.0}%", it * 100.0));
            vec![fraction.unwrap_or_default(), event.text("message").to_owned()]
        }
        "log" => vec![event.text("level").to_owned(), event.text("message").to_owned()],
        "partial" => vec![document(event, "data")],
        "artifact" => vec![artifact(&event.fields)],
        "question" => vec![event.text("message").to_owned()],
        "answer" => vec![event.text("action").to_owned(), document(event, "data")],
        "result" => result(event),
        _ => Vec::new(),
    };
    parts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("  ")
}

fn attempt(event: &RecordedEvent) -> Vec<String> {
    let worker = Some(event.text("worker_id")).filter(|it| !it.is_empty()).unwrap_or(event.text("worker"));
    let (took, queued) = (event.number("took_us"), event.number("queued_us"));
    let times = format!("queued {}, ran {}", millis(queued), millis(took.saturating_sub(queued)));
    vec![format!("{worker} {}", event.text("code")), times, shorten(event.text("reason"))]
}

fn result(event: &RecordedEvent) -> Vec<String> {
    let error = &event.fields["error"];
    let outcome = match error["message"].as_str() {
        Some(message) => shorten(&format!("{}: {message}", event.text("code"))),
        None => document(event, "data"),
    };
    let artifacts = event.fields["artifacts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut parts = vec![outcome, texts(event, "warnings", "warning")];
    parts.extend(artifacts.iter().map(artifact));
    parts
}

fn artifact(it: &Value) -> String {
    let text = |key: &str| it[key].as_str().unwrap_or_default();
    format!("{} ({}, {} bytes)", text("name"), text("media_type"), it["size_bytes"].as_u64().unwrap_or_default())
}

fn repairs(event: &RecordedEvent) -> String {
    let repairs = event.fields["repairs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let repairs: Vec<_> = repairs.iter().map(|it| format!("{} {}", text(it, "kind"), text(it, "path"))).collect();
    shorten(&repairs.join(", "))
}

/// Returns a list of texts with a label. Empty if there are none.
fn texts(event: &RecordedEvent, key: &str, label: &str) -> String {
    let texts = event.fields[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<_> = texts.iter().filter_map(Value::as_str).collect();
    if texts.is_empty() { String::new() } else { shorten(&format!("{label}: {}", texts.join("; "))) }
}

fn document(event: &RecordedEvent, key: &str) -> String {
    shorten(&event.document(key).unwrap_or_default())
}
