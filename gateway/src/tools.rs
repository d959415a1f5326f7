//! Which skills a caller can use as tools.
//!
//! - [`disabled`]: why one can't be called now
//! - [`needs`]: which of them a task needs: a skill that the gateway answers itself

pub(crate) mod disabled;
pub(crate) mod needs;
