//! Names that were read, and what they say: one name often stands in many lines. Pure.

use crate::keys::{Kind, Names, classify};

/// How many names are remembered.
const REMEMBERED: usize = 32;

/// The names of one text, by their places in it. Made with the first name: most strings of a document have none.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Option<Box<[KnownName; REMEMBERED]>>);

#[derive(Debug, Clone, Copy, Default)]
struct KnownName {
    start: usize,
    end: usize,
    kind: Option<Kind>,
}

impl KnownNames {
    pub(crate) fn kind(&mut self, text: &[u8], start: usize, end: usize, names: &Names) -> Option<Kind> {
        let name = &text[start..end];
        let known = &mut self.0.get_or_insert_default()[place_of(name)];
        if text[known.start..known.end] != *name {
            *known = KnownName { start, end, kind: classify(name, names) };
        }
        known.kind
    }
}

/// Where a name is remembered.
fn place_of(name: &[u8]) -> usize {
    (mixed(name) >> 32) as usize % REMEMBERED
}

/// A hash of a text, to find again what was decided about it.
pub(crate) fn mixed(text: &[u8]) -> u64 {
    let (eights, rest) = text.as_chunks::<8>();
    let rest = rest.iter().fold(text.len() as u64, |rest, byte| rest << 8 | u64::from(*byte));
    let mix = |hash: u64, eight: u64| (hash.rotate_left(5) ^ eight).wrapping_mul(0x517c_c1b7_2722_0a95);
    mix(eights.iter().fold(0, |hash, eight| mix(hash, u64::from_le_bytes(*eight))), rest)
}
