//! The parts of a text that are replaced, and the text with them replaced. Pure.

/// What a secret is replaced by.
pub(crate) const MASK: &str = "***";

/// Whether a part of a text was replaced before. An id that has lost a part is none: nothing belongs to its hash, and what
/// is left of it is replaced as well.
pub(crate) fn has_mask(text: &[u8]) -> bool {
    memchr::memmem::find(text, MASK.as_bytes()).is_some()
}

/// What stands in place of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mask {
    /// Three asterisks.
    Stars,
    /// A stable hash of an id.
    Id(Box<str>),
}

/// A part of a text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) mask: Mask,
    /// Whether it is a number of JSON, which becomes a string: how often the quotes of that are escaped.
    pub(crate) quotes: Option<u8>,
    /// Whether it is a secret: not an id, a name of a person or another part that is merely private.
    pub(crate) is_secret: bool,
}

impl Span {
    pub(crate) fn secret(start: usize, end: usize) -> Self {
        Self { start, end, mask: Mask::Stars, quotes: None, is_secret: true }
    }

    pub(crate) fn private(start: usize, end: usize) -> Self {
        Self { is_secret: false, ..Self::secret(start, end) }
    }

    pub(crate) fn id(start: usize, end: usize, id: String) -> Self {
        Self { mask: Mask::Id(id.into_boxed_str()), ..Self::private(start, end) }
    }

    /// The same in place of a number of JSON.
    pub(crate) fn number(self) -> Self {
        Self { quotes: Some(0), ..self }
    }

    /// Whether nothing but asterisks stands in its place.
    fn is_plain(&self) -> bool {
        self.mask == Mask::Stars && self.quotes.is_none()
    }
}

/// Sorts spans and joins those that overlap or touch.
pub(crate) fn join(spans: &mut Vec<Span>) {
    if spans.windows(2).any(|pair| pair[0].start > pair[1].start) {
        spans.sort_by_key(|span| span.start);
    }
    spans.dedup_by(|next, kept| {
        let is_joint = next.start == kept.end && next.is_plain() && kept.is_plain();
        if next.start >= kept.end && !is_joint {
            return false;
        }
        if (next.start, next.end) != (kept.start, kept.end) {
            kept.mask = Mask::Stars;
        }
        // In place of a number, a value has to stand.
        kept.quotes = kept.quotes.or(next.quotes);
        kept.end = kept.end.max(next.end);
        kept.is_secret |= next.is_secret;
        true
    });
}

/// Writes a part of a text with its spans replaced: those that begin in it. They are sorted and apart.
pub(crate) fn render(text: &str, spans: &[Span]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut written = 0;
    for span in spans {
        let start = text.floor_char_boundary(span.start).max(written);
        out.push_str(&text[written..start]);
        written = text.ceil_char_boundary(span.end).max(start);
        let quote = span.quotes.map(|level| "\\".repeat((1 << level.min(8)) - 1) + "\"").unwrap_or_default();
        let mask = match &span.mask {
            Mask::Stars => MASK,
            Mask::Id(id) => id,
        };
        out.extend([&quote, mask, &quote]);
    }
    out.push_str(&text[written..]);
    out
}
