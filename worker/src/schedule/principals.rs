//! The principals of a gate's flows. Flows contain a principal's number, because choosing the next call compares
//! many flows.

use ahash::HashMap;
use slab::Slab;

use super::place_time::PlaceTime;

/// The usage of a principal with at least one flow.
#[derive(Debug)]
pub(super) struct PrincipalUsage {
    name: String,
    flows: usize,
    pub(super) waiting: usize,
    /// The usage of the principal's calls, in virtual time.
    pub(super) used: PlaceTime,
    /// The virtual time among the principal's flows.
    pub(super) time: f64,
}

impl PrincipalUsage {
    /// Advances the virtual time of the flows, which never decreases.
    pub(super) fn advance(&mut self, time: f64) {
        self.time = self.time.max(time);
    }
}

/// All principals, by name and number.
#[derive(Debug, Default)]
pub(super) struct Principals {
    by_name: HashMap<String, usize>,
    all: Slab<PrincipalUsage>,
    /// The virtual time among the principals.
    pub(super) time: f64,
}

impl Principals {
    /// Adds a flow to a principal, and returns the principal's number.
    pub(super) fn add_flow(&mut self, name: &str) -> usize {
        if let Some(number) = self.by_name.get(name) {
            self.all[*number].flows += 1;
            return *number;
        }
        let used = PlaceTime::default();
        let principal = PrincipalUsage { name: name.to_owned(), flows: 1, waiting: 0, used, time: 0.0 };
        let number = self.all.insert(principal);
        self.by_name.insert(name.to_owned(), number);
        number
    }

    /// Removes a flow without calls. Forgets a principal without flows.
    pub(super) fn remove_flow(&mut self, number: usize) {
        self.all[number].flows -= 1;
        if self.all[number].flows == 0 {
            self.by_name.remove(&self.all.remove(number).name);
        }
    }

    /// Advances the virtual time of the principals, which never decreases.
    pub(super) fn advance(&mut self, time: f64) {
        self.time = self.time.max(time);
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, number: usize) -> &PrincipalUsage {
        &self.all[number]
    }

    pub(super) fn get_mut(&mut self, number: usize) -> &mut PrincipalUsage {
        &mut self.all[number]
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<&str> {
        assert_eq!(self.by_name.len(), self.all.len());
        self.all.iter().map(|(_, it)| it.name.as_str()).collect()
    }
}
