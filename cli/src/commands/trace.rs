//! `openskill trace`: the events of a trace, as a waterfall, as Markdown or as JSON lines.

use openskill_proto::v1::{GetTraceRequest, GetTraceResponse};

use self::recorded::calls;
use super::client;
use crate::args::TraceArgs;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::{pluralize, print_err, print_json, print_out};

mod markdown;
pub(super) mod recorded;
mod waterfall;

pub(super) use recorded::millis;

pub(super) async fn run(args: &TraceArgs, settings: &Settings) -> Result<(), Failure> {
    let trace = get(&args.id, settings).await?;
    if args.json {
        trace.events_json.iter().for_each(|event| print_json(&format!("{event}\n")));
    } else if args.markdown {
        print_out(&markdown::render(&trace.gateway, &calls(&trace.events_json), settings.recorder.markdown_is_raw));
    } else {
        print_out(&waterfall::render(&trace.gateway, &calls(&trace.events_json)));
    }
    if trace.left_out > 0 {
        print_err(&format!("{} left out: the trace is too large\n", pluralize(trace.left_out, "call")));
    }
    Ok(())
}

/// Fetches the recorded events of a trace.
pub(super) async fn get(id: &str, settings: &Settings) -> Result<GetTraceResponse, Failure> {
    let request = GetTraceRequest { id: id.to_owned() };
    let mut client = client::traces(settings).await?;
    Ok(client.get_trace(request).await.map_err(client::into_failure(settings))?.into_inner())
}
