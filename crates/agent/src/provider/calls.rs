//! Calls: one that is still arriving, and how they are written into a later request. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;
use serde_json::value::RawValue;

use super::json::Json;
use super::pieces::{Joined, Piece};
use super::wire::Fault;
use crate::message::ModelCall;

/// How many calls an answer may have.
const MAX_CALLS: usize = 256;

/// How often a call's arguments may be given at once: before their parts, and by three events after them.
const MAX_GIVEN: u8 = 16;

/// The longest id and name that every provider accepts.
const MAX_ID_BYTES: usize = 40;
const MAX_NAME_BYTES: usize = 64;

/// A call that is still arriving.
#[derive(Debug, Clone, Default)]
pub(super) struct Partial {
    pub(super) id: String,
    pub(super) name: String,
    /// What the provider wants back with it, packed.
    pub(super) opaque: String,
    /// The arguments, as far as their parts came.
    pub(super) joined: Joined,
    pub(super) nesting: Nesting,
    /// The arguments as the provider gave them at once, before their parts or after them. Empty if it did not.
    pub(super) whole: String,
    pub(super) whole_nesting: Nesting,
    /// How often they were given.
    pub(super) given: u8,
}

impl Partial {
    /// Appends a part of the arguments, as the model wrote it.
    pub(super) fn push(&mut self, part: &str) {
        self.nesting.take(self.joined.push(&Piece::from(part)));
    }

    /// Takes a part of the arguments, or all of them: some servers send an object in place of its text.
    pub(super) fn take(&mut self, arguments: Json<'_>) -> Result<(), Fault> {
        if !arguments.is_text() {
            return self.set(arguments.raw().get());
        }
        let had_ended = self.nesting.is_closed();
        let added = self.joined.push(&arguments.text()?);
        self.nesting.take(added);
        if had_ended && added.trim_start().starts_with('{') {
            return Err(Fault::Malformed("a call has two objects of arguments".to_owned()));
        }
        Ok(())
    }

    /// Takes the arguments as a whole.
    pub(super) fn set(&mut self, whole: &str) -> Result<(), Fault> {
        self.given += 1;
        if self.given > MAX_GIVEN {
            return Err(Fault::Malformed("a call's arguments are repeated without end".to_owned()));
        }
        self.whole = one_of(&self.whole, whole)?.to_owned();
        self.whole_nesting = Nesting::default();
        if !is_nothing(&self.whole) {
            self.whole_nesting.take(&self.whole);
        }
        Ok(())
    }

    /// Takes a name, or a part of it. Some servers repeat the whole one.
    pub(super) fn add_name(&mut self, name: &str) -> Result<(), Fault> {
        if name.is_empty() || name == self.name {
            return Ok(());
        }
        if !self.name.is_empty() && !self.is_blank() {
            return Err(Fault::Malformed("a call has two names".to_owned()));
        }
        self.name.push_str(name);
        Ok(())
    }

    /// Whether no arguments came.
    pub(super) fn is_blank(&self) -> bool {
        self.whole.is_empty() && !self.nesting.has_text
    }

    /// Whether the provider gave the arguments at once.
    pub(super) fn is_given(&self) -> bool {
        !self.whole.is_empty()
    }

    /// Whether all brackets of the arguments are closed. They may still not be JSON. An empty object that came at once may
    /// stand for arguments that are still to come.
    pub(super) fn is_closed(&self) -> bool {
        self.nesting.is_closed() || self.whole_nesting.is_closed()
    }

    /// Whether these are its arguments, as they came so far.
    pub(super) fn reads(&self, arguments: &str) -> bool {
        self.joined.as_str() == arguments || self.whole == arguments
    }

    /// The call.
    ///
    /// # Errors
    /// It has no name, or its arguments are not whole.
    pub(super) fn finish(self) -> Result<ModelCall, Fault> {
        if self.name.is_empty() {
            return Err(Fault::Malformed("a call has no name".to_owned()));
        }
        let is_whole = self.joined.is_whole();
        let joined = self.joined.into_text();
        let arguments = match one_of(&joined, &self.whole)? {
            it if !is_whole && it == joined => {
                return Err(Fault::Malformed("the arguments of a call have half a character".to_owned()));
            }
            it => it.to_owned(),
        };
        Ok(ModelCall { id: self.id, name: self.name, arguments, opaque: self.opaque })
    }
}

