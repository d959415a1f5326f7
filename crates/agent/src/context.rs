//! What the model reads: messages, results, instructions. Pure.

pub mod result;
