//! The messages between a worker and `openskill-readers`, the program that reads untrusted source code and PDF files.
//!
//! - [`definitions`]: finds the definitions in source code
//! - [`pdf`]: extracts the text of a PDF file

pub mod definitions;
pub mod pdf;
