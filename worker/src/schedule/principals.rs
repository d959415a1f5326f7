//! The principals of a gate's flows. Flows refer to them by number, because choosing the next call compares many flows.

use ahash::HashMap;
use slab::Slab;

use super::place_time::PlaceTime;

/// A principal of at least one flow.
#[derive(Debug)]
pub(super) struct Principal {
    name: String,
    flows: usize,
    pub(super) waiting: usize,
    /// What its calls used, in virtual time.
    pub(super) used: PlaceTime,
    /// The virtual time of its flows.
    pub(super) time: f64,
}

impl Principal {
    /// Virtual time never goes back.
    pub(super) fn advance(&mut self, time: f64) {
        self.time = self.time.max(time);
    }
}

/// The principals, each with its number.
#[derive(Debug, Default)]
pub(super) struct Principals {
    by_name: HashMap<String, usize>,
    all: Slab<Principal>,
    /// The virtual time of the principals.
    pub(super) time: f64,
}

impl Principals {
    /// Adds a flow of a principal. Returns the principal's number.
    pub(super) fn add_flow(&mut self, name: &str) -> usize {
        if let Some(number) = self.by_name.get(name) {
            self.all[*number].flows += 1;
            return *number;
        }
        let used = PlaceTime::default();
        let principal = Principal { name: name.to_owned(), flows: 1, waiting: 0, used, time: 0.0 };
        let number = self.all.insert(principal);
        self.by_name.insert(name.to_owned(), number);
        number
    }

    /// Removes a flow without calls. A principal without flows is forgotten.
    pub(super) fn remove_flow(&mut self, number: usize) {
        self.all[number].flows -= 1;
        if self.all[number].flows == 0 {
            self.by_name.remove(&self.all.remove(number).name);
        }
    }

    /// Virtual time never goes back.
    pub(super) fn advance(&mut self, time: f64) {
        self.time = self.time.max(time);
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, number: usize) -> &Principal {
        &self.all[number]
    }

    pub(super) fn get_mut(&mut self, number: usize) -> &mut Principal {
        &mut self.all[number]
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<&str> {
        assert_eq!(self.by_name.len(), self.all.len());
        self.all.iter().map(|(_, it)| it.name.as_str()).collect()
    }
}
