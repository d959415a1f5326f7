//! Truncates JSON along its structure. The result is still valid JSON, and notes say what is missing.

use std::borrow::Cow;

use super::raw::{RawJson, quote};

/// The maximum depth at which values are shortened. Deeper values are replaced with `null`.
const MAX_DEPTH: usize = 64;

/// The maximum number of notes about one value.
const MAX_NOTES: usize = 8;

/// The minimum number of bytes for a value to be shortened rather than omitted.
const MIN_BYTES: usize = 48;

/// A shortened value and what is missing from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) json: String,
    /// Notes about missing parts, such as `12 of 4000 elements of /rows are shown`.
    pub(super) notes: Vec<String>,
}

/// Shortens a value to roughly `bytes` bytes.
pub(super) fn cut(json: &str, bytes: usize) -> Cut {
    let mut notes = Vec::new();
    let json = shorten(json, bytes, "", 0, &mut notes);
    if notes.len() > MAX_NOTES {
        let more = notes.len() - MAX_NOTES;
        notes.truncate(MAX_NOTES);
        notes.push(format!("{more} other parts are also cut"));
    }
    Cut { json, notes }
}

fn shorten(json: &str, bytes: usize, pointer: &str, depth: usize, notes: &mut Vec<String>) -> String {
    if json.len() <= bytes {
        return json.to_owned();
    }
    if depth >= MAX_DEPTH || bytes < MIN_BYTES {
        notes.push(format!("{} is left out", place(pointer)));
        return "null".to_owned();
    }
    match RawJson::parse(json) {
        Some(RawJson::Array(elements)) => {
            let texts: Vec<_> = elements.iter().map(|it| it.get()).collect();
            array(&texts, bytes, pointer, depth, notes)
        }
        Some(RawJson::Object(fields)) => object(&fields, bytes, pointer, depth, notes),
        Some(RawJson::String(text)) => string(&text, bytes, pointer, notes),
        // A number with thousands of digits, or invalid JSON.
        Some(RawJson::Other) | None => string(json, bytes, pointer, notes),
    }
}

fn array(elements: &[&str], bytes: usize, pointer: &str, depth: usize, notes: &mut Vec<String>) -> String {
    let (mut shown, mut kept) = (String::from("["), 0);
    for (i, element) in elements.iter().enumerate() {
        let left = bytes.saturating_sub(shown.len() + 2);
        // The first element is shortened rather than omitted, because it shows what the others look like.
        let fits = element.len() <= left || (i == 0 && left >= MIN_BYTES);
        if !fits {
            break;
        }
        if i > 0 {
            shown.push(',');
        }
        shown.push_str(&shorten(element, left, &format!("{pointer}/{i}"), depth + 1, notes));
        kept += 1;
    }
    if kept < elements.len() {
        notes.push(format!("{kept} of {} elements of {} are shown", elements.len(), place(pointer)));
    }
    shown.push(']');
    shown
}

fn object(
    fields: &[(Cow<'_, str>, &serde_json::value::RawValue)],
    bytes: usize,
    pointer: &str,
    depth: usize,
    notes: &mut Vec<String>,
) -> String {
    let names: usize = fields.iter().map(|(name, _)| name.len() + 4).sum();
    let mut left = bytes.saturating_sub(names + 2);
    // Keep small fields whole and split the remaining bytes among large ones.
    let mut sizes: Vec<_> = fields.iter().map(|(_, value)| value.get().len()).collect();
    sizes.sort_unstable();
    let mut share = 0;
    for (i, size) in sizes.iter().enumerate() {
        share = left / (sizes.len() - i);
        if *size > share {
            break;
        }
        left -= size;
        share = share.max(*size);
    }
    let (mut shown, mut kept) = (String::from("{"), 0);
    for (name, value) in fields {
        if shown.len() + name.len() + 8 > bytes {
            break;
        }
        if kept > 0 {
            shown.push(',');
        }
        let below = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
        shown.push_str(&quote(name));
        shown.push(':');
        shown.push_str(&shorten(value.get(), share, &below, depth + 1, notes));
        kept += 1;
    }
    if kept < fields.len() {
        notes.push(format!("{kept} of {} fields of {} are shown", fields.len(), place(pointer)));
    }
    shown.push('}');
    shown
}

fn string(text: &str, bytes: usize, pointer: &str, notes: &mut Vec<String>) -> String {
    let (mut size, mut end) = (8, 0);
    for (at, c) in text.char_indices() {
        // An escape takes up to six bytes. Shorter escapes count as six too, so text with many of them is cut
        // early.
        size += if c.is_control() || c == '"' || c == '\\' { 6 } else { c.len_utf8() };
        if size > bytes {
            break;
        }
        end = at + c.len_utf8();
    }
    let (shown, all) = (text[..end].chars().count(), text.chars().count());
    notes.push(format!("{shown} of {all} characters of {} are shown", place(pointer)));
    quote(&format!("{}…", &text[..end]))
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "the data" } else { pointer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_byte_for_byte() {
        let json = r#"{"n": 12345678901234567890123 }"#;
        assert_eq!(cut(json, 100), Cut { json: json.into(), notes: vec![] });
    }

    #[test]
    fn arrays_lose_their_last_elements_and_strings_their_ends() {
        let rows: Vec<_> = (1..1001).map(|n| format!("{{\"id\":{n}000000000000000000000}}")).collect();
        let json = format!(r#"{{"rows":[{}],"total":1000}}"#, rows.join(","));
        let cut = cut(&json, 400);
        assert!(cut.json.len() <= 420, "{}", cut.json.len());
        assert!(cut.json.ends_with(r#"],"total":1000}"#), "{}", cut.json);
        assert!(cut.notes[0].ends_with("of 1000 elements of /rows are shown"), "{:?}", cut.notes);
        serde_json::from_str::<serde_json::Value>(&cut.json).unwrap_or_else(|error| panic!("{error}: {}", cut.json));
        let text = quote(&"é\n".repeat(10_000));
        let short = super::cut(&text, 500);
        assert!(short.json.len() <= 520 && serde_json::from_str::<String>(&short.json).is_ok());
    }

    #[test]
    fn deep_and_wide_values_stay_bounded() {
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100)).replace('1', &quote(&"x".repeat(9000)));
        assert!(cut(&deep, 1000).json.len() <= 1100);
        let wide: Vec<_> = (0..5000).map(|n| format!("\"key{n}\":{n}")).collect();
        let cut = cut(&format!("{{{}}}", wide.join(",")), 1000);
        assert!(cut.json.len() <= 1100, "{}", cut.json.len());
        assert!(serde_json::from_str::<serde_json::Value>(&cut.json).is_ok());
    }
}
