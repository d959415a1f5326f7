//! The gRPC face: `SkillService` and `AdminService`.

pub(crate) mod admin;
pub(crate) mod skills;
pub(crate) mod status;
mod watch;
