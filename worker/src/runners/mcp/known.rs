//! What is known of a server's tools.

use std::collections::BTreeMap;

use super::catalog::Catalog;
use super::pins::Pin;

/// What is known of a server's tools.
#[derive(Default)]
pub(super) struct Known {
    pub(super) catalog: Option<Catalog>,
    /// The tools as they were seen first.
    pub(super) first: BTreeMap<String, Pin>,
    /// Which of the present definitions are no news.
    pub(super) told: BTreeMap<String, Pin>,
    /// What the server had before its manifest changed, and how that was seen first: it counts until this one was tried.
    pub(super) before: Option<(Catalog, BTreeMap<String, Pin>)>,
    /// The file of pins as it was read last; empty if there was none.
    pub(super) agreed: Option<BTreeMap<String, Pin>>,
    /// Somebody pinned a server that was started later than this one.
    pub(super) is_behind: bool,
}

impl Known {
    /// The pins were read. Those that are new are of a server that was started for them: if this one has other tools, its program
    /// was changed since it was started.
    pub(super) fn agree(&mut self, pins: BTreeMap<String, Pin>, now: &BTreeMap<String, Pin>) {
        let differ = pins.iter().any(|(tool, pin)| now.get(tool) != Some(pin));
        let are_new = self.agreed.as_ref().is_some_and(|before| *before != pins);
        self.is_behind |= are_new && differ;
        self.agreed = Some(pins);
    }
}
