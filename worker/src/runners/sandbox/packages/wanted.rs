//! What a call asks for, and what it gets.

use std::sync::Arc;

use crate::manifest::Manifest;
use crate::runners::python::interpreter::Interpreter;
use crate::schedule::Slot;
use crate::sessions::packages::Package;

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// Normalized.
    pub(crate) name: String,
    /// The exact version; none: the newest that fits.
    pub(crate) version: Option<String>,
}

/// Whom a package is for.
pub(crate) struct Using<'a> {
    /// Downloads and unpacks.
    pub(crate) installer: &'a Interpreter,
    /// What sessions run.
    pub(crate) of_sessions: &'a Interpreter,
    /// The skill that installs, and the one whose sessions are served: their limits hold.
    pub(crate) manifests: (&'a Manifest, &'a Manifest),
    /// Held until nothing runs for the call.
    pub(crate) slot: Arc<Slot>,
}

/// A package that is there to be linked.
#[derive(Debug, Clone)]
pub(crate) struct Provided {
    pub(crate) package: Package,
    /// Whether it is the one that was asked for.
    pub(crate) requested: bool,
    /// Whether there is anything to import.
    pub(crate) has_modules: bool,
    /// Why its import fails.
    pub(crate) fault: Option<String>,
    /// How many of its files no import finds.
    pub(crate) left_out: u64,
}
