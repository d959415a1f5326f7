//! `openskill invoke`: calls a skill.
//!
//! Data goes to stdout and everything else about the call to stderr, so that the output can be piped.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use openskill_proto::metadata::TRACE_ID;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{
    ArgumentPolicy, ErrorCode, GetSkillRequest, InvokeRequest, Repair, SkillResult, invoke_event::Event, skill_error,
    skill_result,
};
use tonic::Request;

use self::arguments::arguments;
use self::progress::short;
use self::questions::QuestionPrompter;
use super::client;
use super::input::{json_or_file, text_or_stdin};
use crate::args::{CallArgs, InvokeArgs};
use crate::channel::Channel;
use crate::exit::Failure;
use crate::pretty::pretty;
use crate::settings::Settings;
use crate::terminal::{print_err, print_json};

pub(super) mod arguments;
mod artifacts;
pub(super) mod progress;
mod questions;

/// How long the gateway may take to describe a skill whose call failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How the result of a call is printed.
#[derive(Debug, Default)]
pub(super) struct ResultOutput<'a> {
    pub(super) part: ResultPart,
    /// Where artifacts are written. `None`: they are only listed.
    pub(super) artifacts: Option<&'a Path>,
    /// Whether the call has an idempotency key: a repetition with it runs nothing.
    pub(super) has_key: bool,
}

/// The part of a result that goes to stdout.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum ResultPart {
    #[default]
    Data,
    Whole,
    /// Nothing, because stdout already has the result.
    Nothing,
}

pub(super) async fn run(args: &InvokeArgs, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::skills(settings).await?;
    let mut request = call_request(&args.call, settings, &mut client).await?;
    request.interactive = args.interactive || (!args.stream && std::io::stdin().is_terminal());
    let request = with_trace_id(request, &args.call)?;
    let result = call(args, settings, &mut client, request).await?;
    let part = match (args.stream, args.full) {
        (true, _) => ResultPart::Nothing,
        (false, true) => ResultPart::Whole,
        (false, false) => ResultPart::Data,
    };
    let has_key = !args.call.idempotency_key.is_empty();
    let output = ResultOutput { part, artifacts: args.artifacts.as_deref(), has_key };
    print_result(&result, &output, settings, &mut client).await
}

/// Builds the request of a call.
pub(super) async fn call_request(
    args: &CallArgs,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
) -> Result<InvokeRequest, Failure> {
    let given = match (&args.call, &args.json) {
        (Some(text), _) => Arguments::Call(text_or_stdin(text)?),
        (None, Some(text)) => Arguments::InputJson(json_or_file(text)?),
        (None, None) => Arguments::InputJson(arguments(args, settings, client).await?),
    };
    let policy = if args.strict { ArgumentPolicy::Strict } else { ArgumentPolicy::Unspecified };
    Ok(InvokeRequest {
        skill_id: args.skill_id.clone().unwrap_or_default(),
        arguments: Some(given),
        argument_policy: policy.into(),
        session_id: args.session.clone(),
        idempotency_key: args.idempotency_key.clone(),
        timeout_ms: args.timeout_ms,
        ..InvokeRequest::default()
    })
}

/// Makes a request that carries the trace id of the call.
pub(super) fn with_trace_id<T>(message: T, args: &CallArgs) -> Result<Request<T>, Failure> {
    let mut request = Request::new(message);
    if let Some(id) = &args.trace_id {
        let value =
            id.parse().map_err(|_| Failure::Usage("--trace-id must consist of visible ASCII characters".to_owned()))?;
        request.metadata_mut().insert(TRACE_ID, value);
    }
    Ok(request)
}

