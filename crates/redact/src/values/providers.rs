//! Keys that providers issue with a prefix: found at the beginning of a word, by three letters, then checked as a whole.

use std::sync::LazyLock;

use crate::classes::{ALNUM, JOINT, at_is, run_end, run_start};
use crate::values::looks;

mod clouds;
mod prefix;
mod services;

use clouds::CLOUDS;
use prefix::{Look, Prefix};
use services::SERVICES;

/// Of which prefixes the first three letters are which, by their lower five bits: the same for both cases.
struct Index {
    any: Box<[u64; 512]>,
    /// How many bits of `any` are set before each of its words.
    ranks: Box<[u16; 512]>,
    /// The prefixes of each three letters that are set in `any`, in its order.
    groups: Vec<Vec<&'static Prefix>>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let begins = |it: &'static Prefix| {
        // After a prefix of two letters, any digit may follow.
        let third: &[u8] = if it.0.len() > 2 { &it.0.as_bytes()[2..3] } else { b"0123456789abcdefABCDEF" };
        let (first, second) = (it.0.as_bytes()[0], it.0.as_bytes()[1]);
        third.iter().map(move |third| (letters(&[first, second, *third], 0), it))
    };
    let mut prefixes: Vec<_> = CLOUDS.iter().chain(SERVICES).flat_map(begins).collect();
    // The longest first: it says most.
    prefixes.sort_by_key(|(letters, prefix)| (*letters, std::cmp::Reverse(prefix.0.len())));
    let groups: Vec<_> = prefixes.chunk_by(|a, b| a.0 == b.0).collect();
    let (mut any, mut ranks) = (Box::new([0; 512]), Box::new([0; 512]));
    groups.iter().for_each(|group| any[usize::from(group[0].0) / 64] |= 1_u64 << (group[0].0 % 64));
    let mut rank = 0;
    for (word, before) in any.iter().zip(ranks.iter_mut()) {
        *before = rank;
        rank += word.count_ones() as u16;
    }
    let groups = groups.iter().map(|group| group.iter().map(|(_, prefix)| *prefix).collect()).collect();
    Index { any, ranks, groups }
});

/// Three bytes as a place in a table.
#[inline]
pub(crate) fn letters(text: &[u8], at: usize) -> u16 {
    match text.get(at..at + 3) {
        Some([a, b, c]) => u16::from(a & 31) << 10 | u16::from(b & 31) << 5 | u16::from(c & 31),
        _ => 0,
    }
}

/// Why there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Miss {
    Cheap,
    /// A long run of characters was looked at, which is none: neither is one that begins a little later in it.
    Long,
}

impl Index {
    /// The prefixes that begin with these letters.
    fn group(&self, letters: u16) -> &[&'static Prefix] {
        let (word, bit) = (usize::from(letters) / 64, letters % 64);
        if self.any[word] >> bit & 1 == 0 {
            return &[];
        }
        let before = (self.any[word] & ((1 << bit) - 1)).count_ones() as usize;
        &self.groups[usize::from(self.ranks[word]) + before]
    }
}

/// A finder of prefixes, which has looked up its table once.
#[derive(Clone, Copy)]
pub(crate) struct Providers(&'static Index);

impl Providers {
    pub(crate) fn new() -> Self {
        Self(&INDEX)
    }

    /// Whether a prefix may begin with these letters.
    #[inline]
    pub(crate) fn may_begin(self, letters: u16) -> bool {
        self.0.any[usize::from(letters) / 64] >> (letters % 64) & 1 == 1
    }

    /// The token that begins at a place, with those letters.
    pub(crate) fn find(self, text: &[u8], start: usize, letters: u16) -> Result<(usize, usize), Miss> {
        let mut miss = Miss::Cheap;
        for prefix in self.0.group(letters).iter().filter(|it| text[start..].starts_with(it.0.as_bytes())) {
            match token(text, start, prefix) {
                Err(Miss::Cheap) => {}
                Err(Miss::Long) => miss = Miss::Long,
                found => return found,
            }
        }
        Err(miss)
    }
}

/// How much of a token decides whether it is one.
const DECIDES: usize = 64;

fn token(text: &[u8], start: usize, (prefix, set, shortest, look): &Prefix) -> Result<(usize, usize), Miss> {
    let rest = start + prefix.len();
    let limit = text.len().min(rest + shortest.max(&DECIDES) + 1);
    let end = run_end(&text[..limit], rest, set.classes());
    let tail = &text[rest..end];
    let tail = &tail[..tail.len() - tail.iter().rev().take_while(|byte| **byte == b'.').count()];
    let is_token = tail.len() >= *shortest
        && match look {
            Look::Any => true,
            Look::Mixed => looks::is_mixed(tail),
            Look::Dense => looks::has_random_part(tail),
            Look::Exact => {
                tail.len() == *shortest && !matches!(text.get(end), Some(byte) if byte.is_ascii_alphanumeric())
            }
        };
    if !is_token {
        let was_looked_at = matches!(look, Look::Mixed | Look::Dense) && tail.len() >= DECIDES / 2;
        return Err(if was_looked_at { Miss::Long } else { Miss::Cheap });
    }
    let end = run_end(text, rest, set.classes());
    Ok((start, end - text[rest..end].iter().rev().take_while(|byte| **byte == b'.').count()))
}

/// Words in the middle of a token that name what it is, as in `acme_live_…`: where the token begins and ends.
pub(crate) fn labelled(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    const LABELS: [&[u8]; 11] =
        [b"live", b"test", b"prod", b"pat", b"secret", b"api", b"key", b"sk", b"token", b"sandbox", b"pk"];
    if !at_is(text, end + 20, ALNUM) || !LABELS.contains(&&text[start..end]) {
        return None;
    }
    let tail_end = run_end(text, end + 1, ALNUM);
    let tail = &text[end + 1..tail_end];
    let is_token = tail.len() >= 20 && looks::is_random(tail, 20);
    is_token.then(|| (run_start(text, start, ALNUM | JOINT, 24), tail_end))
}
