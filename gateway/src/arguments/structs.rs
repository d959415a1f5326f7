//! Converts between `google.protobuf.Struct` and JSON text. Rejects text that a standard client could not read.
//!
//! Standard protobuf clients read messages that nest up to [`MAX_MESSAGE_DEPTH`] deep. An array is two messages,
//! `Value` and `ListValue`; an object is three: `Value`, `Struct` and the entry of its map.

use openskill_proto::limits::{MAX_JSON_VALUES, MAX_MESSAGE_DEPTH};
use prost_types::{ListValue, Struct, Value, value::Kind};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::Value as JsonValue;

use super::parse::{self, Stop};

/// The integer up to which a double represents every integer exactly: 2^53.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// The maximum depth of a value's messages, including the value. The result and the event around it use the rest.
const MAX_DEPTH: usize = MAX_MESSAGE_DEPTH - 1;

/// The maximum depth of objects around a scalar, and of arrays.
const MAX_OBJECTS: usize = (MAX_DEPTH - 1) / 3;
const MAX_ARRAYS: usize = (MAX_DEPTH - 1) / 2;

/// Why JSON text can't be sent as a Value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoValue {
    /// It is nested more deeply than standard clients can read.
    #[error(
        "it is nested too deeply: protobuf clients read {MAX_OBJECTS} objects or {MAX_ARRAYS} arrays within each \
         other; the skill should return flatter data, or the inner part as JSON text in a string"
    )]
    TooDeep,
    /// It would take too much memory.
    #[error("it has more than {MAX_JSON_VALUES} values")]
    TooMany,
    /// It contains something that a Value can't represent: an unpaired surrogate, a number out of range, a repeated
    /// key.
    #[error("{0}")]
    NotJson(serde_json::Error),
}

/// A number is infinite or NaN, which JSON can't represent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the input contains a number that JSON cannot represent (NaN or Infinity)")]
pub(crate) struct NotFinite;

/// Converts a Struct to JSON text. A whole double becomes an integer: unlike schemas, a Struct does not distinguish
/// 1 from 1.0.
pub(crate) fn to_json(fields: &Struct) -> Result<String, NotFinite> {
    // Nothing else can fail: keys are strings, and the output is in memory.
    serde_json::to_string(&Object(fields)).map_err(|_| NotFinite)
}

struct Object<'a>(&'a Struct);

struct Json<'a>(&'a Value);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.fields.iter().map(|(name, value)| (name, Json(value))))
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.kind {
            None | Some(Kind::NullValue(_)) => serializer.serialize_unit(),
            Some(Kind::BoolValue(it)) => serializer.serialize_bool(*it),
            Some(Kind::StringValue(it)) => serializer.serialize_str(it),
            Some(Kind::NumberValue(it)) if it.fract() == 0.0 && it.abs() <= MAX_EXACT_INTEGER => {
                serializer.serialize_i64(*it as i64)
            }
            Some(Kind::NumberValue(it)) if it.is_finite() => serializer.serialize_f64(*it),
            Some(Kind::NumberValue(_)) => Err(S::Error::custom(NotFinite)),
            Some(Kind::StructValue(it)) => Object(it).serialize(serializer),
            Some(Kind::ListValue(it)) => serializer.collect_seq(it.values.iter().map(Json)),
        }
    }
}

/// Converts JSON text to a Value. Integers above 2^53 lose digits, so callers that need them exactly send JSON
/// text.
pub(crate) fn from_json(text: &str) -> Result<Value, NoValue> {
    let json = parse::read(text).map_err(|(error, stop)| match stop {
        Some(Stop::TooDeep) => NoValue::TooDeep,
        Some(Stop::TooMany) => NoValue::TooMany,
        Some(Stop::RepeatedKey(_)) | None => NoValue::NotJson(error),
    })?;
    convert(json, MAX_DEPTH)
}

/// Converts the JSON text of an object to a Struct.
pub(crate) fn struct_from_json(text: &str) -> Result<Struct, NoValue> {
    Ok(match from_json(text)?.kind {
        Some(Kind::StructValue(fields)) => fields,
        _ => Struct::default(),
    })
}

