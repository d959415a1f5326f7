//! The parts of a text that are replaced, and the text with them replaced. Pure.

/// What a secret is replaced by.
pub(crate) const MASK: &str = "***";

/// What stands in place of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mask {
    /// Three asterisks.
    Stars,
    /// Three asterisks as a JSON string, in place of a number: how often its quotes are escaped.
    Quoted(u8),
    /// A stable hash of an id.
    Id(Box<str>),
}

/// A part of a text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) mask: Mask,
    /// Whether it is a secret: not an id, a name of a person or another part that is merely private.
    pub(crate) is_secret: bool,
}

impl Span {
    pub(crate) fn secret(start: usize, end: usize) -> Self {
        Self { start, end, mask: Mask::Stars, is_secret: true }
    }

    pub(crate) fn private(start: usize, end: usize) -> Self {
        Self { start, end, mask: Mask::Stars, is_secret: false }
    }

    pub(crate) fn number(start: usize, end: usize) -> Self {
        Self { start, end, mask: Mask::Quoted(0), is_secret: true }
    }

    pub(crate) fn id(start: usize, end: usize, id: String) -> Self {
        Self { start, end, mask: Mask::Id(id.into_boxed_str()), is_secret: false }
    }
}

/// Sorts spans and joins those that overlap or touch.
pub(crate) fn join(spans: &mut Vec<Span>) {
    if spans.windows(2).any(|pair| pair[0].start > pair[1].start) {
        spans.sort_by_key(|span| span.start);
    }
    spans.dedup_by(|next, kept| {
        let is_apart =
            next.start >= kept.end && !(next.start == kept.end && next.mask == Mask::Stars && kept.mask == Mask::Stars);
        if is_apart {
            return false;
        }
        if (next.start, next.end) != (kept.start, kept.end) {
            // A number stays one: what replaces it has to be a value.
            kept.mask = match (&kept.mask, &next.mask) {
                (Mask::Quoted(level), _) | (_, Mask::Quoted(level)) => Mask::Quoted(*level),
                _ => Mask::Stars,
            };
        }
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
        match &span.mask {
            Mask::Stars => out.push_str(MASK),
            Mask::Id(id) => out.push_str(id),
            Mask::Quoted(level) => {
                let escape = "\\".repeat((1_usize << level.min(&8)) - 1);
                out.extend([&escape, "\"", MASK, &escape, "\""]);
            }
        }
    }
    out.push_str(&text[written..]);
    out
}
