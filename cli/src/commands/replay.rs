//! `openskill replay`: makes a recorded call again, and compares the results.

use std::collections::BTreeMap;
use std::process::ExitCode;

use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{ArgumentPolicy, GetSkillRequest, InvokeRequest, SkillResult, skill_result};
use serde_json::Value;
use serde_json::value::RawValue;
use tonic::Code;

use self::difference::Differences;
use super::input::json_or_file;
use super::trace::recorded::{RecordedCall, calls, redacted_at};
use super::{client, trace};
use crate::args::ReplayArgs;
use crate::exit::{FAILED, Failure};
use crate::pretty::pretty;
use crate::settings::Settings;
use crate::terminal::{pluralize, print_err, print_json, print_out};

mod difference;

pub(super) async fn run(args: &ReplayArgs, settings: &Settings) -> Result<ExitCode, Failure> {
    let recorded = trace::get(&args.id, settings).await?;
    let call = single_call(calls(&recorded.events_json))?;
    let arguments = match &args.input {
        Some(text) => json_or_file(text)?,
        None => arguments(&call)?,
    };
    let target =
        Settings { base_url: args.gateway.clone().unwrap_or_else(|| settings.base_url.clone()), ..settings.clone() };
    let mut client = client::skills(&target).await?;
    let skill_id = call.field("skill").to_owned();
    if !args.yes {
        let skill = client.get_skill(GetSkillRequest { skill_id: skill_id.clone() }).await.map_err(|status| {
            match status.code() {
                Code::NotFound => {
                    Failure::Usage(format!("the gateway at {} has no skill '{skill_id}'", target.base_url))
                }
                _ => client::into_failure(&target)(status),
            }
        })?;
        let skill = skill.into_inner();
        if skill.destructive || !skill.idempotent {
            let why = if skill.destructive { "destructive" } else { "not idempotent" };
            return Err(Failure::Usage(format!("'{skill_id}' is {why}: add --yes to run it again")));
        }
    }
    let is_strict = call.0.first().is_some_and(|it| it.flag("strict"));
    let policy = if is_strict { ArgumentPolicy::Strict } else { ArgumentPolicy::Unspecified };
    let request = InvokeRequest {
        skill_id,
        arguments: Some(Arguments::InputJson(arguments)),
        argument_policy: policy.into(),
        session_id: args.session.clone(),
        ..InvokeRequest::default()
    };
    let result = client.invoke(request).await.map_err(client::into_failure(&target))?.into_inner();
    Ok(compare(&call, &result))
}

/// Returns the only call of a trace.
///
/// # Errors
/// The trace has several calls, or none.
fn single_call(mut calls: Vec<RecordedCall>) -> Result<RecordedCall, Failure> {
    match (calls.pop(), calls.as_slice()) {
        (Some(call), []) => Ok(call),
        (Some(last), others) => {
            let ids = others.iter().chain([&last]).map(|it| format!("\n  {}  {}", it.field("call"), it.field("skill")));
            Err(Failure::Usage(format!(
                "the trace has several calls; replay one of them by its id:{}",
                ids.collect::<String>()
            )))
        }
        (None, _) => Err(Failure::Usage("the trace contains no calls".to_owned())),
    }
}

/// Returns the recorded arguments, byte for byte. Fails if any part of them was not recorded.
fn arguments(call: &RecordedCall) -> Result<String, Failure> {
    let lost = |how: &str| {
        Err(Failure::Usage(format!("the recorded arguments {how}: provide all arguments with --input '{{...}}'")))
    };
    let Some(event) = call.event("call") else { return lost("are missing") };
    let why = event.text("content_left_out");
    if !why.is_empty() {
        return lost(&format!("were left out: {why}"));
    }
    if event.flag("cut") {
        return lost(&format!("were cut because they have {} bytes", event.number("arguments_bytes")));
    }
    if event.flag("redacted") {
        let mut places = redacted_at(&event.fields["arguments"]);
        // An empty path means all arguments, so no single place can be named.
        places.retain(|it| !it.is_empty());
        let places = if places.is_empty() { String::new() } else { format!(" at {}", places.join(", ")) };
        return lost(&format!("are redacted{places}"));
    }
    let fields: BTreeMap<&str, &RawValue> = serde_json::from_str(&event.line).unwrap_or_default();
    match fields.get("arguments") {
        Some(json) => Ok(json.get().to_owned()),
        None => Ok(event.text("arguments_text").to_owned()),
    }
}

/// Prints the result and its differences from the recorded result.
fn compare(call: &RecordedCall, result: &SkillResult) -> ExitCode {
    let code = result.error.as_ref().map_or("OK", |error| error.code().as_str_name());
    print_err(&format!("recorded: {}, now: {code} (trace {})\n", call.code(), result.trace_id));
    let data = match &result.output {
        Some(skill_result::Output::DataJson(data)) => serde_json::from_str(data).unwrap_or_default(),
        _ => Value::Null,
    };
    if let Some(error) = &result.error {
        print_err(&format!("{}\n", error.message));
    }
    let recorded = call.event("result").map(|it| &it.fields);
    let mut found = match recorded.and_then(|it| it.get("data")) {
        Some(before) => Differences::between(before, &data),
        None if recorded.is_some_and(|it| it.get("data_text").is_some()) => {
            print_err("the recorded result was cut: results are not compared\n");
            Differences::default()
        }
        None => Differences::between(&Value::Null, &data),
    };
    if call.code() != code {
        found.lines.insert(0, format!("- code: {}\n+ code: {code}\n", call.code()));
    }
    let Differences { lines, redacted } = found;
    if redacted > 0 {
        let redacted = pluralize(redacted, "redacted value");
        print_err(&format!("{redacted} in the recording: only the text around a mask is compared\n"));
    }
    if lines.is_empty() {
        print_json(&pretty(&data.to_string()));
        print_err("same result\n");
        return ExitCode::SUCCESS;
    }
    lines.iter().for_each(|it| print_out(it));
    print_err(&format!("{}\n", pluralize(lines.len(), "difference")));
    ExitCode::from(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the arguments to repeat, or the reason why they cannot be repeated.
    fn read(fields: &str) -> Result<String, String> {
        let line = format!(r#"{{"event":"call",{fields}}}"#);
        let call = calls(&[line]).pop().unwrap();
        arguments(&call).map_err(|failure| match failure {
            Failure::Usage(message) => message,
            _ => "another failure".to_owned(),
        })
    }

    #[test]
    fn arguments_are_repeated_byte_for_byte_or_it_is_said_why_not() {
        assert_eq!(read(r#""arguments":{"a" : 1.50}"#).unwrap(), r#"{"a" : 1.50}"#);
        assert_eq!(read(r#""arguments_text":"{'a': 1}""#).unwrap(), "{'a': 1}");
        for (fields, why) in [
            (r#""arguments":{"pin":"***"},"redacted":true"#, "are redacted at /pin: provide"),
            (r#""arguments":"***","redacted":true"#, "are redacted: provide"),
            (r#""arguments_text":"{","cut":true,"arguments_bytes":99"#, "were cut because they have 99 bytes"),
            (
                r#""arguments":"***","redacted":true,"content_left_out":"there are more than 64 secret values""#,
                "were left out: there are more than 64 secret values",
            ),
        ] {
            let said = read(fields).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
