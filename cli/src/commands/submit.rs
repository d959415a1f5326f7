//! `openskill submit`: stores a call, which runs even if this command or the gateway ends before it.

use std::io::IsTerminal as _;
use std::time::Duration;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::{InvokeRequest, OperationEvent, SkillResult, SubmitRequest};
use tonic::{Code, Status};

use super::client;
use super::invoke::{ResultOutput, ResultPart, call_request, print_result, progress, with_trace_id};
use super::operations::events::EventStream;
use super::operations::fetch::fetch;
use super::operations::print_operation;
use crate::args::SubmitArgs;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::{overwrite, pluralize, print_err, print_out};

pub(super) async fn run(args: &SubmitArgs, settings: &Settings) -> Result<(), Failure> {
    let start_at = start_at(args.start_at.as_deref(), Timestamp::now())?;
    let mut skills = client::skills(settings).await?;
    let call = call_request(&args.call, settings, &mut skills).await?;
    let call = InvokeRequest { interactive: args.interactive, ..call };
    let (start_at, webhook) = (start_at.map(Into::into), args.webhook.clone().unwrap_or_default());
    let request = SubmitRequest { call: Some(call), start_at, webhook, ..SubmitRequest::default() };
    let request = with_trace_id(request, &args.call)?;
    let mut client = client::operation_service(settings).await?;
    let operation = client.submit(request).await.map_err(|status| refusal(&status, settings))?.into_inner();
    let Some(seconds) = args.wait else {
        match args.format {
            Some(format) => print_operation(operation, format),
            None => print_out(&format!("{}\n", operation.name)),
        }
        return Ok(());
    };
    // Whoever interrupts the wait needs the name.
    print_err(&format!("{}\n", operation.name));
    let result = wait(&operation.name, seconds, settings).await?;
    let part = match args.format {
        Some(format) => {
            print_operation(fetch(&operation.name, settings).await?, format);
            ResultPart::Nothing
        }
        None => ResultPart::Data,
    };
    let has_key = !args.call.idempotency_key.is_empty();
    print_result(&result, &ResultOutput { part, artifacts: None, has_key }, settings, &mut skills).await
}

/// Parses `--start-at`.
fn start_at(text: Option<&str>, now: Timestamp) -> Result<Option<Timestamp>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let rule = "--start-at must be a time such as 2026-01-31T12:00:00Z, or a duration from now such as 10m";
    Timestamp::parse_ahead(text, now).map(Some).ok_or_else(|| Failure::Usage(rule.to_owned()))
}

/// Reports a call that the gateway refuses because of its skill or its arguments, as `invoke` does.
fn refusal(status: &Status, settings: &Settings) -> Failure {
    let code = match status.code() {
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::NotFound => "NOT_FOUND",
        _ => return client::into_failure(settings)(status.clone()),
    };
    Failure::printed(&format!("{code}: {}", status.message()))
}

/// Waits for the result of an operation, and shows its progress on a terminal. Fails if it has not ended within
/// `seconds`.
async fn wait(name: &str, seconds: Option<u64>, settings: &Settings) -> Result<SkillResult, Failure> {
    let is_terminal = std::io::stderr().is_terminal();
    let show = |event: &OperationEvent| {
        if let Some(event) = event.event.as_ref().filter(|_| is_terminal) {
            progress::show(event);
        }
    };
    let result = EventStream::new(name, 0, settings).result(show);
    let Some(seconds) = seconds else { return result.await };
    tokio::time::timeout(Duration::from_secs(seconds), result).await.unwrap_or_else(|_| {
        if is_terminal {
            overwrite("");
        }
        let reason = format!("{name} has not ended after {}", pluralize(seconds, "second"));
        Err(Failure::printed(&format!("{reason}: `openskill operations watch {name}` continues to wait")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_a_time_or_a_duration_from_now() {
        let now = Timestamp(1_000_000);
        let parse = |text| start_at(Some(text), now);
        assert_eq!(parse("2s").unwrap(), Some(Timestamp(3_000_000)));
        assert_eq!(parse("1970-01-01T00:01:00Z").unwrap(), Some(Timestamp(60_000_000)));
        assert_eq!(start_at(None, now).unwrap(), None);
        assert!(matches!(parse("soon"), Err(Failure::Usage(rule)) if rule.contains("--start-at")));
    }
}
