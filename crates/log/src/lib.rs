//! What may be written to logs and terminals, and how.
//!
//! - [`text`]: text from outside, with the characters escaped that nobody sees or that act on a terminal
//! - [`sampler`]: how many lines of one kind are logged in a second; [`quota`]: the one of this process
//! - [`turns`]: background threads yield the CPU to calls
//!
//! Whoever logs a line that a client, a skill or a remote server can cause at will asks [`admits`] first.

pub mod quota;
pub mod sampler;
pub mod text;
pub mod turns;

pub use quota::admits;
