//! Parts of JSON text that are not parsed, so that numbers keep all their digits.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of a JSON object in their original order, with values that are not parsed. Names may repeat.
#[derive(Debug)]
pub struct RawFields<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = RawFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RawFields<'de>, M::Error> {
                let mut items = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    items.push((key, map.next_value()?));
                }
                Ok(RawFields(items))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

/// A key, borrowed unless it contains escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Returns the text of the value that a JSON Pointer (RFC 6901) selects, as it was written. The last of several equal keys
/// counts, as in other JSON parsers.
pub fn select<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
    if !(pointer.is_empty() || pointer.starts_with('/')) {
        return None;
    }
    pointer.split('/').skip(1).try_fold(json, |json, token| {
        let token = token.replace("~1", "/").replace("~0", "~");
        let found = PointerToken(&token).deserialize(&mut serde_json::Deserializer::from_str(json)).ok()?;
        found.map(RawValue::get)
    })
}

/// Finds the value of a key or an index. Does not store other values, because there may be millions.
struct PointerToken<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for PointerToken<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PointerToken<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<Self::Value, M::Error> {
        let mut found = None;
        while let Some((Key(key), value)) = fields.next_entry()? {
            if key == self.0 {
                found = Some(value);
            }
        }
        Ok(found)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Self::Value, S::Error> {
        let is_index = self.0.bytes().all(|it| it.is_ascii_digit()) && (self.0 == "0" || !self.0.starts_with('0'));
        let index = self.0.parse::<usize>().ok().filter(|_| is_index);
        let (mut found, mut at) = (None, 0);
        while let Some(item) = items.next_element()? {
            if Some(at) == index {
                found = Some(item);
            }
            at += 1;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_selects_text_as_it_was_written() {
        let text = r#"{"a": [{"n": 1.10}, 2], "x/y": {"~": true}, "": "empty", "\u00e9": 5}"#;
        for (pointer, expected) in [
            ("", Some(text)),
            ("/a/0/n", Some("1.10")),
            ("/a/1", Some("2")),
            ("/x~1y/~0", Some("true")),
            ("/", Some("\"empty\"")),
            ("/é", Some("5")),
            ("/a/2", None),
            ("/a/01", None),
            ("/a/-", None),
            ("/a/0/n/x", None),
            ("/b", None),
            ("a", None),
        ] {
            assert_eq!(select(text, pointer), expected, "{pointer}");
        }
    }
}
