//! A tool as a provider takes it, written once: agents ask for their tools again and again, and tools seldom change.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::limits::Taken;
use super::{Dialect, Tool, write};

/// All that is kept, of all tools in all dialects. What finds no room is written each time.
const MOST_KEPT_BYTES: usize = 64 << 20;

/// What is kept now.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// What is written of one version of a tool, for each dialect, when it is first asked for. Whoever keeps it forgets it
/// when anything of the tool changes.
#[derive(Debug, Default)]
pub(crate) struct Forms {
    plain: [Place<Form>; Dialect::ALL.len()],
    strict: [Place<Strict>; Dialect::ALL.len()],
}

/// A definition, under one name.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) name: String,
    /// A JSON object.
    pub(super) text: String,
    /// What the provider's rules left no place for.
    pub(super) notes: Vec<String>,
    /// What it takes of the provider's limits for strict tools.
    pub(super) taken: Taken,
}

/// A strict definition, or why there can't be one.
pub(super) type Strict = Result<Form, String>;

impl Forms {
    /// The definition that leaves it to the model to write what fits.
    pub(super) fn plain(&self, tool: &Tool<'_>, name: &str, dialect: Dialect) -> Cow<'_, Form> {
        get(&self.plain[dialect as usize], name, || write::plain(tool, name, dialect))
    }

    /// The definition by which a model can only write what fits.
    pub(super) fn strict(&self, tool: &Tool<'_>, name: &str, dialect: Dialect) -> Cow<'_, Strict> {
        get(&self.strict[dialect as usize], name, || write::strict(tool, name, dialect))
    }
}

/// What a place is for.
trait Written: Clone {
    fn form(&self) -> Option<&Form>;
}

impl Written for Form {
    fn form(&self) -> Option<&Form> {
        Some(self)
    }
}

impl Written for Strict {
    fn form(&self) -> Option<&Form> {
        self.as_ref().ok()
    }
}

type Place<T> = OnceLock<Box<Kept<T>>>;

/// What is in a place, or was just written for it.
fn get<'a, T: Written>(place: &'a Place<T>, name: &str, write: impl Fn() -> T) -> Cow<'a, T> {
    if place.get().is_none() {
        match Kept::new(write()) {
            // Somebody else may have been quicker, with the same.
            Ok(kept) => drop(place.set(Box::new(kept))),
            Err(written) => return Cow::Owned(written),
        }
    }
    match place.get() {
        Some(kept) if kept.written.form().is_none_or(|form| form.name == name) => Cow::Borrowed(&kept.written),
        // It was written where another tool had this name.
        _ => Cow::Owned(write()),
    }
}

/// What has its share of [`MOST_KEPT_BYTES`].
#[derive(Debug)]
struct Kept<T> {
    written: T,
    bytes: usize,
}

impl<T: Written> Kept<T> {
    /// Gives it back if there is no room.
    fn new(written: T) -> Result<Self, T> {
        let bytes = size_of::<Self>() + written.form().map_or(0, Form::bytes);
        let room = |kept: usize| kept.checked_add(bytes).filter(|kept| *kept <= MOST_KEPT_BYTES);
        match KEPT_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) {
            Ok(_) => Ok(Self { written, bytes }),
            Err(_) => Err(written),
        }
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        KEPT_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Form {
    fn bytes(&self) -> usize {
        self.name.len() + self.text.len() + self.notes.iter().map(String::len).sum::<usize>()
    }
}
