//! `openskill cancel`: cancels a running call, by its id or the beginning of an id that the gateway made.

use std::collections::BTreeSet;

use openskill_proto::v1::{CancelCallRequest, ListCallsRequest, RunningCall};
use openskill_telemetry::log::text::one_line;
use tonic::Code;

use super::{client, ps};
use crate::args::CancelArgs;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::print_out;

/// How the ids begin that gateways make, and their length. Ids that clients choose need not be unique, and one may be the
/// beginning of another.
const GENERATED_ID_PREFIX: &str = "call-";
const GENERATED_ID_LENGTH: usize = GENERATED_ID_PREFIX.len() + 16;

/// The maximum number of ids that an error names.
const MAX_NAMED: usize = 5;

pub(super) async fn run(args: &CancelArgs, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::traces(settings).await?;
    let principal = args.principal.clone();
    let request = |call_id: &str| CancelCallRequest { call_id: call_id.to_owned(), principal: principal.clone() };
    let cancelled = match client.cancel_call(request(&args.call)).await {
        Err(status) if status.code() == Code::NotFound && may_begin_id(&args.call) => {
            // Without a name, the list has the calls of all principals.
            let name = principal.clone().unwrap_or_default();
            let all = ListCallsRequest { principal: name, ..ListCallsRequest::default() };
            let mut running = ps::list(&mut client, all, settings).await?.calls;
            running.retain(|it| principal.as_ref().is_none_or(|name| it.principal == *name));
            client.cancel_call(request(resolve(&running, &args.call)?)).await
        }
        answer => answer,
    };
    let cancelled = cancelled.map_err(client::into_failure(settings))?.into_inner().calls;
    for call in &cancelled {
        print_out(&format!("cancelled {} ({})\n", one_line(&call.call_id), one_line(&call.skill_id)));
    }
    Ok(())
}

/// Whether a text may be the beginning of an id that a gateway made, but is no whole one.
fn may_begin_id(text: &str) -> bool {
    text.starts_with(GENERATED_ID_PREFIX) && text.len() < GENERATED_ID_LENGTH
}

/// Finds the only id that a gateway made and that begins with `given`. If there is none, returns `given`: the gateway
/// says what became of its call.
fn resolve<'a>(running: &'a [RunningCall], given: &'a str) -> Result<&'a str, Failure> {
    let begins = |id: &&str| id.len() == GENERATED_ID_LENGTH && id.starts_with(given);
    let ids: BTreeSet<_> = running.iter().map(|it| it.call_id.as_str()).filter(begins).collect();
    match ids.first() {
        Some(first) if ids.len() == 1 => Ok(first),
        None => Ok(given),
        Some(_) => {
            let named: Vec<_> = ids.iter().take(MAX_NAMED).map(|it| one_line(it)).collect();
            let more = if ids.len() > MAX_NAMED { ", …" } else { "" };
            let reason = format!("the ids of {} running calls begin with it: {}{more}", ids.len(), named.join(", "));
            Err(Failure::Usage(format!("'{}' is ambiguous: {reason}", one_line(given))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_enough_if_the_gateway_made_it_and_no_other_begins_so() {
        let call = |id: &str| RunningCall { call_id: id.to_owned(), ..RunningCall::default() };
        let ids = ["call-12", "call-1200000000000000", "call-1200000000000000", "call-1300000000000000"];
        let running = ids.map(call);
        assert_eq!(resolve(&running, "call-12").unwrap(), ids[1]);
        assert_eq!(resolve(&running, "call-2").unwrap(), "call-2");
        let Err(Failure::Usage(reason)) = resolve(&running, "call-1") else { panic!() };
        let named = format!("{}, {}", ids[1], ids[3]);
        assert_eq!(reason, format!("'call-1' is ambiguous: the ids of 2 running calls begin with it: {named}"));
        assert!(may_begin_id("call-1") && !may_begin_id(ids[1]) && !may_begin_id("job-1"));
    }
}
