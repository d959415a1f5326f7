//! Converts JSON text to a `google.protobuf.Value`. Rejects text that a standard client could not read.
//!
//! Standard protobuf clients read messages that nest up to [`MAX_MESSAGE_DEPTH`] deep. An array is two messages,
//! `Value` and `ListValue`; an object is three: `Value`, `Struct` and the entry of its map.

use std::cell::Cell;
use std::fmt;

use openskill_proto::limits::{MAX_JSON_VALUES, MAX_MESSAGE_DEPTH};
use prost_types::{ListValue, Struct, Value, value::Kind};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

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

/// Converts JSON text to a Value. Integers above 2^53 lose digits, so callers that need them exactly send JSON
/// text.
pub(crate) fn from_json(text: &str) -> Result<Value, NoValue> {
    let (left, stop) = (Cell::new(MAX_JSON_VALUES), Cell::new(None));
    let mut json = serde_json::Deserializer::from_str(text);
    let reader = Reader { depth: MAX_DEPTH, left: &left, stop: &stop };
    let value = reader.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    value.map_err(|error| stop.take().unwrap_or(NoValue::NotJson(error)))
}

/// Converts the JSON text of an object to a Struct.
pub(crate) fn struct_from_json(text: &str) -> Result<Struct, NoValue> {
    Ok(match from_json(text)?.kind {
        Some(Kind::StructValue(fields)) => fields,
        _ => Struct::default(),
    })
}

/// Reads one value.
#[derive(Clone, Copy)]
struct Reader<'a> {
    /// The maximum depth of the value's messages, including the value.
    depth: usize,
    /// The number of values that the reader may still create.
    left: &'a Cell<usize>,
    /// Why reading stopped, if not for a JSON error.
    stop: &'a Cell<Option<NoValue>>,
}

impl Reader<'_> {
    /// Returns the reader for a value that is nested `messages` deeper.
    fn within(self, messages: usize) -> Self {
        Self { depth: self.depth.saturating_sub(messages), ..self }
    }

    fn fail<T, E: Error>(self, reason: NoValue) -> Result<T, E> {
        self.stop.set(Some(reason));
        Err(E::custom("stopped"))
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth == 0 {
            return self.fail(NoValue::TooDeep);
        }
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => return self.fail(NoValue::TooMany),
        }
        deserializer.deserialize_any(self)
    }
}

fn value<E>(kind: Kind) -> Result<Value, E> {
    Ok(Value { kind: Some(kind) })
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        value(Kind::NullValue(0))
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        value(Kind::BoolValue(it))
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        value(Kind::NumberValue(it as f64))
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        value(Kind::NumberValue(it as f64))
    }

    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        value(Kind::NumberValue(it))
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        value(Kind::StringValue(it.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        if self.depth < 2 {
            return self.fail(NoValue::TooDeep);
        }
        let mut values = Vec::new();
        while let Some(item) = items.next_element_seed(self.within(2))? {
            values.push(item);
        }
        value(Kind::ListValue(ListValue { values }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        if self.depth < 2 {
            return self.fail(NoValue::TooDeep);
        }
        let mut object = Struct::default();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self.within(3))?;
            if object.fields.insert(key, value).is_some() {
                return Err(A::Error::custom("an object has a key twice"));
            }
        }
        value(Kind::StructValue(object))
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::invoke_event::Event;
    use openskill_proto::v1::skill_result::Output;
    use openskill_proto::v1::{InvokeEvent, SkillResult};
    use prost::Message as _;

    use super::*;

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
