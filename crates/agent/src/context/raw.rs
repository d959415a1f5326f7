//! Parses JSON one level at a time and keeps the raw text of each value, so that numbers keep all their digits.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON value whose nested values are not parsed.
pub(super) enum RawJson<'a> {
    /// The raw elements, in order.
    Array(Vec<&'a RawValue>),
    /// The fields in order.
    Object(Vec<(String, &'a RawValue)>),
    /// A decoded string.
    String(String),
    /// A number, `true`, `false` or `null`.
    Other,
}

impl<'a> RawJson<'a> {
    /// Parses JSON text. Returns `None` if it is invalid.
    pub(super) fn parse(json: &'a str) -> Option<Self> {
        let json = json.trim_ascii();
        match json.as_bytes().first()? {
            b'[' => serde_json::from_str(json).ok().map(Self::Array),
            b'{' => serde_json::from_str::<RawObject<'a>>(json).ok().map(|it| Self::Object(it.0)),
            b'"' => serde_json::from_str(json).ok().map(Self::String),
            _ => serde_json::from_str::<&RawValue>(json).ok().map(|_| Self::Other),
        }
    }
}

/// Returns the raw text of the value that a JSON Pointer (RFC 6901) refers to.
pub(super) fn at<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
    if pointer.is_empty() {
        return Some(json);
    }
    let (mut value, rest) = (json, pointer.strip_prefix('/')?);
    for token in rest.split('/') {
        let token = token.replace("~1", "/").replace("~0", "~");
        value = match RawJson::parse(value)? {
            RawJson::Array(elements) => elements.get(token.parse::<usize>().ok()?)?.get(),
            // The last of several duplicate keys counts, as in other JSON parsers.
            RawJson::Object(fields) => fields.into_iter().rev().find(|(name, _)| *name == token)?.1.get(),
            RawJson::String(_) | RawJson::Other => return None,
        };
    }
    Some(value)
}

/// Encodes a string as JSON.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The fields of a JSON object in their order, with values that are not parsed.
struct RawObject<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = RawObject<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            fields.push((name, value));
        }
        Ok(RawObject(fields))
    }
}
