//! Reads strict JSON (RFC 8259). Rejects duplicate keys, whose meaning is ambiguous.

use std::cell::{Cell, RefCell};
use std::fmt;

use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_JSON_VALUES};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::errors::{StrictError, duplicate_key, too_deep, too_many_values};

/// Why reading stopped, although the text so far is valid.
#[derive(Debug, thiserror::Error)]
pub(in crate::arguments) enum Stop {
    #[error("it is nested too deeply")]
    TooDeep,
    #[error("it has too many values")]
    TooMany,
    #[error("an object has a key twice")]
    RepeatedKey(String),
}

/// Reads strict JSON, as [`read`] does.
///
/// # Errors
/// The reason, and whether [`object`](super::object) may be able to read the text.
pub(in crate::arguments) fn strict(text: &str) -> Result<Value, StrictError> {
    read(text).map_err(|(error, stop)| match stop {
        Some(Stop::TooDeep) => StrictError::Fatal(too_deep()),
        Some(Stop::TooMany) => StrictError::Fatal(too_many_values()),
        Some(Stop::RepeatedKey(key)) => StrictError::Fatal(duplicate_key(&key)),
        None => StrictError::Syntax(format!("invalid JSON: {error}")),
    })
}

/// Reads strict JSON: valid, without duplicate keys, at most [`MAX_JSON_DEPTH`] deep, with at most
/// [`MAX_JSON_VALUES`] values.
///
/// # Errors
/// What is wrong and where, and why reading stopped if the text so far is valid.
pub(in crate::arguments) fn read(text: &str) -> Result<Value, (serde_json::Error, Option<Stop>)> {
    let (left, stop) = (Cell::new(MAX_JSON_VALUES), RefCell::new(None));
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Reader { depth: 0, left: &left, stop: &stop }
        .deserialize(&mut json)
        .and_then(|value| json.end().map(|()| value));
    value.map_err(|error| (error, stop.take()))
}

/// Builds a value. Tracks its depth, and counts its values.
#[derive(Clone, Copy)]
struct Reader<'a> {
    depth: usize,
    /// The number of values that the reader may still create.
    left: &'a Cell<usize>,
    stop: &'a RefCell<Option<Stop>>,
}

impl Reader<'_> {
    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth < MAX_JSON_DEPTH {
            return Ok(Self { depth: self.depth + 1, ..self });
        }
        self.stop(Stop::TooDeep)
    }

    fn stop<T, E: serde::de::Error>(self, stop: Stop) -> Result<T, E> {
        let error = E::custom(&stop);
        *self.stop.borrow_mut() = Some(stop);
        Err(error)
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => return self.stop(Stop::TooMany),
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(Value::Bool(it))
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            match object.entry(key) {
                serde_json::map::Entry::Occupied(existing) => {
                    return self.stop(Stop::RepeatedKey(existing.key().clone()));
                }
                serde_json::map::Entry::Vacant(entry) => {
                    entry.insert(fields.next_value_seed(inner)?);
                }
            }
        }
        Ok(Value::Object(object))
    }
}
