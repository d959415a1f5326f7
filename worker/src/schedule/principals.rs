//! The principals of a gate's flows. Flows refer to them by number, because choosing the next call compares many flows.

use ahash::HashMap;
use slab::Slab;

/// A principal of at least one flow.
#[derive(Debug)]
struct Principal {
    name: String,
    flows: usize,
    running: usize,
}

/// The principals, each with its number.
#[derive(Debug, Default)]
pub(super) struct Principals {
    by_name: HashMap<String, usize>,
    all: Slab<Principal>,
}

impl Principals {
    /// Adds a flow of a principal. Returns the principal's number.
    pub(super) fn add_flow(&mut self, name: &str) -> usize {
        if let Some(number) = self.by_name.get(name) {
            self.all[*number].flows += 1;
            return *number;
        }
        let number = self.all.insert(Principal { name: name.to_owned(), flows: 1, running: 0 });
        self.by_name.insert(name.to_owned(), number);
        number
    }

    /// Removes a flow. A principal without flows is forgotten.
    pub(super) fn remove_flow(&mut self, number: usize) {
        self.all[number].flows -= 1;
        if self.all[number].flows == 0 {
            self.by_name.remove(&self.all.remove(number).name);
        }
    }

    /// How many calls of a principal run.
    pub(super) fn running(&self, number: usize) -> usize {
        self.all[number].running
    }

    pub(super) fn start(&mut self, number: usize) {
        self.all[number].running += 1;
    }

    pub(super) fn end(&mut self, number: usize) {
        self.all[number].running -= 1;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}
