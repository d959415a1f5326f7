//! Package requests and their results.

use std::sync::Arc;

use super::jailed::JailedInterpreter;
use crate::schedule::Slot;
use crate::sessions::packages::Package;

/// A request for a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackageRequest {
    /// The normalized package name.
    pub(crate) name: String,
    /// The exact version, or `None` for the newest compatible one.
    pub(crate) version: Option<String>,
}

/// The interpreters and skills of an installation.
pub(crate) struct Using<'a> {
    /// The interpreter that downloads and unpacks the packages, and the skill that installs.
    pub(crate) installer: JailedInterpreter<'a>,
    /// The interpreter of the sessions that get the packages, and their skill.
    pub(crate) of_sessions: JailedInterpreter<'a>,
    /// Held until all processes of the call have ended.
    pub(crate) slot: Arc<Slot>,
}

/// A package that is ready to be linked into a session.
#[derive(Debug, Clone)]
pub(crate) struct Provided {
    pub(crate) package: Package,
    /// Whether it is the requested package rather than a dependency.
    pub(crate) requested: bool,
    /// Whether it contains modules to import.
    pub(crate) has_modules: bool,
    /// Why the import failed. `None` if it succeeded.
    pub(crate) fault: Option<String>,
    /// The number of its files that can't be imported.
    pub(crate) left_out: u64,
}
