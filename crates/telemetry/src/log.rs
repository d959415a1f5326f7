//! Limits and escapes text for logs and terminals.
//!
//! - [`text`]: escapes invisible characters, and those that act on a terminal, in text from outside
//! - [`sampler`]: limits the log lines of one kind per second; [`quota`]: the limit of this process
//! - [`turns`]: background threads that yield the CPU to calls
//!
//! Code that logs a line which a client, a skill or a remote server can trigger at will calls [`admits`] first.

pub mod quota;
pub mod sampler;
pub mod text;
pub mod turns;

pub use quota::admits;

/// The target of what skills write to stderr. The text format shows it as lines of the skill and not of the log.
pub const STDERR: &str = "openskill::stderr";
