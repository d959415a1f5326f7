//! `openskill replay`: makes a recorded call again, and compares the results.

use std::collections::BTreeMap;

use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{ArgumentPolicy, GetSkillRequest, InvokeRequest, SkillResult, skill_result};
use openskill_redact::Redactor;
use serde_json::Value;
use serde_json::value::RawValue;
use tonic::Code;

use super::input::json_or_file;
use super::trace::recorded::{RecordedCall, calls, is_redacted, redacted_at};
use super::{client, trace};
use crate::args::ReplayArgs;
use crate::exit::Failure;
use crate::pretty::pretty;
use crate::settings::Settings;
use crate::terminal::{pluralize, print_err, print_json, print_out};

pub(super) async fn run(args: &ReplayArgs, settings: &Settings) -> Result<(), Failure> {
    let recorded = trace::get(&args.id, &settings.for_operators()).await?;
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
    compare(&call, &result)
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

/// Prints the result and its differences from the recorded result. Fails if there are any.
fn compare(call: &RecordedCall, result: &SkillResult) -> Result<(), Failure> {
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
        return Ok(());
    }
    lines.iter().for_each(|it| print_out(it));
    Err(Failure::printed(&pluralize(lines.len(), "difference")))
}

/// The maximum number of differences that are listed.
const MAX_DIFFERENCES: usize = 100;

/// The differences between a result and the recorded one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differences {
    /// The differences as lines of a diff: JSON pointer and value.
    lines: Vec<String>,
    /// The number of values that were redacted in the recording. Only the text around a mask is compared.
    redacted: usize,
}

impl Differences {
    fn between(before: &Value, after: &Value) -> Self {
        let mut found = Self::default();
        found.compare(Some(before), Some(after), "");
        found
    }

    fn compare(&mut self, before: Option<&Value>, after: Option<&Value>, path: &str) {
        if before == after || self.lines.len() >= MAX_DIFFERENCES {
            return;
        }
        match (before, after) {
            (Some(Value::String(text)), Some(after)) if is_redacted(text) && may_be(text, after) => self.redacted += 1,
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                let added = other.keys().filter(|key| !one.contains_key(*key));
                for key in one.keys().chain(added) {
                    let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                    self.compare(one.get(key), other.get(key), &path);
                }
            }
            (Some(Value::Array(one)), Some(Value::Array(other))) => {
                for index in 0..one.len().max(other.len()) {
                    self.compare(one.get(index), other.get(index), &format!("{path}/{index}"));
                }
            }
            _ => {
                let line = |sign: char, value: Option<&Value>| {
                    value.map_or(String::new(), |value| {
                        format!("{sign} {}: {value}\n", if path.is_empty() { "data" } else { path })
                    })
                };
                self.lines.push(line('-', before) + &line('+', after));
            }
        }
    }
}

/// Whether `value` may be the value that was redacted: the text around each mask must match. A value that was
/// masked as a whole, or replaced by the hash of an id, matches anything except a list or an object.
fn may_be(redacted: &str, value: &Value) -> bool {
    let Value::String(text) = value else {
        let is_whole = redacted == Redactor::MASK || !redacted.contains(Redactor::MASK);
        return is_whole && !value.is_array() && !value.is_object();
    };
    let parts: Vec<&str> = redacted.split(Redactor::MASK).collect();
    let [start, middle @ .., end] = &parts[..] else { return true };
    let rest = text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    rest.is_some_and(|rest| middle.iter().try_fold(rest, |rest, part| Some(rest.split_once(part)?.1)).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[test]
    fn each_difference_is_a_place_with_both_values() {
        let before = json!({"same": 1, "changed": [1, 2], "gone": true, "secret": "***"});
        let after = json!({"same": 1, "changed": [1, 3, 4], "new/key": null, "secret": "s3cret"});
        let expected =
            ["- /changed/1: 2\n+ /changed/1: 3\n", "+ /changed/2: 4\n", "- /gone: true\n", "+ /new~1key: null\n"];
        assert_eq!(
            Differences::between(&before, &after),
            Differences { lines: expected.map(str::to_owned).into(), redacted: 1 }
        );
        assert_eq!(Differences::between(&json!(1), &json!("1")).lines, ["- data: 1\n+ data: \"1\"\n"]);
        assert_eq!(Differences::between(&before, &before), Differences::default());
    }

    #[test]
    fn around_a_mask_the_text_is_compared() {
        let hash = format!("session_{}", "0a".repeat(16));
        for (before, after, is_same) in [
            ("token=*** for bob", json!("token=abc for bob"), true),
            ("token=*** for bob", json!("completely different"), false),
            ("*** and *** end", json!("one and two end"), true),
            ("*** and *** end", json!("one or two end"), false),
            ("a***a", json!("a"), false),
            ("***", json!(5), true),
            ("***", json!([5]), false),
            ("n=***", json!(5), false),
            (&hash, json!("abc"), true),
            (&hash, json!(5), true),
        ] {
            assert_eq!(Differences::between(&json!(before), &after).lines.is_empty(), is_same, "{before} {after}");
        }
    }
}
