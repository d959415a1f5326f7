//! Between `google.protobuf.Struct` and JSON.

use prost_types::{ListValue, Struct, Value, value::Kind};
use serde_json::{Number, Value as Json};

/// Doubles hold every whole number up to here.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A number that JSON has no word for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the input holds a number that JSON can't express (NaN or infinity)")]
pub(crate) struct NotFinite;

/// JSON text of a Struct. A whole double becomes an integer, since a Struct can't tell 1 from 1.0 and schemas can.
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
        Some(Kind::NumberValue(it)) if it.fract() == 0.0 && it.abs() <= MAX_EXACT => Json::from(*it as i64),
        Some(Kind::NumberValue(it)) => Json::Number(Number::from_f64(*it).ok_or(NotFinite)?),
        Some(Kind::StructValue(it)) => object(it)?,
        Some(Kind::ListValue(it)) => Json::Array(it.values.iter().map(to_value).collect::<Result<_, _>>()?),
    })
}

/// A Value of JSON text. Integers above 2^53 lose digits: callers who need them use JSON text.
///
/// Fails where text may say more than a Value can: half a surrogate pair, a number out of range.
pub(crate) fn from_json(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).map(from_value)
}

/// A Struct of the JSON text of an object.
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
    fn json_reads_back_as_it_was_but_for_the_order_of_keys() {
        let text = r#"{"a":[1,2.5,null,true,"x"],"b":{"c":-3}}"#;
        assert_eq!(to_json(&struct_from_json(text).unwrap()).unwrap(), text);
    }

    #[test]
    fn a_whole_double_becomes_an_integer_while_it_is_exact() {
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