/// Prints a result, what to know about a failed call, and artifacts. Fails if the call failed.
pub(super) async fn print_result(
    result: &SkillResult,
    output: &ResultOutput<'_>,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
) -> Result<(), Failure> {
    let outcome = show(result, output.part);
    if let Some(error) = &result.error
        && error.may_have_run
        && !output.has_key
        && !can_repeat(&result.skill_id, client).await
    {
        print_err("the skill may have had an effect: check before you call again\n");
    }
    if let Some(error) = &result.error
        && error.code() == ErrorCode::ExecutionError
        && std::io::stderr().is_terminal()
    {
        print_err(&format!(
            "`openskill logs --tail 1 --skill {}` shows what the skill wrote to stderr\n",
            result.skill_id
        ));
    }
    artifacts::list(output.artifacts, &result.artifacts, settings, client).await?;
    outcome
}

async fn call(
    args: &InvokeArgs,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
    request: Request<InvokeRequest>,
) -> Result<SkillResult, Failure> {
    let into_failure = client::into_failure(settings);
    let (interactive, mut shows_progress) = (request.get_ref().interactive, std::io::stderr().is_terminal());
    if !args.stream && !interactive && !shows_progress {
        return client.invoke(request).await.map(tonic::Response::into_inner).map_err(into_failure);
    }
    let prompter = QuestionPrompter::start(client.clone());
    let mut events = client.invoke_stream(request).await.map_err(&into_failure)?.into_inner();
    while let Some(event) = events.message().await.map_err(&into_failure)? {
        if args.stream {
            print_json(&openskill_proto::render::event_line(&event));
        } else if shows_progress {
            progress::show(&event);
        }
        match event.event {
            Some(Event::InputRequired(question)) => {
                // Progress would overwrite the prompt.
                shows_progress = false;
                prompter.ask(question);
            }
            Some(Event::Result(result)) => return Ok(result),
            _ => {}
        }
    }
    Err(Failure::gateway(&settings.base_url, "closed the stream without a result"))
}

/// Whether a repeated call of the skill does no harm. Returns `false` if the skill no longer exists.
async fn can_repeat(skill_id: &str, client: &mut SkillServiceClient<Channel>) -> bool {
    let found = client.get_skill(GetSkillRequest { skill_id: skill_id.to_owned() });
    // A gateway that did not end the call in time may not answer this either.
    let found = tokio::time::timeout(ANSWER_WITHIN, found).await;
    matches!(found, Ok(Ok(skill)) if skill.get_ref().idempotent || skill.get_ref().read_only)
}

/// Prints the result. Fails if the call failed.
fn show(result: &SkillResult, part: ResultPart) -> Result<(), Failure> {
    match part {
        ResultPart::Data => print_data(result),
        ResultPart::Whole => {
            print_json(&pretty(&openskill_proto::render::result(result)));
            report(result)
        }
        ResultPart::Nothing => report(result),
    }
}

/// Prints the data of a result, and reports the rest. Fails if the call failed.
pub(super) fn print_data(result: &SkillResult) -> Result<(), Failure> {
    if let Some(skill_result::Output::DataJson(data)) = &result.output {
        print_json(&pretty(data));
    }
    report(result)
}

/// Prints repairs, warnings and the error to stderr. Fails if the call failed.
fn report(result: &SkillResult) -> Result<(), Failure> {
    let meta = result.meta.clone().unwrap_or_default();
    for repair in &meta.repairs {
        print_err(&format!("repaired: {}\n", describe_repair(repair)));
    }
    for warning in &meta.warnings {
        print_err(&format!("warning: {warning}\n"));
    }
    match &result.error {
        None => Ok(()),
        Some(error) => {
            print_err(&format!("{}: {}\n", error.code().as_str_name(), error.message));
            if let Some(skill_error::More::DetailsJson(details)) = &error.more {
                print_err(&format!("details: {details}\n"));
            }
            Err(Failure::Reported)
        }
    }
}

/// Formats a repair as one line.
fn describe_repair(it: &Repair) -> String {
    let value = |text: &str| if text.is_empty() { "nothing".to_owned() } else { short(text) };
    let place = if it.path.is_empty() { "the arguments" } else { &it.path };
    format!("{place}: {} ({} -> {})", it.kind, value(&it.before_json), value(&it.after_json))
}
