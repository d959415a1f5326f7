//! Keys with a provider's prefix: found by the first three letters of a word, then checked as a whole.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::classes::{ALNUM, JOINT, at_is, run_end, run_start};
use crate::letters::{TrigramSet, letters};
use crate::shapes::{SHAPES, TokenShape};
use crate::values::looks;

/// The built-in token shapes by the first three letters of their prefixes.
pub(crate) struct Providers {
    any: TrigramSet,
    groups: HashMap<u16, Vec<&'static TokenShape>>,
}

static PROVIDERS: LazyLock<Providers> = LazyLock::new(|| {
    let mut groups: HashMap<u16, Vec<&'static TokenShape>> = HashMap::new();
    for shape in &SHAPES.tokens {
        let prefix = shape.prefix.as_bytes();
        // Any digit may follow a prefix of two letters.
        let thirds: &[u8] = if prefix.len() > 2 { &prefix[2..3] } else { b"0123456789abcdefABCDEF" };
        for third in thirds {
            let group = groups.entry(letters(&[prefix[0], prefix[1], *third], 0)).or_default();
            group.push(shape);
        }
    }
    // The longest prefix comes first: it is the most specific.
    groups.values_mut().for_each(|group| group.sort_by_key(|shape| std::cmp::Reverse(shape.prefix.len())));
    Providers { any: groups.keys().copied().collect(), groups }
});

impl Providers {
    pub(crate) fn get() -> &'static Self {
        &PROVIDERS
    }

    /// Finds the token that begins at `start`.
    #[inline]
    pub(crate) fn find(&self, text: &[u8], start: usize) -> Option<(usize, usize)> {
        let letters = letters(text, start);
        if self.any.contains(letters) { self.find_in(self.groups.get(&letters)?, text, start) } else { None }
    }

    fn find_in(&self, group: &[&TokenShape], text: &[u8], start: usize) -> Option<(usize, usize)> {
        let mut prefixed = group.iter().filter(|shape| text[start..].starts_with(shape.prefix.as_bytes()));
        prefixed.find_map(|shape| token(text, start, shape))
    }
}

/// The number of bytes that decide whether the word is a token.
const DECIDES: usize = 64;

fn token(text: &[u8], start: usize, shape: &TokenShape) -> Option<(usize, usize)> {
    let rest = start + shape.prefix.len();
    let limit = text.len().min(rest + shape.shortest.max(DECIDES) + 1);
    let end = run_end(&text[..limit], rest, shape.characters);
    if !shape.matches(without_stops(&text[rest..end]), text.get(end)) {
        return None;
    }
    let end = run_end(text, rest, shape.characters);
    Some((start, rest + without_stops(&text[rest..end]).len()))
}

/// Removes the full stops after a token.
fn without_stops(tail: &[u8]) -> &[u8] {
    &tail[..tail.iter().rposition(|byte| *byte != b'.').map_or(0, |at| at + 1)]
}

/// Finds a token with a label in its middle, as in `acme_live_…`. Returns its start and end.
pub(crate) fn find_labelled(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    if !at_is(text, end + 20, ALNUM) || !SHAPES.labels.iter().any(|label| label.as_bytes() == &text[start..end]) {
        return None;
    }
    let tail_end = run_end(text, end + 1, ALNUM);
    let tail = &text[end + 1..tail_end];
    let is_token = tail.len() >= 20 && looks::is_random(tail, 20);
    is_token.then(|| (run_start(text, start, ALNUM | JOINT, 24), tail_end))
}
