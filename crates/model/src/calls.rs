//! Assembles calls while they arrive, and converts them for later requests. Does no I/O.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::Json;
use crate::message::ModelCall;
use crate::pieces::{JoinedText, Piece};
use crate::wire::WireError;

/// The maximum number of calls in an answer.
pub(crate) const MAX_CALLS: usize = 256;

/// The maximum number of times that a call's complete arguments may arrive. Providers repeat them up to four
/// times, and each repetition is compared.
const MAX_GIVEN: u8 = 16;

/// The maximum length of an id or a name that every provider accepts, in bytes.
const MAX_ID_BYTES: usize = 40;
const MAX_NAME_BYTES: usize = 64;

/// A call that is still arriving.
#[derive(Debug, Clone, Default)]
pub(crate) struct Partial {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Packed data that must be returned to the provider with the call.
    pub(crate) opaque: String,
    /// The arguments, joined from deltas.
    pub(crate) joined: JoinedText,
    pub(crate) nesting: Nesting,
    /// The complete arguments, which some providers send before or after the deltas. Empty if not sent.
    pub(crate) whole: String,
    pub(crate) whole_nesting: Nesting,
    /// How many times the complete arguments arrived.
    pub(crate) given: u8,
}

impl Partial {
    /// Appends a delta to the arguments.
    pub(crate) fn push(&mut self, part: &str) {
        self.nesting.take(self.joined.push(&Piece::from(part)));
    }

    /// Appends a delta to the arguments. If a server sends a JSON object instead of text, it is used as the
    /// complete arguments.
    pub(crate) fn take(&mut self, arguments: Json<'_>) -> Result<(), WireError> {
        if !arguments.is_text() {
            return self.set(arguments.raw().get());
        }
        let had_ended = self.nesting.is_closed();
        let added = self.joined.push(&arguments.text()?);
        self.nesting.take(added);
        if had_ended && added.trim_start().starts_with('{') {
            return Err(WireError::Malformed("a call has two objects of arguments".to_owned()));
        }
        Ok(())
    }

    /// Sets the complete arguments. Rejects arguments that contradict earlier ones.
    pub(crate) fn set(&mut self, whole: &str) -> Result<(), WireError> {
        self.given += 1;
        if self.given > MAX_GIVEN {
            return Err(WireError::Malformed("a call's arguments are repeated too often".to_owned()));
        }
        self.whole = reconcile(&self.whole, whole)?.to_owned();
        self.whole_nesting = Nesting::default();
        if !is_nothing(&self.whole) {
            self.whole_nesting.take(&self.whole);
        }
        Ok(())
    }

    /// Appends a delta to the name. Also accepts a repetition of the whole name, which some servers send instead.
    pub(crate) fn add_name(&mut self, name: &str) -> Result<(), WireError> {
        if name.is_empty() || name == self.name {
            return Ok(());
        }
        if !self.name.is_empty() && !self.is_blank() {
            return Err(WireError::Malformed("a call has two names".to_owned()));
        }
        self.name.push_str(name);
        Ok(())
    }

    /// Returns whether no arguments have arrived.
    pub(crate) fn is_blank(&self) -> bool {
        self.whole.is_empty() && !self.nesting.has_text
    }

    /// Returns whether complete arguments have arrived.
    pub(crate) fn is_given(&self) -> bool {
        !self.whole.is_empty()
    }

    /// Returns whether all brackets in the arguments are closed. The text may still be invalid JSON. Complete
    /// arguments that are an empty object don't count, because they may be a placeholder for later arguments.
    pub(crate) fn is_closed(&self) -> bool {
        self.nesting.is_closed() || self.whole_nesting.is_closed()
    }

    /// Returns whether the arguments received so far equal `arguments`.
    pub(crate) fn reads(&self, arguments: &str) -> bool {
        self.joined.as_str() == arguments || self.whole == arguments
    }

    /// Returns the finished call.
    ///
    /// # Errors
    /// The call has no name, or its arguments are incomplete or contradictory.
    pub(crate) fn finish(self) -> Result<ModelCall, WireError> {
        if self.name.is_empty() {
            return Err(WireError::Malformed("a call has no name".to_owned()));
        }
        let is_whole = self.joined.is_whole();
        let joined = self.joined.into_text();
        let arguments = match reconcile(&joined, &self.whole)? {
            it if !is_whole && it == joined => {
                return Err(WireError::Malformed("the arguments of a call contain half a surrogate pair".to_owned()));
            }
            it => it.to_owned(),
        };
        Ok(ModelCall { id: self.id, name: self.name, arguments, opaque: self.opaque })
    }
}

/// Chooses between two versions of the arguments, such as the deltas and the complete text. If both are
/// equivalent, `first` is the one that the model wrote, byte for byte.
fn reconcile<'a>(first: &'a str, second: &'a str) -> Result<&'a str, WireError> {
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
        // One version was cut off and is a prefix of the other.
        (_, None) if first.starts_with(second) => Ok(first),
        (None, None) if second.starts_with(first) => Ok(second),
        _ => Err(WireError::Malformed("a call has two versions of its arguments".to_owned())),
    }
}

/// Returns whether arguments are empty. Servers also send an empty object as a placeholder for later arguments.
fn is_nothing(arguments: &str) -> bool {
    let rest = arguments.trim_start();
    let inner = rest.strip_prefix('{').map(str::trim).and_then(|it| it.strip_suffix('}'));
    rest.is_empty() || inner.is_some_and(|it| it.trim().is_empty())
}

/// Returns how many more calls the answer may contain.
pub(crate) fn room<T>(calls: &[T]) -> usize {
    MAX_CALLS.saturating_sub(calls.len())
}

/// Returns arguments as the provider wrote them, byte for byte: the content of a string, or the JSON that some
/// servers send instead of a string.
pub(crate) fn arguments(json: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let json = json?.get();
    match json.as_bytes().first() {
        // A string with an unpaired surrogate stays JSON text. Such a call is rejected when it is about to run.
        Some(b'"') => Some(serde_json::from_str(json).map_or(Cow::Borrowed(json), Cow::Owned)),
        Some(b'n') => None,
        _ => Some(Cow::Borrowed(json)),
    }
}

/// Converts arguments for a later request. Providers only accept objects here, so other text is wrapped in an
/// object, which shows the model what it wrote.
pub(crate) fn as_object(arguments: &str) -> Box<RawValue> {
    let text = arguments.trim();
    let object = match text {
        "" => "{}".to_owned(),
        _ if text.starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok() => text.to_owned(),
        _ => format!("{{\"invalid_json\":{}}}", serde_json::Value::from(arguments)),
    };
    RawValue::from_string(object).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Returns an id that every provider accepts: either the call's own id or a digest of it.
pub(crate) fn wire_id(id: &str) -> Cow<'_, str> {
    if !id.is_empty() && id.len() <= MAX_ID_BYTES && id.bytes().all(is_plain) {
        return Cow::Borrowed(id);
    }
    // FNV-1a hash.
    let digest = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Cow::Owned(format!("call_{digest:016x}"))
}

/// Returns a name that every provider accepts. Models sometimes call tools that don't exist, using names that
/// providers reject.
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
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

/// Tracks the brackets in JSON text that arrives in parts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Nesting {
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
    fn empty_arguments_give_way_to_others_and_contradictory_ones_are_an_error() {
        let finished = |parts: &str, wholes: &[&str]| -> Result<String, WireError> {
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
