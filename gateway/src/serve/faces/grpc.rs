//! The gRPC face: `SkillService`, `AdminService` and `TraceService`, health and reflection.

pub(crate) mod admin;
pub(crate) mod health;
pub(crate) mod operations;
pub(crate) mod protocol;
pub(crate) mod reflection;
pub(crate) mod skills;
pub(crate) mod status;
mod traces;
mod watch;
