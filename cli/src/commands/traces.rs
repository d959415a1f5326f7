//! `openskill traces`.

use std::process::ExitCode;

use openskill_proto::render::trace_summary;
use openskill_proto::timestamp::{Timestamp, parse_duration};
use openskill_proto::v1::{FollowTracesRequest, ListTracesRequest, TraceFilter, TraceSummary};

use super::client;
use super::trace::millis;
use crate::args::Traces;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::table::table;
use crate::terminal::{complain, counted, say, say_json, say_value};

pub(super) async fn run(args: &Traces, settings: &Settings) -> Result<ExitCode, Failure> {
    let filter = filter(args, Timestamp::now())?;
    if args.follow {
        return follow(args, filter, settings).await;
    }
    let mut client = client::traces(settings).await?;
    let request = ListTracesRequest { filter: Some(filter), limit: args.limit, cursor: args.cursor.clone() };
    let page = client.list_traces(request).await.map_err(client::refused(settings))?.into_inner();
    if args.json {
        say_value(&page.calls.iter().map(trace_summary).collect());
    } else {
        let head = ["TIME", "TRACE", "SKILL", "CODE", "DURATION", "ATTEMPTS", "REPAIRS", "WORKER", "CALL"];
        say(&table(head, page.calls.iter().map(row)));
    }
    if !page.next_cursor.is_empty() {
        complain(&format!("there are more: --cursor {} shows them\n", page.next_cursor));
    }
    Ok(ExitCode::SUCCESS)
}

fn filter(args: &Traces, now: Timestamp) -> Result<TraceFilter, Failure> {
    let time = |flag: &str, text: &Option<String>| match text {
        None => Ok(0),
        Some(text) => Timestamp::parse_ago(text, now).map(|it| it.0).ok_or_else(|| {
            Failure::Usage(format!("--{flag} must be a time such as 2026-01-31T12:00:00Z, or an age such as 15m"))
        }),
    };
    let min_duration_us = match &args.min_duration {
        None => 0,
        Some(text) => parse_duration(text)
            .map(|it| u64::try_from(it.as_micros()).unwrap_or(u64::MAX))
            .ok_or_else(|| Failure::Usage("--min-duration must be a duration such as 250ms, 2s or 5m".to_owned()))?,
    };
    Ok(TraceFilter {
        skill_id: args.skill.clone(),
        code: args.code.to_ascii_uppercase(),
        principal: args.principal.clone(),
        session_id: args.session.clone(),
        min_duration_us,
        since_us: time("since", &args.since)?,
        until_us: time("until", &args.until)?,
    })
}

/// Prints calls as they end, until the gateway or the user ends it.
async fn follow(args: &Traces, filter: TraceFilter, settings: &Settings) -> Result<ExitCode, Failure> {
    let refused = client::refused(settings);
    let mut client = client::traces(settings).await?;
    let request = FollowTracesRequest { filter: Some(filter) };
    let mut calls = client.follow_traces(request).await.map_err(&refused)?.into_inner();
    while let Some(response) = calls.message().await.map_err(&refused)? {
        if response.missed > 0 {
            complain(&format!("missed {}\n", counted(response.missed, "call")));
        }
        match &response.call {
            Some(call) if args.json => say_json(&format!("{}\n", trace_summary(call))),
            Some(call) => say(&format!("{}\n", line(call))),
            None => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(call: &TraceSummary) -> [String; 9] {
    let worker = if call.worker_id.is_empty() { "-" } else { &call.worker_id };
    [
        short_time(call.received_us),
        call.trace_id.clone(),
        call.skill_id.clone(),
        call.code.clone(),
        millis(call.duration_us),
        call.attempts.to_string(),
        call.repairs.to_string(),
        worker.to_owned(),
        call.call_id.clone(),
    ]
}

/// A row without columns: nobody knows yet how wide they will be.
fn line(call: &TraceSummary) -> String {
    let cells = row(call).map(|cell| openskill_log::text::one_line(&cell).into_owned());
    let [time, trace, skill, code, duration, _, _, worker, _] = cells;
    format!("{time}  {code:<18}  {duration:>10}  {skill:<20}  {trace}  {worker}")
}

/// To the millisecond: `2026-01-31 12:00:00.500`.
fn short_time(micros: u64) -> String {
    Timestamp(micros).to_string()[..23].replace('T', " ")
}
