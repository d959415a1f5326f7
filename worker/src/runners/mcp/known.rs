//! The tools of a server, as seen so far.

use std::collections::BTreeMap;

use super::catalog::Catalog;
use super::pins::Pin;

/// The tools of a server, as seen so far.
#[derive(Default)]
pub(super) struct Known {
    pub(super) catalog: Option<Catalog>,
    /// The pins of the tools as they were listed first.
    pub(super) first: BTreeMap<String, Pin>,
    /// The definitions that were logged already.
    pub(super) told: BTreeMap<String, Pin>,
    /// The catalog of the server before it, and its first pins. They count until this server was tried.
    pub(super) before: Option<(Catalog, BTreeMap<String, Pin>)>,
    /// The file of pins as it was last read; empty if there was none.
    pub(super) agreed: Option<BTreeMap<String, Pin>>,
    /// The pins are those of a program that is newer than this process.
    pub(super) is_behind: bool,
}

impl Known {
    /// The pins were read. New pins come from a freshly started server: if this one has other tools, its program changed after
    /// its start.
    pub(super) fn agree(&mut self, pins: BTreeMap<String, Pin>, now: &BTreeMap<String, Pin>) {
        let differ = pins.iter().any(|(tool, pin)| now.get(tool) != Some(pin));
        let are_new = self.agreed.as_ref().is_some_and(|before| *before != pins);
        self.is_behind |= are_new && differ;
        self.agreed = Some(pins);
    }
}
