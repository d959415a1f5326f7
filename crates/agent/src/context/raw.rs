//! JSON text, looked at without changing a byte of what is kept: integers keep all their digits.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON value, one level deep.
pub(super) enum Raw<'a> {
    /// Elements.
    Array(Vec<&'a RawValue>),
    /// Fields, in order.
    Object(Vec<(String, &'a RawValue)>),
    /// A string, decoded.
    String(String),
    /// A number, `true`, `false` or `null`.
    Other,
}

impl<'a> Raw<'a> {
    /// The value that a JSON text is. None if it is no JSON.
    pub(super) fn of(json: &'a str) -> Option<Self> {
        let json = json.trim_ascii();
        match json.as_bytes().first()? {
            b'[' => serde_json::from_str(json).ok().map(Self::Array),
            b'{' => serde_json::from_str::<Fields<'a>>(json).ok().map(|it| Self::Object(it.0)),
            b'"' => serde_json::from_str(json).ok().map(Self::String),
            _ => serde_json::from_str::<&RawValue>(json).ok().map(|_| Self::Other),
        }
    }
}

/// The part of a JSON text that a pointer (RFC 6901) names.
pub(super) fn at<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
    if pointer.is_empty() {
        return Some(json);
    }
    let (mut value, rest) = (json, pointer.strip_prefix('/')?);
    for token in rest.split('/') {
        let token = token.replace("~1", "/").replace("~0", "~");
        value = match Raw::of(value)? {
            Raw::Array(elements) => elements.get(token.parse::<usize>().ok()?)?.get(),
            // As for readers of JSON, the last one of equal keys counts.
            Raw::Object(fields) => fields.into_iter().rev().find(|(name, _)| *name == token)?.1.get(),
            Raw::String(_) | Raw::Other => return None,
        };
    }
    Some(value)
}

/// A string as JSON text.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            fields.push((name, value));
        }
        Ok(Fields(fields))
    }
}
