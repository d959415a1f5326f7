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

/// Where a name is remembered, by its length and both of its ends.
fn place_of(name: &[u8]) -> usize {
    let ends = |chunk: Option<&[u8; 4]>| chunk.map_or(0, |chunk| u32::from_le_bytes(*chunk));
    let mixed = ends(name.first_chunk()) ^ ends(name.last_chunk()).rotate_left(7) ^ name.len() as u32;
    (mixed.wrapping_mul(0x9e37_79b1) >> 27) as usize % REMEMBERED
}
