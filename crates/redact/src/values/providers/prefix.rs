//! What a token with a prefix looks like.

use crate::classes::{ALNUM, BASE64, DOLLAR, DOT, HEX, PADDING, TOKEN, UPPER};

/// What the rest of a token consists of.
#[derive(Debug, Clone, Copy)]
pub(in crate::values::providers) enum Set {
    Alnum,
    Hex,
    Upper,
    /// Letters, digits, `_` and `-`.
    Token,
    /// A token with full stops and padding.
    Dotted,
    /// Tokens with `$` between them.
    Dollars,
    /// Base64, of either alphabet.
    Base64,
}

impl Set {
    pub(in crate::values::providers) fn classes(self) -> u16 {
        match self {
            Self::Alnum => ALNUM,
            Self::Hex => HEX,
            Self::Upper => UPPER,
            Self::Token => TOKEN,
            Self::Dotted => TOKEN | DOT | PADDING,
            Self::Dollars => TOKEN | DOLLAR,
            Self::Base64 => TOKEN | BASE64 | PADDING | DOT,
        }
    }
}

/// What the rest of a token looks like.
#[derive(Debug, Clone, Copy)]
pub(in crate::values::providers) enum Look {
    /// Anything: nothing else begins so.
    Any,
    /// It has letters, and digits or both cases.
    Mixed,
    /// It has a long part that looks random.
    Dense,
    /// It has this length exactly.
    Exact,
}

/// A prefix, what follows it, how much of that at least, and what it looks like.
pub(in crate::values::providers) type Prefix = (&'static str, Set, usize, Look);
