//! JSON pointers (RFC 6901) into unparsed JSON: the value found is passed on as it was written.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A key, borrowed unless it has escapes.
#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The value that a pointer selects.
pub(super) fn find<'a>(value: &'a RawValue, pointer: &str) -> Option<&'a RawValue> {
    pointer.split('/').skip(1).try_fold(value, |value, token| {
        let token = token.replace("~1", "/").replace("~0", "~");
        if value.get().starts_with('{') {
            let mut fields: HashMap<Key<'a>, &'a RawValue> = serde_json::from_str(value.get()).ok()?;
            fields.remove(&Key(Cow::Owned(token)))
        } else {
            let is_index = !token.is_empty() && token.bytes().all(|it| it.is_ascii_digit());
            let index =
                token.parse::<usize>().ok().filter(|_| is_index && (token == "0" || !token.starts_with('0')))?;
            let items: Vec<&'a RawValue> = serde_json::from_str(value.get()).ok()?;
            items.get(index).copied()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_selects_text_as_it_was_written() {
        let text = r#"{"a": [{"n": 1.10}, 2], "x/y": {"~": true}, "": "empty", "\u00e9": 5}"#;
        let json = serde_json::from_str::<&RawValue>(text).unwrap();
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
        ] {
            assert_eq!(find(json, pointer).map(RawValue::get), expected, "{pointer}");
        }
    }
}
