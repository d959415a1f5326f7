//! Converts between `google.protobuf.Struct` and JSON text, without an intermediate tree.

use prost_types::{Struct, Value, value::Kind};
use serde::ser::{Error as _, Serialize, Serializer};

mod read;

pub(crate) use read::{NoValue, from_json, struct_from_json};

/// The integer up to which a double represents every integer exactly: 2^53.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

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
