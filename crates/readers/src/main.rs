//! `openskill-readers`: reads source code and PDF files for a worker, each in a process of its own, which the worker confines.
//!
//! Both formats are hostile, and their grammars and libraries are large. So they are in no other program.

mod definitions;
mod pdf;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(openskill_definitions::protocol::ARGUMENT) => definitions::main(),
        Some(openskill_research::pdf_protocol::ARGUMENT) => pdf::main(),
        _ => ExitCode::from(2),
    }
}
