//! `openskill traces`: lists or follows recorded calls. Tables begin with the calls that run.

use openskill_proto::render::{call_state, trace_summary};
use openskill_proto::timestamp::{Timestamp, parse_duration};
use openskill_proto::v1::trace_service_client::TraceServiceClient;
use openskill_proto::v1::{
    FollowTracesRequest, ListCallsRequest, ListTracesRequest, RunningCall, TraceFilter, TraceSummary,
};
use serde_json::Value;

use super::client;
use super::trace::millis;
use crate::args::{Format, TracesArgs};
use crate::channel::Channel;
use crate::exit::Failure;
use crate::listing::{Column, ListItem, RowPrinter, or_dash, print_list};
use crate::settings::Settings;
use crate::terminal::{pluralize, print_err, print_json, print_out};
use crate::yaml::yaml;

impl ListItem for TraceSummary {
    const KIND: &'static str = "call";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::optional("DATE", |it| short_time(it.received_us)[..10].to_owned()),
        Column::new("TIME", |it| short_time(it.received_us)[11..19].to_owned()),
        Column::new("TRACE", |it| it.trace_id.clone()),
        Column::text("SKILL", |it| it.skill_id.clone()),
        Column::new("CODE", |it| it.code.clone()),
        Column::new("DURATION", |it| millis(it.duration_us)),
        Column::wide("ATTEMPTS", |it| it.attempts.to_string()),
        Column::wide("REPAIRS", |it| it.repairs.to_string()),
        Column::optional("WORKER", |it| or_dash(&it.worker_id)),
        Column::wide("PRINCIPAL", |it| or_dash(&it.principal)),
        Column::wide("SESSION", |it| or_dash(&it.session_id)),
        Column::wide("CALL", |it| it.call_id.clone()),
    ];

    fn value(&self) -> Value {
        trace_summary(self)
    }
}

pub(super) async fn run(args: &TracesArgs, settings: &Settings) -> Result<(), Failure> {
    let filter = filter(args, Timestamp::now())?;
    if args.follow {
        return follow(args, filter, settings).await;
    }
    let mut client = client::traces(settings).await?;
    let request = ListTracesRequest { filter: Some(filter), limit: args.limit, cursor: args.cursor.clone() };
    let page = client.list_traces(request).await.map_err(client::into_failure(settings))?.into_inner();
    let running = running(&mut client, args).await;
    print_list(&[running, page.calls].concat(), args.output.format());
    if !page.next_cursor.is_empty() {
        print_err(&format!("more calls are available: --cursor {} shows them\n", page.next_cursor));
    }
    Ok(())
}

/// Fetches the running calls, as rows above the recorded ones, the latest first. None for programs, for later pages,
/// and with filters that only recorded calls can match.
async fn running(client: &mut TraceServiceClient<Channel>, args: &TracesArgs) -> Vec<TraceSummary> {
    let is_for_people = matches!(args.output.format(), Format::Table | Format::Wide);
    let has_filters = [&args.min_duration, &args.since, &args.until].iter().any(|it| it.is_some())
        || [&args.code, &args.session, &args.cursor].iter().any(|it| !it.is_empty());
    if !is_for_people || has_filters {
        return Vec::new();
    }
    let (skill_id, principal, limit) = (args.skill.clone(), args.principal.clone(), args.limit);
    let listed = client.list_calls(ListCallsRequest { skill_id, principal, limit }).await;
    // An older gateway does not list them.
    let calls = listed.map(|it| it.into_inner().calls).unwrap_or_default();
    let row = |it: RunningCall| TraceSummary {
        code: call_state(&it),
        trace_id: it.trace_id,
        call_id: it.call_id,
        skill_id: it.skill_id,
        principal: it.principal,
        received_us: it.received_us,
        duration_us: it.elapsed_us,
        attempts: it.attempts,
        worker_id: it.worker_id,
        ..TraceSummary::default()
    };
    calls.into_iter().rev().map(row).collect()
}

fn filter(args: &TracesArgs, now: Timestamp) -> Result<TraceFilter, Failure> {
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
        since_us: time("since", args.since.as_deref(), now)?,
        until_us: time("until", args.until.as_deref(), now)?,
    })
}

/// Parses the time in a flag, in microseconds. Returns 0 if the flag is missing.
pub(super) fn time(flag: &str, text: Option<&str>, now: Timestamp) -> Result<u64, Failure> {
    let Some(text) = text else { return Ok(0) };
    let time = Timestamp::parse_ago(text, now).map(|it| it.0);
    let rule = || format!("--{flag} must be a time such as 2026-01-31T12:00:00Z, or an age such as 15m");
    time.ok_or_else(|| Failure::Usage(rule()))
}

/// Prints calls as they end, until the gateway or the user stops it.
async fn follow(args: &TracesArgs, filter: TraceFilter, settings: &Settings) -> Result<(), Failure> {
    let into_failure = client::into_failure(settings);
    let mut client = client::traces(settings).await?;
    let request = FollowTracesRequest { filter: Some(filter) };
    let mut calls = client.follow_traces(request).await.map_err(&into_failure)?.into_inner();
    let mut rows = RowPrinter::new(args.output.format());
    while let Some(response) = calls.message().await.map_err(&into_failure)? {
        if response.missed > 0 {
            print_err(&format!("missed {}\n", pluralize(response.missed, "call")));
        }
        let Some(call) = &response.call else { continue };
        match args.output.format() {
            Format::Json => print_json(&format!("{}\n", trace_summary(call))),
            Format::Yaml => print_out(&format!("---\n{}", yaml(&trace_summary(call)))),
            Format::Table | Format::Wide => rows.print(call),
        }
    }
    Ok(())
}

/// Formats a time with milliseconds: `2026-01-31 12:00:00.500`.
pub(super) fn short_time(micros: u64) -> String {
    Timestamp(micros).to_string()[..23].replace('T', " ")
}
