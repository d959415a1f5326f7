//! Masks what patterns can't find: known secret values in texts that repeat them, in full or only their beginning,
//! plain or escaped, and words that were truncated earlier. Error messages quote the beginning of an argument, followed
//! by `…`. If that truncates a secret, no pattern recognizes what is left, so the whole word before `…` is masked.

use std::borrow::Cow;
use std::ops::Range;

use openskill_redact::Redactor;

use crate::arguments::secrets::{Kind, SecretValues, Secrets, Tokens, Unescaped, replace_ranges, unescape};

/// The minimum number of bytes by which a part of a secret value is recognized.
const MIN_PART_BYTES: usize = 12;

/// The maximum number of escape layers that are decoded. JSON within a JSON string is escaped twice.
const MAX_LAYERS: usize = 4;

/// Returns the sorted, disjoint ranges in which a text repeats one of the values.
fn places(text: &str, values: &SecretValues) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if values.iter().next().is_none() {
        return found;
    }
    let mut layers: Vec<Unescaped> = Vec::new();
    loop {
        let layer = layers.last().map_or(text, |it| it.text.as_str());
        for value in values.iter() {
            find_repeats(layer, value, |place| {
                let back = |at| layers.iter().rev().fold(at, |at, layer| layer.place(at));
                found.push(back(place.start)..back(place.end));
            });
        }
        let Some(next) = (layers.len() < MAX_LAYERS).then(|| unescape(layer)).flatten() else { break };
        layers.push(next);
    }
    merge_overlaps(found)
}

/// Masks the values in a text.
pub(super) fn mask_values<'t>(text: Cow<'t, str>, values: &SecretValues) -> Cow<'t, str> {
    let places = places(&text, values);
    replace_ranges(text, &places, |_| Secrets::MARK)
}

/// Masks the values in JSON, which stays valid JSON: a number is replaced as a whole, by a string.
pub(super) fn mask_values_in_json<'t>(json: Cow<'t, str>, values: &SecretValues) -> Cow<'t, str> {
    let mut places = places(&json, values);
    if places.is_empty() {
        return json;
    }
    let mut numbers = Vec::new();
    for (kind, token) in Tokens::parse(&json).into_iter().flatten() {
        let next = places.get(places.partition_point(|it| it.end <= token.start));
        if kind == Kind::Scalar && next.is_some_and(|it| it.start < token.end) {
            numbers.push(token);
        }
    }
    places.extend_from_slice(&numbers);
    let is_number = |start| numbers.binary_search_by_key(&start, |it: &Range<usize>| it.start).is_ok();
    replace_ranges(
        json,
        &merge_overlaps(places),
        |start| if is_number(start) { Secrets::MASKED } else { Secrets::MARK },
    )
}

/// Calls `tell` with each range in which a text contains a value or its beginning: messages quote only a part of
/// long values.
fn find_repeats(text: &str, value: &str, mut tell: impl FnMut(Range<usize>)) {
    let beginning = &value[..value.floor_char_boundary(MIN_PART_BYTES)];
    let mut at = 0;
    while let Some(found) = text[at..].find(beginning) {
        let start = at + found;
        let same = text[start..].chars().zip(value.chars()).take_while(|(one, other)| one == other);
        at = start + same.map(|(it, _)| it.len_utf8()).sum::<usize>();
        tell(start..at);
    }
}

fn merge_overlaps(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_by_key(|it| it.start);
    places.dedup_by(|next, kept| {
        let is_joined = next.start <= kept.end;
        if is_joined {
            kept.end = kept.end.max(next.end);
        }
        is_joined
    });
    places
}

/// Marks a truncated value.
const ELLIPSIS: &str = "…";

/// The minimum number of characters that reveal something about a secret.
const LEAST: usize = 4;

/// Masks the word before each ellipsis in text or a document.
pub(super) fn mask_cut_words(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.contains(ELLIPSIS) {
        return text;
    }
    let mut masked = String::with_capacity(text.len());
    for part in text.split_inclusive(ELLIPSIS) {
        let Some(before) = part.strip_suffix(ELLIPSIS) else {
            masked.push_str(part);
            continue;
        };
        let word = word_start(before);
        let is_said = before.len() - word < LEAST;
        masked.push_str(if is_said { before } else { &before[..word] });
        masked.push_str(if is_said { "" } else { Redactor::MASK });
        masked.push_str(ELLIPSIS);
    }
    Cow::Owned(masked)
}

