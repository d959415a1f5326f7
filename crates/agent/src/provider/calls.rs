//! Calls: how their arguments are put together, and how they are written into a later request. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::model::Stop;
use super::wire::Fault;
use crate::message::ModelCall;

/// How many calls an answer may have.
const MAX_CALLS: usize = 256;

/// The longest id and name that every provider accepts.
const MAX_ID_BYTES: usize = 40;
const MAX_NAME_BYTES: usize = 64;

/// A call whose arguments are still arriving.
#[derive(Debug, Clone, Default)]
pub(super) struct Partial {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// What the provider wants back with it, packed.
    pub(super) opaque: String,
    pub(super) nesting: Nesting,
}

impl Partial {
    /// Appends a part of the arguments, as the model wrote it.
    pub(super) fn push(&mut self, part: &str) {
        self.nesting.take(part);
        self.arguments.push_str(part);
    }

    /// Replaces the arguments with their whole text.
    pub(super) fn set(&mut self, whole: &str) {
        self.arguments.clear();
        self.nesting = Nesting::default();
        self.push(whole);
    }

    /// Whether all brackets of the arguments are closed. They may still not be JSON.
    pub(super) fn is_closed(&self) -> bool {
        self.nesting.is_closed()
    }
}

/// Adds a call, within bounds.
pub(super) fn add<T>(calls: &mut Vec<T>, call: T) -> Result<&mut T, Fault> {
    if room(calls) == 0 {
        return Err(Fault::Malformed(format!("it has more than {MAX_CALLS} calls")));
    }
    calls.push(call);
    let last = calls.len() - 1;
    Ok(&mut calls[last])
}

/// How many more calls the answer may have.
pub(super) fn room<T>(calls: &[T]) -> usize {
    MAX_CALLS.saturating_sub(calls.len())
}

/// The calls of an answer. A last one that the limit of tokens cut off is left out.
pub(super) fn finished(mut partial: Vec<Partial>, stop: Stop) -> Vec<ModelCall> {
    if stop == Stop::Length {
        partial.pop_if(|last| !last.is_closed());
    }
    let call = |it: Partial| ModelCall { id: it.id, name: it.name, arguments: it.arguments, opaque: it.opaque };
    partial.into_iter().map(call).collect()
}

/// Arguments, or a part of them, as the provider wrote them, byte for byte: the text of a string, or an object that some
/// servers send in its place.
pub(super) fn arguments(json: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let json = json?.get();
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).ok().map(Cow::Owned),
        Some(b'n') => None,
        _ => Some(Cow::Borrowed(json)),
    }
}

/// Arguments for a later request, in which providers accept nothing but an object. Text that is none is wrapped, so that
/// the model sees what it wrote.
pub(super) fn as_object(arguments: &str) -> Box<RawValue> {
    let text = arguments.trim();
    let object = match text {
        "" => "{}".to_owned(),
        _ if text.starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok() => text.to_owned(),
        _ => format!("{{\"invalid_json\":{}}}", serde_json::Value::from(arguments)),
    };
    RawValue::from_string(object).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// An id that every provider accepts: the call's own, or a digest of it.
pub(super) fn wire_id(id: &str) -> Cow<'_, str> {
    if !id.is_empty() && id.len() <= MAX_ID_BYTES && id.bytes().all(is_plain) {
        return Cow::Borrowed(id);
    }
    // FNV-1a.
    let digest = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut text = "call_".to_owned();
    let _ = write!(text, "{digest:016x}");
    Cow::Owned(text)
}

/// A name that every provider accepts. Models also call tools that do not exist.
pub(super) fn wire_name(name: &str) -> Cow<'_, str> {
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let plain = |it: char| if it.is_ascii() && is_plain(it as u8) { it } else { '_' };
    let name: String = name.chars().take(MAX_NAME_BYTES).map(plain).collect();
    Cow::Owned(if name.is_empty() { "unnamed".to_owned() } else { name })
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Follows the brackets of JSON text that arrives in parts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Nesting {
    depth: usize,
    is_open_string: bool,
    is_escaped: bool,
    has_bracket: bool,
}

impl Nesting {
    fn take(&mut self, part: &str) {
        for byte in part.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_open_string => self.is_escaped = true,
                b'"' => self.is_open_string = !self.is_open_string,
                b'{' | b'[' if !self.is_open_string => {
                    self.depth += 1;
                    self.has_bracket = true;
                }
                b'}' | b']' if !self.is_open_string => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_closed(self) -> bool {
        self.has_bracket && self.depth == 0 && !self.is_open_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial(arguments: &str) -> Partial {
        let mut partial = Partial::default();
        arguments.chars().for_each(|it| partial.push(it.encode_utf8(&mut [0; 4])));
        partial
    }

    #[test]
    fn a_call_that_the_limit_cut_off_is_left_out_and_only_the_last_one() {
        for cut in ["", "{", r#"{"a": "}"#, r#"{"a": "\"}"#, r#"{"a": [1, 2"#] {
            let calls = || vec![partial(cut), partial("{}"), partial(cut)];
            assert_eq!(finished(calls(), Stop::Length).len(), 2, "{cut}");
            assert_eq!(finished(calls(), Stop::Done).len(), 3, "{cut}");
        }
        for whole in ["{}", "[1, 2,]", r#"{"a": "\\"}"#, r#"{"a": "{"}"#] {
            assert_eq!(finished(vec![partial(whole)], Stop::Length)[0].arguments, whole);
        }
    }

    #[test]
    fn arguments_keep_every_byte() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let text = |json: &str| arguments(Some(&raw(json))).map(Cow::into_owned);
        assert_eq!(text(r#""{\"n\": 12345678901234567890123}""#).unwrap(), r#"{"n": 12345678901234567890123}"#);
        assert_eq!(text(r#"{"n" : 12345678901234567890123}"#).unwrap(), r#"{"n" : 12345678901234567890123}"#);
        assert_eq!(text(r#""[1, 2,]""#).unwrap(), "[1, 2,]");
        assert_eq!((text("null"), arguments(None)), (None, None));
    }

    #[test]
    fn arguments_go_back_as_an_object() {
        for (written, sent) in [
            ("", "{}"),
            (" \n", "{}"),
            (r#" {"n": 12345678901234567890123, "n": 1.50} "#, r#"{"n": 12345678901234567890123, "n": 1.50}"#),
            ("[1, 2,]", r#"{"invalid_json":"[1, 2,]"}"#),
            (r#"{"a": "#, r#"{"invalid_json":"{\"a\": "}"#),
            ("null", r#"{"invalid_json":"null"}"#),
        ] {
            assert_eq!(as_object(written).get(), sent);
        }
    }

    #[test]
    fn ids_and_names_are_what_every_provider_accepts() {
        assert_eq!(wire_id("toolu_01-A"), "toolu_01-A");
        let long = "x".repeat(41);
        let odd = ["", "functions.get:0", "functions.get:1", &long, "é"].map(wire_id);
        assert!(odd.iter().all(|it| it.len() <= MAX_ID_BYTES && it.bytes().all(is_plain)), "{odd:?}");
        assert!((1..odd.len()).all(|n| !odd[..n].contains(&odd[n])), "different ids stay different: {odd:?}");
        assert_eq!((wire_name("read_file"), wire_name("a.b é"), wire_name("")).1, "a_b__");
        assert_eq!(wire_name(""), "unnamed");
        assert_eq!(wire_name(&"n".repeat(100)).len(), MAX_NAME_BYTES);
    }
}
