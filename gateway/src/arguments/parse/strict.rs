//! Reads strict JSON (RFC 8259). Rejects duplicate keys, whose meaning is ambiguous.

use std::cell::{Cell, RefCell};
use std::fmt;

use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_JSON_VALUES};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::errors::{StrictError, duplicate_key, too_deep, too_many_values};

/// Reads strict JSON: valid, without duplicate keys, at most [`MAX_JSON_DEPTH`] deep, with at most
/// [`MAX_JSON_VALUES`] values.
///
/// # Errors
/// The reason, and whether [`object`](super::object) may be able to read the text.
pub(in crate::arguments) fn strict(text: &str) -> Result<Value, StrictError> {
    let (left, fatal) = (Cell::new(MAX_JSON_VALUES), RefCell::new(None));
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Reader { depth: 0, left: &left, fatal: &fatal }
        .deserialize(&mut json)
        .and_then(|value| json.end().map(|()| value));
    value.map_err(|error| match fatal.take() {
        Some(reason) => StrictError::Fatal(reason),
        None => StrictError::Syntax(format!("invalid JSON: {error}")),
    })
}

/// Builds a value. Tracks its depth, and counts its values.
#[derive(Clone, Copy)]
struct Reader<'a> {
    depth: usize,
    /// The number of values that the reader may still create.
    left: &'a Cell<usize>,
    /// Why reading stopped, if not for a syntax error.
    fatal: &'a RefCell<Option<String>>,
}

impl Reader<'_> {
    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth < MAX_JSON_DEPTH {
            return Ok(Self { depth: self.depth + 1, ..self });
        }
        self.stop(too_deep())
    }

    fn stop<T, E: serde::de::Error>(self, reason: String) -> Result<T, E> {
        *self.fatal.borrow_mut() = Some(reason);
        Err(E::custom("stopped"))
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => return self.stop(too_many_values()),
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
                serde_json::map::Entry::Occupied(existing) => return self.stop(duplicate_key(existing.key())),
                serde_json::map::Entry::Vacant(entry) => {
                    entry.insert(fields.next_value_seed(inner)?);
                }
            }
        }
        Ok(Value::Object(object))
    }
}
