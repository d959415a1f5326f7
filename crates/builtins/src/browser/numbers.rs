//! The numbers by which callers refer to elements. Each session has one sequence for the elements of all
//! documents. Numbers are never reused.

use std::collections::{BTreeMap, HashMap};

/// The maximum number of remembered elements. The oldest are forgotten first, because they are likely stale.
const MOST: usize = 50_000;

/// An element: the key of its document, and its number in that document's script.
pub(super) type Element = (u64, u64);

/// The element numbers of a session.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    last: u64,
    by_element: HashMap<Element, u64>,
    by_number: BTreeMap<u64, Element>,
}

impl Numbers {
    /// Returns the number of an element. Assigns a new one if necessary.
    pub(super) fn assign(&mut self, element: Element) -> u64 {
        if let Some(number) = self.by_element.get(&element) {
            return *number;
        }
        self.last += 1;
        self.by_element.insert(element, self.last);
        self.by_number.insert(self.last, element);
        if self.by_number.len() > MOST
            && let Some((_, oldest)) = self.by_number.pop_first()
        {
            self.by_element.remove(&oldest);
        }
        self.last
    }

    /// Returns the element with this number.
    pub(super) fn find(&self, number: u64) -> Option<Element> {
        self.by_number.get(&number).copied()
    }

    /// Returns whether the number was ever assigned.
    pub(super) fn was_given(&self, number: u64) -> bool {
        (1..=self.last).contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_with_its_element() {
        let mut numbers = Numbers::default();
        assert_eq!([(1, 1), (1, 2), (2, 1), (1, 1)].map(|it| numbers.assign(it)), [1, 2, 3, 1]);
        assert_eq!(numbers.find(3), Some((2, 1)));
        assert_eq!((numbers.find(4), numbers.was_given(4), numbers.was_given(0)), (None, false, false));
    }

    #[test]
    fn the_oldest_are_forgotten_and_not_given_again() {
        let mut numbers = Numbers::default();
        (0..=MOST as u64).for_each(|it| {
            numbers.assign((1, it));
        });
        assert_eq!((numbers.find(1), numbers.was_given(1)), (None, true));
        assert_eq!(numbers.assign((1, 0)), MOST as u64 + 2);
    }
}