/// Returns the start of the last word. Escapes such as `\u002d` are part of it.
fn word_start(text: &str) -> usize {
    let mut end = text.len();
    loop {
        let boundary = text[..end].rfind(|it| !is_of_word(it));
        let start = boundary.map_or(0, |at| text.ceil_char_boundary(at + 1));
        let is_escape = text[..start].ends_with('\\')
            && text[start..]
                .strip_prefix('u')
                .and_then(|it| it.get(..4))
                .is_some_and(|it| it.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if !is_escape {
            return start;
        }
        end = text[..start].trim_end_matches('\\').len();
    }
}

/// Whether a character belongs to a word, not to the surrounding syntax, which stays.
fn is_of_word(character: char) -> bool {
    !character.is_whitespace() && !matches!(character, '"' | '\\' | '\'' | '`' | '{' | '}' | '[' | ']' | ',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(values: &[&str]) -> SecretValues {
        let mut known = SecretValues::default();
        assert!(known.add(&serde_json::to_string(values).unwrap()));
        known
    }

    fn masked(text: &str, values: &[&str]) -> String {
        super::mask_values(text.into(), &known(values)).into_owned()
    }

    #[test]
    fn a_value_is_found_wherever_it_is_quoted_whole_or_in_part() {
        for (text, expected) in [
            ("it is correct horse battery staple!", "it is ***!"),
            ("not \"correct horse batt…\"", "not \"***…\""),
            ("correct horse battery staple, correct horse b", "***, ***"),
            ("correct hor", "correct hor"),
        ] {
            assert_eq!(masked(text, &["correct horse battery staple"]), expected);
        }
        assert_eq!(masked("pin 1234, 12345", &["1234"]), "pin ***, ***5");
        assert_eq!(masked("a long value, and another", &["long value", "value, and"]), "a *** another");
    }

    #[test]
    fn a_value_is_found_however_it_is_escaped() {
        for text in [
            r#"p&ss/w"rd"#,
            r#"p\u0026ss\/w\"rd"#,
            r#"\u0070&ss\u002fw\u0022rd"#,
            r#"{\"inner\":\"p\\u0026ss/w\\\"rd\"}"#,
            r#"p\x26ss/w"rd"#,
        ] {
            let shown = masked(&format!("<{text}>"), &[r#"p&ss/w"rd"#]);
            assert!(shown.contains("***") && !shown.contains("ss"), "{text}: {shown}");
        }
    }

    #[test]
    fn a_number_is_replaced_whole_and_the_rest_of_a_document_stays() {
        let text = r#"{"n": [-1234567, 5], "a\u0026b\nc" : "x a\u0026b\u000ac y", "s":"123456 and 7"}"#;
        let shown = mask_values_in_json(text.into(), &known(&["123456", "a&b\nc"]));
        assert_eq!(shown, r#"{"n": ["***", 5], "***" : "x *** y", "s":"*** and 7"}"#);
        assert_eq!(mask_values_in_json("no JSON: 123456".into(), &known(&["123456"])), "no JSON: ***");
    }

    #[test]
    fn the_word_that_was_cut_is_masked_and_everything_else_stays() {
        for (text, expected) in [
            ("got \"use AKIAABC…\", expected a number", "got \"use ***…\", expected a number"),
            (r#"{"got":"{\"a\":\"W2RlZmF…\""}"#, r#"{"got":"{\"a\":\"***…\""}"#),
            ("密码：hunter… and ghp_abc…", "***… and ***…"),
            ("and so on …, one of: a, b, …", "and so on …, one of: a, b, …"),
            (r#"{"got":"{\"v\": \"nvapi\\u002dI7iBR\\u002dumB…\""}"#, r#"{"got":"{\"v\": \"***…\""}"#),
            ("no cut", "no cut"),
        ] {
            assert_eq!(mask_cut_words(Cow::Borrowed(text)), expected, "{text}");
        }
    }
}