/// What the arguments are, of two versions of them: a provider sends them in parts, and before or after that at once. What
/// came first is what the model wrote, byte for byte.
fn one_of<'a>(first: &'a str, second: &'a str) -> Result<&'a str, Fault> {
    if is_nothing(second) && !first.trim().is_empty() {
        return Ok(first);
    }
    if is_nothing(first) || first == second {
        return Ok(second);
    }
    let value = |text: &str| serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
    match (value(first), value(second)) {
        (Some(it), Some(other)) if it == other => Ok(first),
        (None, Some(_)) => Ok(second),
        // One of them was cut.
        (_, None) if first.starts_with(second) => Ok(first),
        (None, None) if second.starts_with(first) => Ok(second),
        _ => Err(Fault::Malformed("a call has two versions of its arguments".to_owned())),
    }
}

/// Whether arguments say nothing: servers also send an empty object where the arguments are still to come.
fn is_nothing(arguments: &str) -> bool {
    let rest = arguments.trim_start();
    let inner = rest.strip_prefix('{').map(str::trim).and_then(|it| it.strip_suffix('}'));
    rest.is_empty() || inner.is_some_and(|it| it.trim().is_empty())
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

/// Arguments, or a part of them, as the provider wrote them, byte for byte: the text of a string, or an object that some
/// servers send in its place.
pub(super) fn arguments(json: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let json = json?.get();
    match json.as_bytes().first() {
        // Text with half a character stays JSON, which is refused where it would run.
        Some(b'"') => Some(serde_json::from_str(json).map_or(Cow::Borrowed(json), Cow::Owned)),
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
    has_text: bool,
}

impl Nesting {
    fn take(&mut self, part: &str) {
        for byte in part.bytes() {
            self.has_text |= !byte.is_ascii_whitespace();
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
        let mut partial = Partial { name: "n".to_owned(), ..Partial::default() };
        arguments.chars().for_each(|it| partial.push(it.encode_utf8(&mut [0; 4])));
        partial
    }

    #[test]
    fn arguments_are_closed_with_their_last_bracket() {
        for open in ["", "{", r#"{"a": "}"#, r#"{"a": "\"}"#, r#"{"a": [1, 2"#] {
            assert!(!partial(open).is_closed(), "{open}");
        }
        for whole in ["{}", "[1, 2,]", r#"{"a": "\\"}"#, r#"{"a": "{"}"#] {
            assert!(partial(whole).is_closed(), "{whole}");
            assert_eq!(partial(whole).finish().unwrap().arguments, whole);
        }
    }

    #[test]
    fn of_two_versions_the_one_that_says_something_counts_and_two_that_differ_are_none() {
        let finished = |parts: &str, wholes: &[&str]| -> Result<String, Fault> {
            let mut partial = partial(parts);
            wholes.iter().try_for_each(|it| partial.set(it))?;
            partial.finish().map(|it| it.arguments)
        };
        let big = r#"{"n": 12345678901234567890123}"#;
        for (parts, wholes, arguments) in [
            ("", &["{}"][..], "{}"),
            ("", &["{}", r#"{"n": 1}"#], r#"{"n": 1}"#),
            ("", &[r#"{"n": 1}"#, "{ }"], r#"{"n": 1}"#),
            (big, &[""], big),
            (big, &["{}"], big),
            (big, &[r#"{"n":12345678901234567890123}"#], big),
            ("{}", &[big], big),
            (r#"{"n": "#, &[big], big),
            (big, &[r#"{"n": "#], big),
            ("[1, 2,]", &["[1, 2,]"], "[1, 2,]"),
            ("", &[""], ""),
        ] {
            assert_eq!(finished(parts, wholes).as_deref(), Ok(arguments), "{parts} {wholes:?}");
        }
        for (parts, wholes) in
            [(r#"{"n": 1}"#, &[r#"{"n": 2}"#][..]), ("", &[r#"{"n": 1}"#, r#"{"m": 1}"#]), (r#"{"n": 1,}"#, &["[2,]"])]
        {
            assert!(finished(parts, wholes).is_err(), "{parts} {wholes:?}");
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
