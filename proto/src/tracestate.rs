//! W3C `tracestate`: a list of `key=value`. <https://www.w3.org/TR/trace-context-2/#tracestate-header>

use std::collections::HashSet;

use crate::limits::MAX_TRACESTATE_BYTES;

/// The maximum number of list members.
const MAX_MEMBERS: usize = 32;

/// The maximum length of a key, and of a value, in bytes.
const MAX_BYTES: usize = 256;

/// Returns the list unchanged. Returns `None` if it is malformed or too long, and must not be propagated.
pub(crate) fn valid(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok().filter(|it| it.len() <= MAX_TRACESTATE_BYTES)?;
    let mut keys = HashSet::new();
    for member in text.split(',').map(|member| member.trim_matches([' ', '\t'])) {
        // Empty members are allowed and ignored.
        if member.is_empty() {
            continue;
        }
        let (key, value) = member.split_once('=')?;
        if !is_key(key) || !is_value(value) || !keys.insert(key) {
            return None;
        }
    }
    (keys.len() <= MAX_MEMBERS).then_some(text)
}

fn is_key(key: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_next = |byte: u8| is_first(byte) || b"_-*/@".contains(&byte);
    key.len() <= MAX_BYTES && key.bytes().next().is_some_and(is_first) && key.bytes().all(is_next)
}

fn is_value(value: &str) -> bool {
    let is_part = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'=';
    (1..=MAX_BYTES).contains(&value.len()) && value.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_standard_are_passed_on_as_they_stand() {
        let many: Vec<_> = (0..MAX_MEMBERS).map(|number| format!("k{number}=v")).collect();
        for text in [
            "",
            "vendor=1",
            "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
            "fw529a3039@dt=FfAxMzM, 0tenant@a-b_c*d/e=x y:z;!~ \t,, ,b=2",
            &many.join(","),
        ] {
            assert_eq!(valid(text.as_bytes()), Some(text));
        }
    }

    #[test]
    fn what_is_no_list_of_the_standard_is_dropped() {
        let many: Vec<_> = (0..=MAX_MEMBERS).map(|number| format!("k{number}=v")).collect();
        for text in [
            "vendor",
            "=1",
            "vendor=",
            "a=b=c",
            "Vendor=1",
            "@a=1",
            "a b=1",
            "a =1",
            "a=1,a=2",
            "a=tab\tinside",
            "a=line\nbreak",
            "caf\u{e9}=1",
            "a=caf\u{e9}",
            &format!("{}=1", "k".repeat(257)),
            &format!("k={}", "v".repeat(257)),
            &format!("a={},b={},c=1", "v".repeat(256), "v".repeat(250)),
            &many.join(","),
        ] {
            assert_eq!(valid(text.as_bytes()), None, "{text}");
        }
        assert_eq!(valid(&[b'a', b'=', 0xff]), None);
    }
}
