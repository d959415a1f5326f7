//! Names that were read, and what they say: one name often stands in many lines. Pure.

use crate::keys::{Kind, Names, classify};

/// How many names are remembered.
const REMEMBERED: usize = 8;

/// The names of one text, by their places in it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KnownNames([KnownName; REMEMBERED]);

#[derive(Debug, Clone, Copy, Default)]
struct KnownName {
    start: usize,
    end: usize,
    kind: Option<Kind>,
}

impl KnownNames {
    pub(crate) fn kind(&mut self, text: &[u8], start: usize, end: usize, names: &Names) -> Option<Kind> {
        let name = &text[start..end];
        // Names that differ have other lengths, or begin with other letters.
        let place = name.first().map_or(0, |first| usize::from(*first) * 5 + name.len());
        let known = &mut self.0[place % REMEMBERED];
        if text[known.start..known.end] != *name {
            *known = KnownName { start, end, kind: classify(name, names) };
        }
        known.kind
    }
}
