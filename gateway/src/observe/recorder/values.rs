//! Secret values, found where a text repeats them: whole or their beginning, as they are or escaped.

use std::borrow::Cow;
use std::ops::Range;

use crate::arguments::secrets::{Kind, SecretValues, Secrets, Tokens, Unescaped, replaced, unescaped};

/// How much of a secret value is enough to recognize it.
const MIN_PART_BYTES: usize = 12;

/// How deep escapes are read: JSON within a JSON string is escaped twice.
const MAX_LAYERS: usize = 4;

/// Where a text repeats one of the values, in order and apart.
fn places(text: &str, values: &SecretValues) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if values.iter().next().is_none() {
        return found;
    }
    let mut layers: Vec<Unescaped> = Vec::new();
    loop {
        let layer = layers.last().map_or(text, |it| it.text.as_str());
        for value in values.iter() {
            repeated(layer, value, |place| {
                let back = |at| layers.iter().rev().fold(at, |at, layer| layer.place(at));
                found.push(back(place.start)..back(place.end));
            });
        }
        let Some(next) = (layers.len() < MAX_LAYERS).then(|| unescaped(layer)).flatten() else { break };
        layers.push(next);
    }
    joined(found)
}

/// A text without the values.
pub(super) fn masked<'t>(text: Cow<'t, str>, values: &SecretValues) -> Cow<'t, str> {
    let places = places(&text, values);
    replaced(text, &places, |_| Secrets::MARK)
}

/// The same for JSON, which stays JSON: a number is replaced as a whole, by a string.
pub(super) fn masked_json<'t>(json: Cow<'t, str>, values: &SecretValues) -> Cow<'t, str> {
    let mut places = places(&json, values);
    if places.is_empty() {
        return json;
    }
    let mut numbers = Vec::new();
    for (kind, token) in Tokens::of(&json).into_iter().flatten() {
        let next = places.get(places.partition_point(|it| it.end <= token.start));
        if kind == Kind::Scalar && next.is_some_and(|it| it.start < token.end) {
            numbers.push(token);
        }
    }
    places.extend_from_slice(&numbers);
    let is_number = |start| numbers.binary_search_by_key(&start, |it: &Range<usize>| it.start).is_ok();
    replaced(json, &joined(places), |start| if is_number(start) { Secrets::MASKED } else { Secrets::MARK })
}

/// Tells where a text has a value, or its beginning: messages quote long values in part.
fn repeated(text: &str, value: &str, mut tell: impl FnMut(Range<usize>)) {
    let beginning = &value[..value.floor_char_boundary(MIN_PART_BYTES)];
    let mut at = 0;
    while let Some(found) = text[at..].find(beginning) {
        let start = at + found;
        let same = text[start..].chars().zip(value.chars()).take_while(|(one, other)| one == other);
        at = start + same.map(|(it, _)| it.len_utf8()).sum::<usize>();
        tell(start..at);
    }
}

fn joined(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn known(values: &[&str]) -> SecretValues {
        let mut known = SecretValues::default();
        assert!(known.add(&serde_json::to_string(values).unwrap()));
        known
    }

    fn masked(text: &str, values: &[&str]) -> String {
        super::masked(text.into(), &known(values)).into_owned()
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
        let shown = masked_json(text.into(), &known(&["123456", "a&b\nc"]));
        assert_eq!(shown, r#"{"n": ["***", 5], "***" : "x *** y", "s":"*** and 7"}"#);
        assert_eq!(masked_json("no JSON: 123456".into(), &known(&["123456"])), "no JSON: ***");
    }
}
