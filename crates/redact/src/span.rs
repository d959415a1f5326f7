//! The spans of a text that are replaced, and their replacements. All functions are pure.

/// The replacement of a secret.
pub(crate) const MASK: &str = "***";

/// Whether part of a text is already masked. An id hash without that part would be useless, so the rest of the id
/// is masked instead.
pub(crate) fn has_mask(text: &[u8]) -> bool {
    memchr::memmem::find(text, MASK.as_bytes()).is_some()
}

/// The replacement of a span.
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
    /// Set if the span is a JSON number, whose replacement must be a string: how often that string's quotes are
    /// escaped.
    pub(crate) quotes: Option<u8>,
    /// Whether the span is a secret. Other spans, such as ids and people's names, are merely private.
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

    /// Marks the span as a JSON number.
    pub(crate) fn number(self) -> Self {
        Self { quotes: Some(0), ..self }
    }

    /// Whether the replacement is only asterisks.
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
        // The replacement of a JSON number must be a JSON value.
        kept.quotes = kept.quotes.or(next.quotes);
        kept.end = kept.end.max(next.end);
        kept.is_secret |= next.is_secret;
        true
    });
}

/// Returns the text with its spans replaced. The spans must be sorted and must not overlap.
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
