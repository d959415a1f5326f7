//! `openskill-readers`: reads source code and PDF files for a worker, each in a separate, confined process.
//!
//! Both kinds of file may be hostile, and the grammars and libraries are large. So only this program links them.

mod definitions;
mod pdf;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(openskill_readers_protocol::definitions::protocol::ARGUMENT) => definitions::main(),
        Some(openskill_readers_protocol::pdf::ARGUMENT) => pdf::main(),
        _ => ExitCode::from(2),
    }
}
