//! `openskill cancel`: cancels a running call, by its id or the beginning of its id.

use std::collections::BTreeSet;

use openskill_proto::v1::{CancelCallRequest, ListCallsRequest, RunningCall};
use openskill_telemetry::log::text::one_line;

use super::{client, ps};
use crate::args::CancelArgs;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::print_out;

/// The maximum number of ids that an error names.
const MAX_NAMED: usize = 5;

pub(super) async fn run(args: &CancelArgs, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::traces(settings).await?;
    let principal = args.principal.clone();
    let all = ListCallsRequest { principal: principal.clone(), limit: u32::MAX, ..ListCallsRequest::default() };
    let running = ps::list(&mut client, all, settings).await?.calls;
    let call_id = resolve(&running, &args.call)?.to_owned();
    let request = CancelCallRequest { call_id, principal };
    let cancelled = client.cancel_call(request).await.map_err(client::into_failure(settings))?.into_inner().calls;
    for call in &cancelled {
        print_out(&format!("cancelled {} ({})\n", one_line(&call.call_id), one_line(&call.skill_id)));
    }
    Ok(())
}

/// Finds the id that `given` is, or that alone begins with it. An id that no call has is returned as it is: the gateway
/// says what became of its call.
fn resolve<'a>(running: &'a [RunningCall], given: &'a str) -> Result<&'a str, Failure> {
    let ids: BTreeSet<_> = running.iter().map(|it| it.call_id.as_str()).filter(|it| it.starts_with(given)).collect();
    match ids.first() {
        Some(first) if ids.len() == 1 || *first == given => Ok(first),
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
    fn the_beginning_of_an_id_is_enough_if_it_is_of_one_id_alone() {
        let call = |id: &str| RunningCall { call_id: id.to_owned(), ..RunningCall::default() };
        let running = ["call-1", "call-12", "call-12", "call-2"].map(call);
        let found = |given| resolve(&running, given).ok();
        assert_eq!(
            ["call-1", "call-12", "call-2", "other"].map(found).map(Option::unwrap),
            ["call-1", "call-12", "call-2", "other"]
        );
        assert_eq!([found("call-"), found("")], [None, None]);
        assert_eq!(resolve(&running[1..], "call-1").unwrap(), "call-12");
        let Err(Failure::Usage(reason)) = resolve(&running, "c") else { panic!() };
        assert_eq!(reason, "'c' is ambiguous: the ids of 3 running calls begin with it: call-1, call-12, call-2");
    }
}
