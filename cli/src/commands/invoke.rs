//! `openskill invoke`.
//!
//! Data goes to stdout and everything about the call to stderr, so that the output can be piped.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;

use openskill_proto::metadata::TRACE_ID;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{
    ArgumentPolicy, GetSkillRequest, InvokeEvent, InvokeRequest, Repair, SkillResult, invoke_event::Event,
};
use openskill_proto::v1::{skill_error, skill_result};
use serde_json::Value;
use serde_json::value::RawValue;
use tonic::transport::Channel;
use tonic::{Code, Request};

use super::client;
use crate::args::Invoke;
use crate::exit::{FAILED, Failure};
use crate::pretty::pretty;
use crate::settings::Settings;
use crate::terminal::{complain, plain, say};

pub(super) async fn run(args: &Invoke, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut client = client::skills(settings).await?;
    let given = match (&args.call, &args.json) {
        (Some(text), _) => Arguments::Call(text_or_stdin(text)?),
        (None, Some(text)) => Arguments::InputJson(text_or_stdin(text)?),
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
        ..InvokeRequest::default()
    });
    if let Some(id) = &args.trace_id {
        let value =
            id.parse().map_err(|_| Failure::Usage("--trace-id must consist of visible ASCII characters".to_owned()))?;
        request.metadata_mut().insert(TRACE_ID, value);
    }
    let result = call(args, settings, &mut client, request).await?;
    Ok(show(args, &result))
}

/// Returns `text`, or reads stdin if it is `-`.
fn text_or_stdin(text: &str) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).map_err(Failure::system("reading stdin"))?;
    Ok(input)
}

async fn call(
    args: &Invoke,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
    request: Request<InvokeRequest>,
) -> Result<SkillResult, Failure> {
    let refused = client::refused(settings);
    let shows_progress = std::io::stderr().is_terminal();
    if !args.stream && !shows_progress {
        return client.invoke(request).await.map(tonic::Response::into_inner).map_err(refused);
    }
    let mut events = client.invoke_stream(request).await.map_err(&refused)?.into_inner();
    while let Some(event) = events.message().await.map_err(&refused)? {
        if args.stream {
            say(&openskill_proto::render::event_line(&event));
        } else {
            progress(&event);
        }
        if let Some(Event::Result(result)) = event.event {
            return Ok(result);
        }
    }
    Err(Failure::Gateway { url: settings.base_url.clone(), reason: "closed the stream without a result".to_owned() })
}

/// Shows progress on a terminal, in one line that is overwritten.
fn progress(event: &InvokeEvent) {
    const CLEAR: &str = "\r\x1b[K";
    match &event.event {
        Some(Event::Progress(it)) if it.fraction >= 0.0 => {
            complain(&format!("{CLEAR}{:3.0}% {}", it.fraction * 100.0, short(&it.message)));
        }
        Some(Event::Progress(it)) => complain(&format!("{CLEAR}{}", short(&it.message))),
        Some(Event::Result(_)) => complain(CLEAR),
        _ => {}
    }
}

/// A message in one line, short enough to be overwritten.
fn short(text: &str) -> String {
    plain(text).replace('\n', " ").chars().take(100).collect()
}

fn show(args: &Invoke, result: &SkillResult) -> ExitCode {
    let meta = result.meta.clone().unwrap_or_default();
    if args.stream {
    } else if args.full {
        say(&pretty(&openskill_proto::render::result(result)));
    } else if let Some(skill_result::Output::DataJson(data)) = &result.output {
        say(&pretty(data));
    }
    for repair in &meta.repairs {
        complain(&format!("repaired: {}\n", plain(&repaired(repair))));
    }
    for warning in &meta.warnings {
        complain(&format!("warning: {}\n", plain(warning)));
    }
    match &result.error {
        None => ExitCode::SUCCESS,
        Some(error) => {
            complain(&format!("{}: {}\n", error.code().as_str_name(), plain(&error.message)));
            if let Some(skill_error::More::DetailsJson(details)) = &error.more {
                complain(&format!("details: {}\n", plain(details)));
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

/// Builds the arguments from `key=value` pairs, typed by the skill's schema.
async fn arguments(
    args: &Invoke,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
) -> Result<String, Failure> {
    if args.arguments.is_empty() {
        return Ok("{}".to_owned());
    }
    let schema = match client.get_skill(GetSkillRequest { skill_id: args.skill_id.clone().unwrap_or_default() }).await {
        Ok(skill) => serde_json::from_str(&skill.into_inner().input_schema_json).unwrap_or_default(),
        // The call itself will fail with a better message.
        Err(status) if status.code() == Code::NotFound => Value::Null,
        Err(status) => return Err(client::refused(settings)(status)),
    };
    let mut object = BTreeMap::new();
    for pair in &args.arguments {
        let (key, value) = argument(pair, &schema)?;
        if object.insert(key, value).is_some() {
            return Err(Failure::Usage(format!("argument '{key}' is given twice")));
        }
    }
    serde_json::to_string(&object).map_err(|error| Failure::Usage(error.to_string()))
}

/// Parses a pair into its key and its value as JSON text, so that numbers stay as typed.
fn argument<'a>(pair: &'a str, schema: &Value) -> Result<(&'a str, Box<RawValue>), Failure> {
    let Some((key, value)) = pair.split_once('=') else {
        return Err(Failure::Usage(format!("'{pair}' is not an argument: write key=value or key:=json")));
    };
    if let Some(key) = key.strip_suffix(':') {
        let value = RawValue::from_string(value.to_owned())
            .map_err(|error| Failure::Usage(format!("the value of '{key}' is not JSON: {error}")))?;
        return Ok((key, value));
    }
    let declared = &schema["properties"][key]["type"];
    let is_text = declared == "string";
    let value = match RawValue::from_string(value.to_owned()) {
        Ok(json) if !is_text => json,
        _ => serde_json::value::to_raw_value(value).map_err(|error| Failure::Usage(error.to_string()))?,
    };
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_typed_by_the_schema() {
        let schema = json!({"properties": {"text": {"type": "string"}, "limit": {"type": "integer"}}});
        for (pair, expected) in [
            ("text=5", json!("5")),
            ("limit=5", json!(5)),
            ("limit=five", json!("five")),
            ("other=[1, 2]", json!([1, 2])),
            ("other=a=b", json!("a=b")),
            ("text:=5", json!(5)),
        ] {
            let value: Value = serde_json::from_str(argument(pair, &schema).unwrap().1.get()).unwrap();
            assert_eq!(value, expected, "{pair}");
        }
        let long = "123456789012345678901234567890";
        assert_eq!(argument(&format!("n={long}"), &schema).unwrap().1.get(), long);
        assert!(argument("novalue", &schema).is_err());
        assert!(argument("key:={", &schema).is_err());
    }
}
