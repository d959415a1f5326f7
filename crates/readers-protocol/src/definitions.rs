//! The definitions in source code: functions, classes, types. A separate process finds them with tree-sitter.
//!
//! The grammars are written in C, and the source code is untrusted. So a program that needs definitions starts a
//! process (`openskill-readers` with [`protocol::ARGUMENT`]), confines it, and sends it a request and the source.
//! The process replies with the definitions.
//!
//! - [`language`]: the languages and their file extensions
//! - [`protocol`]: the messages between the program and the process

pub mod language;
pub mod protocol;
