//! The definitions in source code: functions, classes, types. Found with tree-sitter, in a process of its own.
//!
//! The grammars are C, and source code may come from anybody. So whoever wants definitions starts a process (the program
//! `openskill-readers` with [`protocol::ARGUMENT`]), confines it as it sees fit, and talks to it: a request and the source go in,
//! a reply comes out.
//!
//! - [`language`]: the languages, by the names of files
//! - [`protocol`]: what the two sides say to each other

pub mod language;
pub mod protocol;
