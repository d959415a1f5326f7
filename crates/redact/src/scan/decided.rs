//! Remembers verdicts on values: equal names and values get equal verdicts. Pure.

use crate::assignment::{self, Key, Separator, Verdict};
use crate::known::mixed;

/// How many values are remembered, once there were [`FEW`].
const VALUES: usize = 64;
/// How many values are decided about before one is remembered: most texts have fewer.
const FEW: usize = 16;

/// What was decided about the values of one text, by their places in it.
#[derive(Debug, Default)]
pub(super) struct KnownValues {
    seen: usize,
    known: Option<Box<[Option<KnownValue>; VALUES]>>,
}

#[derive(Debug, Clone, Copy)]
struct KnownValue {
    key: Key,
    separator: Separator,
    verdict: Option<Verdict>,
}

impl KnownValues {
    /// What is decided about a value.
    pub(super) fn verdict(&mut self, text: &[u8], key: Key, separator: Separator) -> Option<Verdict> {
        self.seen += 1;
        let place = if self.seen < FEW { None } else { place(text, separator) };
        let Some(place) = place else { return assignment::verdict(text, key, separator) };
        let known = &mut self.known.get_or_insert_with(|| Box::new([None; VALUES]))[place];
        if let Some(known) = known.filter(|known| known.is_like(text, key, separator)) {
            return known.verdict.map(|verdict| verdict.moved(known.key.start, key.start));
        }
        let verdict = assignment::verdict(text, key, separator);
        *known = Some(KnownValue { key, separator, verdict });
        verdict
    }
}

/// Where a value is remembered. None: the text ends too soon, or the value may be a mask, which depends on what stands before
/// the name.
fn place(text: &[u8], separator: Separator) -> Option<usize> {
    let decides = text.get(separator.value_start..assignment::decides_to(separator))?;
    let may_be_mask = decides.trim_ascii_start().starts_with(b"*");
    (!may_be_mask).then_some((mixed(decides) >> 58) as usize)
}

impl KnownValue {
    /// Whether the same is decided about another value: it and its name are equal, and what stands between them.
    fn is_like(&self, text: &[u8], key: Key, separator: Separator) -> bool {
        let shape = |key: Key, separator: Separator| {
            let from_start = [key.end, separator.name_end, separator.value_start].map(|place| place - key.start);
            (key.kind, separator.is_colon, from_start)
        };
        let decides = |key: Key, separator: Separator| &text[key.start..assignment::decides_to(separator)];
        shape(self.key, self.separator) == shape(key, separator)
            && decides(self.key, self.separator) == decides(key, separator)
    }
}
