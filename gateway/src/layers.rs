//! What happens to every request before its face sees it. The order is written in `server.rs`.

pub(crate) mod body_timeout;
pub(crate) mod deadline;
pub(crate) mod origin;
pub(crate) mod trace;
