//! Ids as they are kept. Whoever looks for a call has its id as it was sent, and gets the same form from here.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use openskill_proto::trace::{hex, unhex};
use openskill_redact::Redactor;

/// An id as it is kept. Equal ids have the same form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Id {
    /// Nearly all ids: 128 bits as hexadecimal digits, which need no heap allocation.
    Bits(Prefix, [u8; 16]),
    Text(Box<str>),
}

/// What stands before the digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    None,
    Call,
    Session,
}

impl Prefix {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Call => "call_",
            Self::Session => "session_",
        }
    }
}

impl Id {
    pub(super) fn of(text: &str) -> Self {
        let bits = |it: Prefix| Some(Self::Bits(it, unhex(text.strip_prefix(it.text())?)?));
        let found = [Prefix::None, Prefix::Call, Prefix::Session].into_iter().find_map(bits);
        found.unwrap_or_else(|| Self::Text(text.into()))
    }

    /// Whether it is written like this.
    pub(super) fn is(&self, text: &str) -> bool {
        match self {
            Self::Bits(prefix, own) => text.strip_prefix(prefix.text()).and_then(unhex) == Some(*own),
            Self::Text(own) => **own == *text,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl Display for Id {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(prefix, bits) => write!(f, "{}{}", prefix.text(), hex(bits)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A trace id stays as it is, so that people recognize it, unless it looks like a secret.
pub(super) fn trace(redactor: &Redactor, id: &str) -> Id {
    let kept = Id::of(id);
    // What the gateway generates looks random, and is no secret.
    if matches!(kept, Id::Bits(Prefix::None, _)) {
        return kept;
    }
    match redactor.text(id) {
        Cow::Owned(redacted) if redacted != id => Id::of(&redactor.id("trace", id)),
        _ => kept,
    }
}

/// The hash of a call's id.
pub(super) fn call(redactor: &Redactor, id: &str) -> Id {
    redactor.id_bits("call", id).map_or_else(|| Id::of(id), |bits| Id::Bits(Prefix::Call, bits))
}

/// The hash of a session's id. Empty if there is none.
pub(super) fn session(redactor: &Redactor, id: &str) -> Id {
    let bits = redactor.id_bits("session", id).filter(|_| !id.is_empty());
    bits.map_or_else(|| Id::of(id), |bits| Id::Bits(Prefix::Session, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_as_it_was_read() {
        let digits = "00f067aa0ba902b74bf92f3577b34da6";
        let (call, session, upper) =
            (format!("call_{digits}"), format!("session_{digits}"), digits.to_ascii_uppercase());
        let other = ["", "of-this-test", &digits[1..], &upper, "+0f067aa0ba902b74bf92f3577b34da6"];
        for (text, has_bits) in
            [digits, &call, &session].map(|it| (it, true)).into_iter().chain(other.map(|it| (it, false)))
        {
            let id = Id::of(text);
            assert_eq!((id.to_string(), matches!(id, Id::Bits(..))), (text.to_owned(), has_bits));
            assert!(id.is(text) && !id.is("other") && id.is_empty() == text.is_empty(), "{text}");
        }
        assert!(!Id::of(digits).is(&call) && !Id::of(&call).is(digits));
    }

    #[test]
    fn hashes_are_those_of_the_redactor() {
        let redactor = Redactor::default();
        // Those that are read from a file again are found too.
        for (id, hash) in [
            (call(&redactor, "c-1"), redactor.id("call", "c-1")),
            (session(&redactor, "s-1"), redactor.id("session", "s-1")),
        ] {
            assert_eq!((id.to_string(), id), (hash.clone(), Id::of(&hash)));
        }
        assert!(session(&redactor, "").is_empty());
        assert_eq!(call(&Redactor::off(), "c-1").to_string(), "c-1");
    }
}
