//! Converts between `google.protobuf.Struct` and JSON text.

use prost_types::{ListValue, Struct, Value, value::Kind};
use serde_json::{Number, Value as Json};

/// Up to 2^53, a double holds every integer exactly.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// A number that JSON cannot represent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the input contains a number that JSON cannot represent (NaN or Infinity)")]
pub(crate) struct NotFinite;

/// Writes a Struct as JSON text. A whole double becomes an integer: a Struct cannot tell 1 from 1.0, but schemas can.
pub(crate) fn to_json(fields: &Struct) -> Result<String, NotFinite> {
    object(fields).map(|object| object.to_string())
}

fn object(fields: &Struct) -> Result<Json, NotFinite> {
    fields.fields.iter().map(|(name, value)| Ok((name.clone(), to_value(value)?))).collect()
}

fn to_value(value: &Value) -> Result<Json, NotFinite> {
    Ok(match &value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(it)) => Json::Bool(*it),
        Some(Kind::StringValue(it)) => Json::String(it.clone()),
        Some(Kind::NumberValue(it)) if it.fract() == 0.0 && it.abs() <= MAX_EXACT_INTEGER => Json::from(*it as i64),
        Some(Kind::NumberValue(it)) => Json::Number(Number::from_f64(*it).ok_or(NotFinite)?),
        Some(Kind::StructValue(it)) => object(it)?,
        Some(Kind::ListValue(it)) => Json::Array(it.values.iter().map(to_value).collect::<Result<_, _>>()?),
    })
}

/// Reads JSON text into a Value. Integers above 2^53 lose digits: callers who need them exact send JSON text.
///
/// Fails on what a Value cannot hold: an unpaired surrogate, a number out of range.
pub(crate) fn from_json(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).map(from_value)
}

/// Reads the JSON text of an object into a Struct.
pub(crate) fn struct_from_json(text: &str) -> serde_json::Result<Struct> {
    Ok(match from_json(text)?.kind {
        Some(Kind::StructValue(fields)) => fields,
        _ => Struct::default(),
    })
}

fn from_value(value: Json) -> Value {
    let kind = match value {
        Json::Null => Kind::NullValue(0),
        Json::Bool(it) => Kind::BoolValue(it),
        Json::Number(it) => Kind::NumberValue(it.as_f64().unwrap_or_default()),
        Json::String(it) => Kind::StringValue(it),
        Json::Array(items) => Kind::ListValue(ListValue { values: items.into_iter().map(from_value).collect() }),
        Json::Object(fields) => {
            Kind::StructValue(Struct { fields: fields.into_iter().map(|(name, it)| (name, from_value(it))).collect() })
        }
    };
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
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
}
