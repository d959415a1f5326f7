//! What the model reads: messages, results, instructions. Pure.

pub mod messages;
pub mod own_tools;
pub mod prompt;
pub mod result;
