//! The stored form of ids and names. A reader's original id is converted here to the same form. Names are interned,
//! because many calls share them.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use ahash::{HashMap, HashSet};
use openskill_proto::trace::{hex, unhex};
use openskill_redact::Redactor;

/// A stored id. Equal ids have the same form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Id {
    /// 128 bits as hexadecimal digits. Nearly all ids have this form, which needs no heap allocation.
    Bits(Prefix, [u8; 16]),
    Text(Box<str>),
}

/// What precedes the digits.
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
    pub(super) fn from_text(text: &str) -> Self {
        let bits = |it: Prefix| Some(Self::Bits(it, unhex(text.strip_prefix(it.text())?)?));
        let found = [Prefix::None, Prefix::Call, Prefix::Session].into_iter().find_map(bits);
        found.unwrap_or_else(|| Self::Text(text.into()))
    }

    /// Whether `text` is the written form of this id.
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

/// Converts a trace id. Keeps it unchanged, so that people recognize it, unless it looks like a secret.
pub(super) fn trace(redactor: &Redactor, id: &str) -> Id {
    let kept = Id::from_text(id);
    // Ids from the gateway look random, but are not secrets.
    if matches!(kept, Id::Bits(Prefix::None, _)) {
        return kept;
    }
    match redactor.text(id) {
        Cow::Owned(redacted) if redacted != id => Id::from_text(&redactor.id("trace", id)),
        _ => kept,
    }
}

/// Hashes a call id.
pub(super) fn call(redactor: &Redactor, id: &str) -> Id {
    redactor.id_bits("call", id).map_or_else(|| Id::from_text(id), |bits| Id::Bits(Prefix::Call, bits))
}

/// Hashes a session id. Empty if the call has no session.
pub(super) fn session(redactor: &Redactor, id: &str) -> Id {
    let bits = redactor.id_bits("session", id).filter(|_| !id.is_empty());
    bits.map_or_else(|| Id::from_text(id), |bits| Id::Bits(Prefix::Session, bits))
}

/// The maximum number of interned names. Callers choose the names of unknown skills, so their number is unlimited.
const MAX_NAMES: usize = 4096;

/// The maximum length of an interned text, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Stores one copy of each name.
#[derive(Debug, Default)]
pub(super) struct NameInterner(HashSet<Arc<str>>);

impl NameInterner {
    pub(super) fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(kept) = self.0.get(name) {
            return Arc::clone(kept);
        }
        if self.0.len() >= MAX_NAMES {
            self.0.clear();
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        name
    }
}

/// Caches conversions of texts.
#[derive(Debug, Default)]
pub(super) struct Memo(HashMap<Box<str>, Arc<str>>);

impl Memo {
    pub(super) fn get(&mut self, text: &str, make: impl FnOnce(&str) -> Arc<str>) -> Arc<str> {
        if let Some(made) = self.0.get(text) {
            return Arc::clone(made);
        }
        if self.0.len() >= MAX_NAMES {
            self.0.clear();
        }
        let made = make(text);
        // A long text is not a name.
        if text.len() <= MAX_NAME_BYTES {
            self.0.insert(text.into(), Arc::clone(&made));
        }
        made
    }
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
            let id = Id::from_text(text);
            assert_eq!((id.to_string(), matches!(id, Id::Bits(..))), (text.to_owned(), has_bits));
            assert!(id.is(text) && !id.is("other") && id.is_empty() == text.is_empty(), "{text}");
        }
        assert!(!Id::from_text(digits).is(&call) && !Id::from_text(&call).is(digits));
    }

    #[test]
    fn hashes_are_those_of_the_redactor() {
        let redactor = Redactor::default();
        // Ids that were read back from a file are also found.
        for (id, hash) in [
            (call(&redactor, "c-1"), redactor.id("call", "c-1")),
            (session(&redactor, "s-1"), redactor.id("session", "s-1")),
        ] {
            assert_eq!((id.to_string(), id), (hash.clone(), Id::from_text(&hash)));
        }
        assert!(session(&redactor, "").is_empty());
        assert_eq!(call(&Redactor::off(), "c-1").to_string(), "c-1");
    }

    #[test]
    fn a_name_is_kept_once_and_names_are_bounded() {
        let mut names = NameInterner::default();
        assert!(Arc::ptr_eq(&names.get("echo"), &names.get("echo")));
        (0..2 * MAX_NAMES).for_each(|it| drop(names.get(&it.to_string())));
        assert!(names.0.len() <= MAX_NAMES);
    }
}
