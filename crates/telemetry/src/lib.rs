//! What openskill tells its operators: logs, metrics and traces.
//!
//! - [`log`]: escapes text and limits the number of lines
//! - [`metrics`]: all metrics by name, and their text formats
//! - [`trace`]: the OpenTelemetry spans of a call

pub mod log;
pub mod metrics;
pub mod trace;
