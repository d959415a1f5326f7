//! The gRPC face: `SkillService` and `AdminService`, health and reflection.

pub(crate) mod admin;
pub(crate) mod health;
pub(crate) mod inbound;
pub(crate) mod methods;
pub(crate) mod protocol;
pub(crate) mod reflection;
pub(crate) mod skills;
pub(crate) mod status;
mod watch;
