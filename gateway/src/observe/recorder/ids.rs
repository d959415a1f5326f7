//! The stored form of ids and names. A reader's original id is converted here to the same form. Names are interned,
//! because many calls share them.

use std::borrow::Cow;
use std::sync::Arc;

use ahash::HashMap;
use openskill_redact::Redactor;

/// Converts a trace id. Keeps it unchanged, so that people recognize it, unless it looks like a secret.
pub(super) fn trace(redactor: &Redactor, id: &str) -> Box<str> {
    // Ids from the gateway look random, but are not secrets.
    if id.len() == 32 && id.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f')) {
        return id.into();
    }
    match redactor.text(id) {
        Cow::Owned(redacted) if redacted != id => redactor.id("trace", id).into(),
        _ => id.into(),
    }
}

/// Hashes a call id.
pub(super) fn call(redactor: &Redactor, id: &str) -> Box<str> {
    redactor.id("call", id).into()
}

/// Hashes a session id. Empty if the call has no session.
pub(super) fn session(redactor: &Redactor, id: &str) -> Box<str> {
    if id.is_empty() { id.into() } else { redactor.id("session", id).into() }
}

/// The maximum number of interned names. Callers choose the names of unknown skills, so their number is unlimited.
const MAX_NAMES: usize = 4096;

/// The maximum length of an interned text, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Stores one copy of each name, or of what it is converted to.
#[derive(Debug, Default)]
pub(super) struct NameInterner(HashMap<Box<str>, Arc<str>>);

impl NameInterner {
    pub(super) fn get(&mut self, name: &str) -> Arc<str> {
        self.get_or_make(name, |name| name.into())
    }

    pub(super) fn get_or_make(&mut self, text: &str, make: impl FnOnce(&str) -> Arc<str>) -> Arc<str> {
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
    fn hashes_are_those_of_the_redactor() {
        let redactor = Redactor::default();
        // Ids that were read back from a file are also found.
        assert_eq!(*call(&redactor, "c-1"), redactor.id("call", "c-1"));
        assert_eq!(*session(&redactor, "s-1"), redactor.id("session", "s-1"));
        assert!(session(&redactor, "").is_empty());
        assert_eq!(&*call(&Redactor::off(), "c-1"), "c-1");
    }

    #[test]
    fn a_name_is_kept_once_and_names_are_bounded() {
        let mut names = NameInterner::default();
        assert!(Arc::ptr_eq(&names.get("echo"), &names.get("echo")));
        (0..2 * MAX_NAMES).for_each(|it| drop(names.get(&it.to_string())));
        assert!(names.0.len() <= MAX_NAMES);
    }
}
