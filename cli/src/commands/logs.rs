//! `openskill logs`: the lines that skills logged during recorded calls, and the outcomes of the calls.
//!
//! The recorder writes the lines of a call when the call ends, so they appear all at once.

use std::collections::HashSet;
use std::process::ExitCode;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::trace_service_client::TraceServiceClient;
use openskill_proto::v1::{FollowTracesRequest, GetTraceRequest, ListTracesRequest, TraceFilter, TraceSummary};
use tonic::Code;

use self::line::lines;
use super::trace::recorded::calls;
use super::{client, traces};
use crate::args::LogsArgs;
use crate::channel::Channel;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::{pluralize, print_err, print_json, print_out};

mod line;

pub(super) async fn run(args: &LogsArgs, settings: &Settings) -> Result<ExitCode, Failure> {
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
    let Some(mut following) = following else { return Ok(ExitCode::SUCCESS) };
    while let Some(update) = following.message().await.map_err(&into_failure)? {
        if update.missed > 0 {
            print_err(&format!("missed {}\n", pluralize(update.missed, "call")));
        }
        if let Some(call) = update.call.filter(|it| !shown.remove(&(it.call_id.clone(), it.received_us))) {
            show(&call, args, settings, &mut client).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
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
