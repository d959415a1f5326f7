//! What the worker knows about a server's tools.

use std::collections::BTreeMap;

use super::catalog::Catalog;
use super::pins::Pin;

/// What the worker knows about a server's tools, and the pins that they must match.
#[derive(Default)]
pub(super) struct Known {
    pub(super) catalog: Option<Catalog>,
    /// The tools' pins when they were listed first.
    pub(super) first: BTreeMap<String, Pin>,
    /// The definitions that were already logged.
    pub(super) logged: BTreeMap<String, Pin>,
    /// The catalog and first pins of the server that this one replaces. They apply until this server was tried.
    pub(super) before: Option<(Catalog, BTreeMap<String, Pin>)>,
    /// The lock file's pins, as last read. `None` without a lock file.
    pub(super) agreed: Option<BTreeMap<String, Pin>>,
    /// Whether the pins belong to a newer version of the server's program than the one that is running.
    pub(super) is_behind: bool,
}

impl Known {
    /// Stores newly read pins. New pins come from a freshly started server. If this one has other tools, its
    /// program has changed since it started.
    pub(super) fn agree(&mut self, pins: BTreeMap<String, Pin>, now: &BTreeMap<String, Pin>) {
        let differ = pins.iter().any(|(tool, pin)| now.get(tool) != Some(pin));
        let are_new = self.agreed.as_ref().is_some_and(|before| *before != pins);
        self.is_behind |= are_new && differ;
        self.agreed = Some(pins);
    }
}
