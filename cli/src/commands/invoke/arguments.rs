//! Builds a call's arguments from `key=value` pairs.

use std::collections::BTreeMap;

use openskill_proto::v1::GetSkillRequest;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use serde_json::Value;
use serde_json::value::RawValue;
use tonic::Code;

use crate::args::CallArgs;
use crate::channel::Channel;
use crate::commands::client;
use crate::exit::Failure;
use crate::settings::Settings;

/// Builds the arguments from `key=value` pairs, typed by the skill's schema.
pub(super) async fn arguments(
    args: &CallArgs,
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
        Err(status) => return Err(client::into_failure(settings)(status)),
    };
    object(&args.arguments, &schema)
}

/// Converts `key=value` pairs to a JSON object.
pub(in crate::commands) fn object(pairs: &[String], schema: &Value) -> Result<String, Failure> {
    let mut object = BTreeMap::new();
    for pair in pairs {
        let (key, value) = argument(pair, schema)?;
        if object.insert(key, value).is_some() {
            return Err(Failure::Usage(format!("argument '{key}' is given twice")));
        }
    }
    serde_json::to_string(&object).map_err(|error| Failure::Usage(error.to_string()))
}

/// Parses `key=value`, whose value gets the type that the schema declares, or `key:=json`. Returns the value as JSON text, so
/// that numbers keep their digits.
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
