//! Short texts that many calls have in common, each kept once.

use std::sync::Arc;

use ahash::{HashMap, HashSet};

/// How many names are kept. Names of unknown skills are the callers' own, so there may be any number.
const MAX_NAMES: usize = 4096;

/// The longest text that is remembered.
const MAX_NAME_BYTES: usize = 128;

/// The names.
#[derive(Debug, Default)]
pub(super) struct Names(HashSet<Arc<str>>);

impl Names {
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

/// What was made of texts.
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
        // A long text is no name.
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
    fn a_name_is_kept_once_and_names_are_bounded() {
        let mut names = Names::default();
        assert!(Arc::ptr_eq(&names.get("echo"), &names.get("echo")));
        (0..2 * MAX_NAMES).for_each(|it| drop(names.get(&it.to_string())));
        assert!(names.0.len() <= MAX_NAMES);
    }
}
