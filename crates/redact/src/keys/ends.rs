//! How known names end: a filter for the many names that say nothing. Pure.

use super::lists::{AFTERTHOUGHTS, NAMES};

/// How many digits and separators may follow the last letter of a name.
const TAIL: usize = 6;
/// How many separators may stand between the last letters of a name.
const GAPS: usize = 3;

/// Whether a name can say anything, by its last three letters. `name` may have any text before it.
#[inline]
pub(crate) fn may_matter(name: &[u8]) -> bool {
    let mut at = name.len();
    let floor = at.saturating_sub(TAIL);
    while at > floor && !name[at - 1].is_ascii_alphabetic() {
        at -= 1;
    }
    let floor = at.saturating_sub(3 + GAPS);
    let (mut letters, mut shift) = (0, 0);
    while at > floor && shift < 15 {
        at -= 1;
        match name[at] {
            byte @ (b'a'..=b'z' | b'A'..=b'Z') => {
                letters |= usize::from(byte & 31) << shift;
                shift += 5;
            }
            b'0'..=b'9' => break,
            _ => {}
        }
    }
    ENDS[letters / 64] >> (letters % 64) & 1 == 1
}

/// A bit for each three letters with which a known name ends.
static ENDS: [u64; 512] = ends();

const fn ends() -> [u64; 512] {
    let mut table = [0; 512];
    let mut at = 0;
    while at < NAMES.len() {
        insert(&mut table, NAMES[at].0);
        at += 1;
    }
    at = 0;
    while at < AFTERTHOUGHTS.len() {
        insert(&mut table, AFTERTHOUGHTS[at]);
        at += 1;
    }
    table
}

/// Adds the end of a name, without digits after it. Before a shorter one, any letters may stand.
const fn insert(table: &mut [u64; 512], name: &[u8]) {
    let mut at = name.len();
    while name[at - 1].is_ascii_digit() {
        at -= 1;
    }
    let (mut letters, mut shift) = (0, 0);
    while at > 0 && shift < 15 && name[at - 1].is_ascii_alphabetic() {
        at -= 1;
        letters |= ((name[at] & 31) as usize) << shift;
        shift += 5;
    }
    let mut before = 0;
    while before < 1 << (15 - shift) {
        let place = letters | before << shift;
        table[place / 64] |= 1 << (place % 64);
        before += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_something_pass() {
        let known = NAMES.iter().map(|(name, _)| *name).chain(AFTERTHOUGHTS.iter().copied());
        for name in known.map(|name| String::from_utf8_lossy(name).into_owned()) {
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
