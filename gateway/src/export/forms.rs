//! Caches tool definitions: agents list their tools repeatedly, and tools seldom change.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::dialect::Dialect;
use super::tool::Tool;
use super::write::{self, Form, StrictForm};

/// The maximum size of all cached definitions, in bytes. Definitions beyond it are written again for each export.
const MAX_CACHED_BYTES: usize = 64 << 20;

/// The current size of all cached definitions, in bytes.
static CACHED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The definitions of one version of a tool in each dialect, written on first use. The owner drops them when
/// anything about the tool changes.
#[derive(Debug, Default)]
pub(crate) struct Forms {
    plain: [Slot<Form>; Dialect::ALL.len()],
    strict: [Slot<StrictForm>; Dialect::ALL.len()],
}

type Slot<T> = OnceLock<Box<Cached<T>>>;

impl Forms {
    /// Returns the definition without strict mode.
    pub(super) fn plain(&self, tool: &Tool<'_>, name: &str, dialect: Dialect) -> Cow<'_, Form> {
        get(&self.plain[dialect as usize], name, || write::plain(tool, name, dialect))
    }

    /// Returns the definition in strict mode, or why the tool can't have one.
    pub(super) fn strict(&self, tool: &Tool<'_>, name: &str, dialect: Dialect) -> Cow<'_, StrictForm> {
        get(&self.strict[dialect as usize], name, || write::strict(tool, name, dialect))
    }
}

/// A cacheable value, which may contain a definition.
trait Cacheable: Clone {
    fn form(&self) -> Option<&Form>;
}

impl Cacheable for Form {
    fn form(&self) -> Option<&Form> {
        Some(self)
    }
}

impl Cacheable for StrictForm {
    fn form(&self) -> Option<&Form> {
        self.as_ref().ok()
    }
}

/// Returns the cached value of a slot, or writes and caches it.
fn get<'a, T: Cacheable>(slot: &'a Slot<T>, name: &str, write: impl Fn() -> T) -> Cow<'a, T> {
    if slot.get().is_none() {
        match Cached::new(write()) {
            // Another thread may have stored the same value first.
            Ok(cached) => drop(slot.set(Box::new(cached))),
            Err(value) => return Cow::Owned(value),
        }
    }
    match slot.get() {
        Some(cached) if cached.value.form().is_none_or(|form| form.name == name) => Cow::Borrowed(&cached.value),
        // The cached definition has a different name: it was written for an export in which another tool had this
        // name.
        _ => Cow::Owned(write()),
    }
}

/// A value that counts towards [`MAX_CACHED_BYTES`].
#[derive(Debug)]
struct Cached<T> {
    value: T,
    bytes: usize,
}

impl<T: Cacheable> Cached<T> {
    /// Creates a cached value. Returns the value itself as an error if the cache is full.
    fn new(value: T) -> Result<Self, T> {
        let bytes = size_of::<Self>() + value.form().map_or(0, form_bytes);
        let grown = |cached: usize| cached.checked_add(bytes).filter(|cached| *cached <= MAX_CACHED_BYTES);
        match CACHED_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => Ok(Self { value, bytes }),
            Err(_) => Err(value),
        }
    }
}

impl<T> Drop for Cached<T> {
    fn drop(&mut self) {
        CACHED_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn form_bytes(form: &Form) -> usize {
    form.name.len() + form.text.len() + form.notes.iter().map(String::len).sum::<usize>()
}
