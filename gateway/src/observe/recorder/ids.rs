//! Ids as they are kept. Whoever looks for a call has its id as it was sent, and gets the same form from here.

use std::borrow::Cow;

use openskill_redact::Redactor;

/// A trace id stays as it is, so that people recognize it, unless it looks like a secret.
pub(super) fn trace(redactor: &Redactor, id: &str) -> String {
    // What the gateway generates looks random, and is no secret.
    let is_generated = || id.len() == 32 && id.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    if is_generated() {
        return id.to_owned();
    }
    match redactor.text(id) {
        Cow::Owned(redacted) if redacted != id => redactor.id("trace", id),
        _ => id.to_owned(),
    }
}

/// The hash of a call's id.
pub(super) fn call(redactor: &Redactor, id: &str) -> String {
    redactor.id("call", id)
}

/// The hash of a session's id. Empty if there is none.
pub(super) fn session(redactor: &Redactor, id: &str) -> String {
    if id.is_empty() { String::new() } else { redactor.id("session", id) }
}
