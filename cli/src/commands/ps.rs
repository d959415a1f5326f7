//! `openskill ps`: lists or watches the calls that run.

use openskill_proto::render::{call_state, running_call};
use openskill_proto::v1::trace_service_client::TraceServiceClient;
use openskill_proto::v1::{ListCallsRequest, ListCallsResponse, RunningCall};
use serde_json::Value;

use super::client;
use super::poll::{Matching, watch};
use super::trace::millis;
use super::traces::short_time;
use crate::args::PsArgs;
use crate::channel::Channel;
use crate::exit::Failure;
use crate::listing::{Column, ListItem, or_dash, print_list};
use crate::settings::Settings;
use crate::terminal::print_err;

impl ListItem for RunningCall {
    const KIND: &'static str = "call";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("CALL", |it| it.call_id.clone()),
        Column::new("SKILL", |it| it.skill_id.clone()),
        Column::new("STATE", call_state),
        Column::new("ELAPSED", |it| millis(it.elapsed_us)),
        Column::new("WORKER", |it| or_dash(&it.worker_id)),
        Column::wide("ATTEMPTS", |it| it.attempts.to_string()),
        Column::wide("PROTOCOL", |it| it.protocol.clone()),
        Column::wide("PRINCIPAL", |it| or_dash(&it.principal)),
        Column::wide("TIME", |it| short_time(it.received_us)),
        Column::wide("TRACE", |it| it.trace_id.clone()),
    ];

    fn value(&self) -> Value {
        running_call(self)
    }
}

pub(super) async fn run(args: &PsArgs, settings: &Settings) -> Result<(), Failure> {
    let (mut client, format) = (client::traces(settings).await?, args.list.output.format());
    let request =
        ListCallsRequest { skill_id: args.skill.clone(), principal: args.principal.clone(), limit: args.limit };
    if args.list.watch {
        let matching = Matching::<RunningCall> {
            key: |it| format!("{}\n{}\n{}", it.call_id, it.trace_id, it.principal),
            // Ignores the times, which change with every poll.
            differs: |now, before| {
                (now.state, now.attempts, &now.worker_id) != (before.state, before.attempts, &before.worker_id)
            },
            left: |it| it,
        };
        let mut is_told = false;
        let fetch = async || {
            let answer = list(&mut client, request.clone(), settings).await?;
            if answer.left_out > 0 && !std::mem::replace(&mut is_told, true) {
                tell_left_out(&answer);
            }
            Ok(answer.calls)
        };
        match watch(format, &matching, fetch).await? {}
    }
    let answer = list(&mut client, request, settings).await?;
    print_list(&answer.calls, format);
    if answer.left_out > 0 {
        tell_left_out(&answer);
    }
    Ok(())
}

fn tell_left_out(answer: &ListCallsResponse) {
    print_err(&format!("{} more not shown: filter by --skill or --principal, or set --limit\n", answer.left_out));
}

/// Fetches the running calls of the gateway.
pub(super) async fn list(
    client: &mut TraceServiceClient<Channel>,
    request: ListCallsRequest,
    settings: &Settings,
) -> Result<ListCallsResponse, Failure> {
    Ok(client.list_calls(request).await.map_err(client::into_failure(settings))?.into_inner())
}
