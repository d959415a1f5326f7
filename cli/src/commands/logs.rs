//! `openskill logs`: what skills logged during recorded calls, and how the calls ended.
//!
//! The recorder has a call's lines when the call has ended, so they come all at once.

use std::collections::HashSet;
use std::process::ExitCode;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::trace_service_client::TraceServiceClient;
use openskill_proto::v1::{FollowTracesRequest, GetTraceRequest, ListTracesRequest, TraceFilter, TraceSummary};
use tonic::Code;

use self::line::lines;
use super::trace::recorded::calls;
use super::{client, traces};
use crate::args::Logs;
use crate::channel::Channel;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::{complain, counted, say, say_json};

mod line;

pub(super) async fn run(args: &Logs, settings: &Settings) -> Result<ExitCode, Failure> {
    let refused = client::refused(settings);
    let mut client = client::traces(settings).await?;
    let filter =
        TraceFilter { skill_id: args.skill.clone(), session_id: args.session.clone(), ..TraceFilter::default() };
    let since_us = traces::time("since", args.since.as_deref(), Timestamp::now())?;
    // Asked first: a call that ends in between is in both, and none is in neither.
    let following = if args.follow {
        let request = FollowTracesRequest { filter: Some(filter.clone()) };
        Some(client.follow_traces(request).await.map_err(&refused)?.into_inner())
    } else {
        None
    };
    let mut shown = HashSet::new();
    if args.tail > 0 {
        let filter = Some(TraceFilter { since_us, ..filter });
        let request = ListTracesRequest { filter, limit: args.tail, cursor: String::new() };
        let page = client.list_traces(request).await.map_err(&refused)?.into_inner();
        for call in page.calls.iter().rev() {
            show(call, args, settings, &mut client).await?;
            shown.insert((call.call_id.clone(), call.received_us));
        }
    }
    let Some(mut following) = following else { return Ok(ExitCode::SUCCESS) };
    while let Some(told) = following.message().await.map_err(&refused)? {
        if told.missed > 0 {
            complain(&format!("missed {}\n", counted(told.missed, "call")));
        }
        if let Some(call) = told.call.filter(|it| !shown.remove(&(it.call_id.clone(), it.received_us))) {
            show(&call, args, settings, &mut client).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the lines of one call.
async fn show(
    summary: &TraceSummary,
    args: &Logs,
    settings: &Settings,
    client: &mut TraceServiceClient<Channel>,
) -> Result<(), Failure> {
    let trace = match client.get_trace(GetTraceRequest { id: summary.call_id.clone() }).await {
        Ok(trace) => trace.into_inner(),
        // Its file was removed meanwhile.
        Err(status) if status.code() == Code::NotFound => return Ok(()),
        Err(status) => return Err(client::refused(settings)(status)),
    };
    // Callers may use an id more than once.
    let is_this = |time: &str| Timestamp::parse(time).is_some_and(|it| it.0 == summary.received_us);
    for call in calls(&trace.events_json).iter().filter(|call| is_this(call.of_call("time"))) {
        for line in lines(call, summary.received_us) {
            if args.json { say_json(&line.json()) } else { say(&line.text()) }
        }
    }
    Ok(())
}
