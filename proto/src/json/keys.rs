//! Finds repeated keys of objects. JSON allows them but does not define their meaning, and parsers drop one of the values.

use std::borrow::Cow;
use std::collections::HashSet;

use super::strings::end_of_string;

/// The maximum number of keys that are compared one by one. More keys are hashed.
const FEW: usize = 8;

/// An array or object that is not yet closed.
enum OpenContainer<'a> {
    Array {
        index: usize,
    },
    Object {
        keys: Vec<Cow<'a, str>>,
        /// Whether the next string is a key.
        awaits_key: bool,
    },
}

/// Returns the JSON Pointer to a repeated key, in the first object to end that has one. `text` must be valid JSON.
pub fn repeated_key(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut open: Vec<OpenContainer<'_>> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], open.last_mut()) {
            (b'{', _) => open.push(OpenContainer::Object { keys: Vec::new(), awaits_key: true }),
            (b'[', _) => open.push(OpenContainer::Array { index: 0 }),
            (b']', _) => drop(open.pop()),
            (b'}', _) => {
                if let Some(OpenContainer::Object { keys, .. }) = open.pop()
                    && let Some(key) = find_repeated(&keys)
                {
                    return Some(pointer(&open, key));
                }
            }
            (b',', Some(OpenContainer::Array { index })) => *index += 1,
            (b',', Some(OpenContainer::Object { awaits_key, .. })) => *awaits_key = true,
            (b'"', inside) => {
                let end = end_of_string(bytes, at);
                if let Some(OpenContainer::Object { keys, awaits_key }) = inside
                    && std::mem::take(awaits_key)
                {
                    keys.push(unescape(&text[at..end]));
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Removes the quotes and escapes of a string. Keeps the escapes of a string with an unpaired surrogate.
fn unescape(written: &str) -> Cow<'_, str> {
    match written.contains('\\').then(|| serde_json::from_str(written)) {
        Some(Ok(text)) => Cow::Owned(text),
        _ => Cow::Borrowed(written.get(1..written.len() - 1).unwrap_or_default()),
    }
}

fn find_repeated<'a>(keys: &'a [Cow<'_, str>]) -> Option<&'a str> {
    if keys.len() <= FEW {
        let earlier = |(index, key): &(usize, &Cow<'_, str>)| keys[..*index].contains(key);
        return keys.iter().enumerate().find(earlier).map(|(_, key)| key.as_ref());
    }
    let mut seen = HashSet::with_capacity(keys.len());
    keys.iter().map(AsRef::as_ref).find(|key: &&str| !seen.insert(*key))
}

fn pointer(open: &[OpenContainer<'_>], key: &str) -> String {
    let mut pointer = String::new();
    let segments = open.iter().map(|it| match it {
        OpenContainer::Array { index } => Cow::Owned(index.to_string()),
        OpenContainer::Object { keys, .. } => keys.last().cloned().unwrap_or_default(),
    });
    for segment in segments.chain([Cow::Borrowed(key)]) {
        pointer.push('/');
        pointer.push_str(&segment.replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_an_object_has_twice_is_found_with_its_path() {
        for (text, path) in [
            (r#"{"a":1,"a":2}"#, "/a"),
            (r#"{"a":1,"\u0061":2}"#, "/a"),
            (r#"{"x":[1,{"y":[]},{"a/b":{"k":1,"l":"k","k":2}}]}"#, "/x/2/a~1b/k"),
            (r#"{"":1,"b":{},"":[]}"#, "/"),
            (r#"[{"\ud800":1,"\ud800":2}]"#, r"/0/\ud800"),
        ] {
            assert_eq!(repeated_key(text).as_deref(), Some(path), "{text}");
        }
        let many: String = (0..1000).map(|number| format!("\"k{number}\":0,")).collect();
        assert_eq!(repeated_key(&format!("{{{many}\"k500\":1}}")).as_deref(), Some("/k500"));
    }

    #[test]
    fn equal_keys_of_different_objects_and_equal_strings_are_no_repetition() {
        for text in [
            "1",
            "\"a\"",
            r#"{"a":{"a":{"a":"a"}},"b":["a","a",{"a":1},{"a":1}]}"#,
            r#"{"a\"":1,"a\\":2,"a":"{\"a\":1,\"a\":2}"}"#,
            r#"{"A":1,"a":2}"#,
            "{}",
        ] {
            assert_eq!(repeated_key(text), None, "{text}");
        }
        let many: String = (0..1000).map(|number| format!("\"k{number}\":0,")).collect();
        assert_eq!(repeated_key(&format!("{{{many}\"k\":1}}")), None);
    }
}
