//! Caches tool definitions: agents list their tools repeatedly, and tools seldom change.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::dialect::Dialect;
use super::tool::Tool;
use super::write::{self, Form};

/// The maximum size of all cached definitions, in bytes. Definitions beyond it are written again for each export.
const MAX_CACHED_BYTES: usize = 64 << 20;

/// The current size of all cached definitions, in bytes.
static CACHED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The definitions of one version of a tool without and with strict mode, in each dialect, written on first use. The
/// owner drops them when anything about the tool changes.
#[derive(Debug, Default)]
pub(crate) struct Forms([[OnceLock<Cached>; Dialect::ALL.len()]; 2]);

impl Forms {
    /// Returns the definition: from the cache, or written and cached.
    pub(super) fn get(&self, tool: &Tool<'_>, name: &str, dialect: Dialect, strict: bool) -> Cow<'_, Form> {
        let slot = &self.0[usize::from(strict)][dialect as usize];
        if slot.get().is_none() {
            match Cached::new(Box::new(write::form(tool, name, dialect, strict))) {
                // Another thread may have stored the same form first.
                Ok(cached) => drop(slot.set(cached)),
                Err(form) => return Cow::Owned(*form),
            }
        }
        match slot.get() {
            Some(cached) if cached.0.name == name => Cow::Borrowed(&cached.0),
            // The cached definition has a different name: it was written for an export in which another tool had
            // this name.
            _ => Cow::Owned(write::form(tool, name, dialect, strict)),
        }
    }
}

/// A definition that counts towards [`MAX_CACHED_BYTES`].
#[derive(Debug)]
struct Cached(Box<Form>);

impl Cached {
    /// Creates a cached definition. Returns the definition itself as an error if the cache is full.
    fn new(form: Box<Form>) -> Result<Self, Box<Form>> {
        let grown = |cached: usize| cached.checked_add(size(&form)).filter(|cached| *cached <= MAX_CACHED_BYTES);
        match CACHED_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => Ok(Self(form)),
            Err(_) => Err(form),
        }
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        CACHED_BYTES.fetch_sub(size(&self.0), Ordering::Relaxed);
    }
}

fn size(form: &Form) -> usize {
    size_of::<Form>() + form.name.len() + form.text.len() + form.notes.iter().map(String::len).sum::<usize>()
}
