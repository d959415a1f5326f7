//! A filter by the last letters of known names. It rejects most other names quickly. All functions are pure.

use std::sync::LazyLock;

use crate::kind::NameEntry;
use crate::letters::TrigramSet;
use crate::shapes::SHAPES;

/// The maximum number of digits and separators after the last letter of a name.
const TAIL: usize = 6;
/// The maximum number of separators between the last letters of a name.
const GAPS: usize = 3;

/// Whether the last three letters of a name end a known name. Any text may precede `name`.
#[inline]
pub(crate) fn may_matter(name: &[u8]) -> bool {
    let mut at = name.len();
    let floor = at.saturating_sub(TAIL);
    while at > floor && !name[at - 1].is_ascii_alphabetic() {
        at -= 1;
    }
    let floor = at.saturating_sub(3 + GAPS);
    let (mut letters, mut shift) = (0_u16, 0);
    while at > floor && shift < 15 {
        at -= 1;
        match name[at] {
            byte @ (b'a'..=b'z' | b'A'..=b'Z') => {
                letters |= u16::from(byte & 31) << shift;
                shift += 5;
            }
            b'0'..=b'9' => break,
            _ => {}
        }
    }
    ENDS.contains(letters)
}

/// The last three letters of all known names.
static ENDS: LazyLock<TrigramSet> = LazyLock::new(|| {
    let known = SHAPES.names.iter().filter(|(_, entry)| **entry != NameEntry::Harmless);
    known.flat_map(|(name, _)| last_letters(name)).collect()
});

/// Returns the last three letters of a name, ignoring digits after them. A shorter name yields all combinations.
fn last_letters(name: &[u8]) -> impl Iterator<Item = u16> {
    let last = name.iter().rev().skip_while(|byte| byte.is_ascii_digit());
    let last = last.take_while(|byte| byte.is_ascii_alphabetic()).take(3);
    let (letters, shift) =
        last.fold((0, 0), |(letters, shift), byte| (letters | u16::from(byte & 31) << shift, shift + 5));
    (0..1_u16 << (15 - shift)).map(move |before| letters | before << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_something_pass() {
        let known = SHAPES.names.iter().filter(|(_, entry)| **entry != NameEntry::Harmless);
        for name in known.map(|(name, _)| String::from_utf8_lossy(name).into_owned()) {
            let (head, last) = name.split_at(name.len() - 1);
            for written in [name.clone(), name.to_uppercase(), format!("x {name}_2"), format!("{head}_{last}")] {
                assert!(may_matter(written.as_bytes()), "{written}");
            }
        }
    }

    #[test]
    fn most_others_do_not() {
        for name in ["trace_id", "latency_ms", "skill", "T12:00", "", "1", "::", "12:00:01"] {
            assert!(!may_matter(name.as_bytes()), "{name}");
        }
    }
}