/// Converts a value. `depth` is the maximum depth of its messages, including the value.
fn convert(json: JsonValue, depth: usize) -> Result<Value, NoValue> {
    let least = if json.is_array() || json.is_object() { 2 } else { 1 };
    if depth < least {
        return Err(NoValue::TooDeep);
    }
    let kind = match json {
        JsonValue::Null => Kind::NullValue(0),
        JsonValue::Bool(it) => Kind::BoolValue(it),
        JsonValue::Number(it) => Kind::NumberValue(it.as_f64().unwrap_or_default()),
        JsonValue::String(it) => Kind::StringValue(it),
        JsonValue::Array(items) => {
            let values = items.into_iter().map(|it| convert(it, depth.saturating_sub(2)));
            Kind::ListValue(ListValue { values: values.collect::<Result<_, _>>()? })
        }
        JsonValue::Object(fields) => {
            let fields = fields.into_iter().map(|(key, it)| convert(it, depth.saturating_sub(3)).map(|it| (key, it)));
            Kind::StructValue(Struct { fields: fields.collect::<Result<_, _>>()? })
        }
    };
    Ok(Value { kind: Some(kind) })
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::invoke_event::Event;
    use openskill_proto::v1::skill_result::Output;
    use openskill_proto::v1::{InvokeEvent, SkillResult};
    use prost::Message as _;

    use super::*;

    #[test]
    fn json_round_trips_except_for_the_order_of_keys() {
        let text = r#"{"a":[1,2.5,null,true,"x"],"b":{"c":-3}}"#;
        assert_eq!(to_json(&struct_from_json(text).unwrap()).unwrap(), text);
    }

    #[test]
    fn a_whole_double_becomes_an_integer_if_it_is_exact() {
        let number = |number| {
            let value = Value { kind: Some(Kind::NumberValue(number)) };
            to_json(&Struct { fields: [("n".to_owned(), value)].into() })
        };
        assert_eq!(number(20.0).unwrap(), r#"{"n":20}"#);
        assert_eq!(number(-0.0).unwrap(), r#"{"n":0}"#);
        assert_eq!(number(1e300).unwrap(), r#"{"n":1e+300}"#);
        assert_eq!(number(f64::NAN), Err(NotFinite));
        assert_eq!(number(f64::INFINITY), Err(NotFinite));
    }

    /// Decodes a value like a client with the standard depth limit.
    fn as_client(value: Value) -> Result<InvokeEvent, prost::DecodeError> {
        let result = SkillResult { output: Some(Output::Data(value)), ..SkillResult::default() };
        let event = InvokeEvent { event: Some(Event::Result(result)), ..InvokeEvent::default() };
        InvokeEvent::decode(&*event.encode_to_vec())
    }

    fn nested(open: &str, close: &str, levels: usize, inner: &str) -> String {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    }

    #[test]
    fn a_standard_client_reads_what_is_converted_however_deep_it_nests() {
        for (open, close, most) in [("[", "]", MAX_ARRAYS), ("{\"a\":", "}", MAX_OBJECTS), ("[{\"a\":", "}]", 19)] {
            for inner in ["1", "[]", "{}", "[1]"] {
                let deepest = (1..=60).take_while(|levels| from_json(&nested(open, close, *levels, inner)).is_ok());
                let deepest = deepest.last().unwrap();
                assert!((most - 2..=most).contains(&deepest), "{open}{inner}: {deepest}");
                let value = from_json(&nested(open, close, deepest, inner)).unwrap();
                assert!(as_client(value).is_ok(), "{open}{inner}");
                let beyond = from_json(&nested(open, close, deepest + 1, inner));
                assert!(matches!(beyond, Err(NoValue::TooDeep)), "{open}{inner}: {beyond:?}");
            }
        }
    }

    #[test]
    fn the_bound_is_not_lower_than_it_has_to_be() {
        let deepest = from_json(&nested("[", "]", MAX_ARRAYS, "1")).unwrap();
        let deeper = Value { kind: Some(Kind::ListValue(ListValue { values: vec![deepest] })) };
        assert!(as_client(deeper).is_err(), "a standard client reads one more level");
    }

    #[test]
    fn too_many_values_and_repeated_keys_are_refused() {
        let list = |values: usize| format!("[{}]", vec!["1"; values - 1].join(","));
        assert!(from_json(&list(MAX_JSON_VALUES)).is_ok());
        assert!(matches!(from_json(&list(MAX_JSON_VALUES + 1)), Err(NoValue::TooMany)));
        for text in [r#"{"a":1,"a":2}"#, r#""\ud800""#, "1e999", "[1", "1 2"] {
            assert!(matches!(from_json(text), Err(NoValue::NotJson(_))), "{text}");
        }
    }
}
