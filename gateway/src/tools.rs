//! Decides which skills a caller can use as tools.
//!
//! - [`disabled`]: why a skill can't currently be called
//! - [`needs`]: a skill that the gateway itself runs, which finds the tools that a task needs

pub(crate) mod disabled;
pub(crate) mod needs;
