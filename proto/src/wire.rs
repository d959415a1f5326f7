//! Counts the values in the `Struct` of an encoded call without decoding it.
//!
//! A decoded value takes many times its encoded size. Malformed parts are not counted, because the decoder rejects
//! them.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::limits::MAX_MESSAGE_DEPTH;

/// The message types that contain values, each with the fields that contain them.
#[derive(Clone, Copy)]
enum MessageKind {
    /// `InvokeRequest.input`.
    Request,
    /// `Struct.fields`. Each entry contains one value.
    Struct,
    /// A map entry, whose field 2 is the value.
    Entry,
    /// `Value.struct_value` and `Value.list_value`.
    Value,
    /// `ListValue.values`.
    List,
}

impl MessageKind {
    /// Returns the type of message in a field, and whether it counts as a value.
    fn field_kind(self, field: u32) -> Option<(Self, bool)> {
        match (self, field) {
            (Self::Request, 2) => Some((Self::Struct, false)),
            (Self::Struct, 1) => Some((Self::Entry, true)),
            (Self::Entry, 2) => Some((Self::Value, false)),
            (Self::Value, 5) => Some((Self::Struct, false)),
            (Self::Value, 6) => Some((Self::List, false)),
            (Self::List, 1) => Some((Self::Value, true)),
            _ => None,
        }
    }
}

/// Counts the values in the `input` of an encoded `InvokeRequest`. Stops above `most`.
pub(crate) fn input_values(request: &[u8], most: usize) -> usize {
    let mut count = 0;
    // The unread rest and the type of each open message. The decoder rejects deeper ones.
    let mut open: Vec<(&[u8], MessageKind)> = vec![(request, MessageKind::Request)];
    while let Some((rest, kind)) = open.last_mut() {
        let Some((field, content)) = next_field(rest) else {
            open.pop();
            continue;
        };
        let (Some(content), Some((inner, counts))) = (content, kind.field_kind(field)) else { continue };
        count += usize::from(counts);
        if count > most {
            break;
        }
        if open.len() <= MAX_MESSAGE_DEPTH {
            open.push((content, inner));
        }
    }
    count
}

/// Reads the number of the next field, and its content if it is length-delimited. Returns `None` at the end and
/// at a malformed field.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    // An error for each end would cost an allocation.
    if rest.is_empty() {
        return None;
    }
    let (field, wire_type) = decode_key(rest).ok()?;
    if wire_type != WireType::LengthDelimited {
        skip_field(wire_type, field, rest, DecodeContext::default()).ok()?;
        return Some((field, None));
    }
    let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
    let (content, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some((field, Some(content)))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_types::value::Kind as Json;
    use prost_types::{ListValue, Struct, Value};

    use super::*;
    use crate::v1::InvokeRequest;
    use crate::v1::invoke_request::Arguments;

    fn value(kind: Json) -> Value {
        Value { kind: Some(kind) }
    }

    fn list(values: Vec<Value>) -> Value {
        value(Json::ListValue(ListValue { values }))
    }

    fn object(fields: Vec<(&str, Value)>) -> Struct {
        Struct { fields: fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect() }
    }

    fn encoded(arguments: Arguments) -> Vec<u8> {
        let request = InvokeRequest {
            skill_id: "echo".to_owned(),
            arguments: Some(arguments),
            timeout_ms: 300,
            ..InvokeRequest::default()
        };
        request.encode_to_vec()
    }

    #[test]
    fn every_value_below_the_struct_counts_once() {
        let number = || value(Json::NumberValue(1.0));
        let inner = object(vec![("x", number()), ("y", list(vec![number(), Value::default()]))]);
        let input = object(vec![
            ("n", number()),
            ("t", value(Json::StringValue("\n\u{2}\u{1a}".repeat(50)))),
            ("e", list(Vec::new())),
            ("s", value(Json::StructValue(inner))),
        ]);
        assert_eq!(input_values(&encoded(Arguments::Input(input)), 1000), 8);
        assert_eq!(input_values(&encoded(Arguments::InputJson("[1,2,3]".to_owned())), 1000), 0);
    }

    #[test]
    fn counting_stops_past_the_limit_and_at_what_is_malformed() {
        let many = object(vec![("l", list(vec![Value::default(); 1000]))]);
        let bytes = encoded(Arguments::Input(many));
        assert_eq!(input_values(&bytes, 10), 11);
        let group = [0xa3, 0x06, 0xa4, 0x06];
        assert_eq!(input_values(&[&group[..], &bytes].concat(), 10), 11, "after an unknown group");
        for cut in 0..bytes.len() {
            input_values(&bytes[..cut], 10_000);
        }
        assert_eq!(input_values(&[0xff; 100], 10), 0);
    }
}
