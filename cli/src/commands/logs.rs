//! `openskill logs`: the lines that skills logged during recorded calls, and the outcomes of the calls.
//!
//! The recorder writes the lines of a call when the call ends, so they appear all at once.

use std::collections::HashSet;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::trace_service_client::TraceServiceClient;
use openskill_proto::v1::{FollowTracesRequest, GetTraceRequest, ListTracesRequest, TraceFilter, TraceSummary};
use openskill_telemetry::log::text::one_line;
use serde_json::json;
use tonic::Code;

use super::trace::recorded::{RecordedCall, RecordedEvent, calls, millis};
use super::{client, traces};
use crate::args::LogsArgs;
use crate::channel::Channel;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::{pluralize, print_err, print_json, print_out};

pub(super) async fn run(args: &LogsArgs, settings: &Settings) -> Result<(), Failure> {
    let into_failure = client::into_failure(settings);
    let mut client = client::traces(settings).await?;
    let filter =
        TraceFilter { skill_id: args.skill.clone(), session_id: args.session.clone(), ..TraceFilter::default() };
    let since_us = traces::time("since", args.since.as_deref(), Timestamp::now())?;
    // Follow before listing: a call that ends in between appears in both, and no call is missed.
    let following = if args.follow {
        let request = FollowTracesRequest { filter: Some(filter.clone()) };
        Some(client.follow_traces(request).await.map_err(&into_failure)?.into_inner())
    } else {
        None
    };
    let mut shown = HashSet::new();
    if args.tail > 0 {
        let filter = Some(TraceFilter { since_us, ..filter });
        let request = ListTracesRequest { filter, limit: args.tail, cursor: String::new() };
        let page = client.list_traces(request).await.map_err(&into_failure)?.into_inner();
        for call in page.calls.iter().rev() {
            show(call, args, settings, &mut client).await?;
            shown.insert((call.call_id.clone(), call.received_us));
        }
    }
    let Some(mut following) = following else { return Ok(()) };
    while let Some(update) = following.message().await.map_err(&into_failure)? {
        if update.missed > 0 {
            print_err(&format!("missed {}\n", pluralize(update.missed, "call")));
        }
        if let Some(call) = update.call.filter(|it| !shown.remove(&(it.call_id.clone(), it.received_us))) {
            show(&call, args, settings, &mut client).await?;
        }
    }
    Ok(())
}

/// Prints the lines of one call.
async fn show(
    summary: &TraceSummary,
    args: &LogsArgs,
    settings: &Settings,
    client: &mut TraceServiceClient<Channel>,
) -> Result<(), Failure> {
    let trace = match client.get_trace(GetTraceRequest { id: summary.call_id.clone() }).await {
        Ok(trace) => trace.into_inner(),
        // The file of the call was removed in the meantime.
        Err(status) if status.code() == Code::NotFound => return Ok(()),
        Err(status) => return Err(client::into_failure(settings)(status)),
    };
    // Callers may reuse an id.
    let is_this = |time: &str| Timestamp::parse(time).is_some_and(|it| it.0 == summary.received_us);
    for call in calls(&trace.events_json).iter().filter(|call| is_this(call.field("time"))) {
        for line in lines(call, summary.received_us) {
            if args.json { print_json(&line.json()) } else { print_out(&line.text()) }
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct LogLine {
    time_us: u64,
    /// `debug`, `info`, `warning` or `error`. `stderr` marks what the skill wrote there.
    level: String,
    skill: String,
    trace: String,
    message: String,
}

/// Returns the lines that the skill logged, then its stderr output if recorded, then the outcome of the call.
fn lines(call: &RecordedCall, received_us: u64) -> Vec<LogLine> {
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
                let details = event.fields["error"]["details"]["stderr"].as_str();
                let stderr = details.unwrap_or_else(|| event.text("stderr"));
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
    fn text(&self) -> String {
        let time = traces::short_time(self.time_us);
        let Self { level, skill, trace, message, .. } = self;
        let line = format!("{time}  {level:<7}  {skill:<16}  {trace}  {message}");
        format!("{}\n", one_line(&line))
    }

    fn json(&self) -> String {
        let Self { time_us, level, skill, trace, message } = self;
        let time = Timestamp(*time_us).to_string();
        let line = json!({ "time": time, "level": level, "skill": skill, "trace": trace, "message": message });
        format!("{line}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            r#"{"event":"result","at_us":2500,"code":"OK","stderr":"read 3 rows"}"#,
        ]);
        let expected = [
            "2026-01-31 12:00:00.001  warning  echo              run-7  a\\nb\\u{202e}\n",
            "2026-01-31 12:00:00.002  stderr   echo              run-7  read 3 rows\n",
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
