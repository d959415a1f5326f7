//! `openskill invoke`.
//!
//! Data goes to stdout and everything about the call to stderr, so that the output can be piped.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use openskill_proto::metadata::TRACE_ID;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{
    ArgumentPolicy, InvokeRequest, Repair, SkillResult, invoke_event::Event, skill_error, skill_result,
};
use tonic::Request;

use self::arguments::arguments;
use self::progress::short;
use self::questions::Asking;
use super::client;
use super::input::{json_or_file, text_or_stdin};
use crate::args::Invoke;
use crate::channel::Channel;
use crate::exit::{FAILED, Failure};
use crate::pretty::pretty;
use crate::settings::Settings;
use crate::terminal::{complain, say_json};

mod arguments;
mod artifacts;
mod form;
mod progress;
mod questions;

pub(super) async fn run(args: &Invoke, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut client = client::skills(settings).await?;
    let given = match (&args.call, &args.json) {
        (Some(text), _) => Arguments::Call(text_or_stdin(text)?),
        (None, Some(text)) => Arguments::InputJson(json_or_file(text)?),
        (None, None) => Arguments::InputJson(arguments(args, settings, &mut client).await?),
    };
    let policy = if args.strict { ArgumentPolicy::Strict } else { ArgumentPolicy::Unspecified };
    let mut request = Request::new(InvokeRequest {
        skill_id: args.skill_id.clone().unwrap_or_default(),
        arguments: Some(given),
        argument_policy: policy.into(),
        session_id: args.session.clone(),
        idempotency_key: args.idempotency_key.clone(),
        timeout_ms: args.timeout_ms,
        interactive: args.interactive || (!args.stream && std::io::stdin().is_terminal()),
        ..InvokeRequest::default()
    });
    if let Some(id) = &args.trace_id {
        let value =
            id.parse().map_err(|_| Failure::Usage("--trace-id must consist of visible ASCII characters".to_owned()))?;
        request.metadata_mut().insert(TRACE_ID, value);
    }
    let result = call(args, settings, &mut client, request).await?;
    let code = show(args, &result);
    artifacts::list(args.artifacts.as_deref(), &result.artifacts, settings, &mut client).await?;
    Ok(code)
}

async fn call(
    args: &Invoke,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
    request: Request<InvokeRequest>,
) -> Result<SkillResult, Failure> {
    let refused = client::refused(settings);
    let (interactive, mut shows_progress) = (request.get_ref().interactive, std::io::stderr().is_terminal());
    if !args.stream && !interactive && !shows_progress {
        return client.invoke(request).await.map(tonic::Response::into_inner).map_err(refused);
    }
    let asking = Asking::start(client.clone());
    let mut events = client.invoke_stream(request).await.map_err(&refused)?.into_inner();
    while let Some(event) = events.message().await.map_err(&refused)? {
        if args.stream {
            say_json(&openskill_proto::render::event_line(&event));
        } else if shows_progress {
            progress::show(&event);
        }
        match event.event {
            Some(Event::InputRequired(question)) => {
                // Progress would overwrite the prompt.
                shows_progress = false;
                asking.ask(question);
            }
            Some(Event::Result(result)) => return Ok(result),
            _ => {}
        }
    }
    Err(Failure::Gateway { url: settings.base_url.clone(), reason: "closed the stream without a result".to_owned() })
}

fn show(args: &Invoke, result: &SkillResult) -> ExitCode {
    let meta = result.meta.clone().unwrap_or_default();
    if args.stream {
    } else if args.full {
        say_json(&pretty(&openskill_proto::render::result(result)));
    } else if let Some(skill_result::Output::DataJson(data)) = &result.output {
        say_json(&pretty(data));
    }
    for repair in &meta.repairs {
        complain(&format!("repaired: {}\n", repaired(repair)));
    }
    for warning in &meta.warnings {
        complain(&format!("warning: {warning}\n"));
    }
    match &result.error {
        None => ExitCode::SUCCESS,
        Some(error) => {
            complain(&format!("{}: {}\n", error.code().as_str_name(), error.message));
            if let Some(skill_error::More::DetailsJson(details)) = &error.more {
                complain(&format!("details: {details}\n"));
            }
            if error.may_have_run && !error.retryable {
                complain("the skill may have had an effect: check before you call again\n");
            }
            ExitCode::from(FAILED)
        }
    }
}

/// A repair in one line.
fn repaired(it: &Repair) -> String {
    let value = |text: &str| if text.is_empty() { "nothing".to_owned() } else { short(text) };
    let place = if it.path.is_empty() { "the arguments" } else { &it.path };
    format!("{place}: {} ({} -> {})", it.kind, value(&it.before_json), value(&it.after_json))
}
