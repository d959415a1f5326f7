//! The validated settings of the built-in functions.

pub mod browser;
pub mod research;
