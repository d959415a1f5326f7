//! Parses JSON one level at a time and keeps the raw text of each value, so that numbers keep all their digits.

use std::borrow::Cow;

use openskill_proto::json::RawFields;
use serde_json::value::RawValue;

/// A JSON value whose nested values are not parsed.
pub(super) enum RawJson<'a> {
    /// The raw elements, in order.
    Array(Vec<&'a RawValue>),
    /// The fields in order.
    Object(Vec<(Cow<'a, str>, &'a RawValue)>),
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
            b'{' => serde_json::from_str::<RawFields<'a>>(json).ok().map(|it| Self::Object(it.0)),
            b'"' => serde_json::from_str(json).ok().map(Self::String),
            _ => serde_json::from_str::<&RawValue>(json).ok().map(|_| Self::Other),
        }
    }
}

/// Encodes a string as JSON.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
