//! `openskill completions`: prints a script that lets a shell request completions from this program.

use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::complete::VARIABLE;
use crate::exit::Failure;
use crate::terminal::{print_out, program};

pub(super) fn run(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        let written = completer.write_registration(VARIABLE, "openskill", "openskill", &own_path(), &mut script);
        written.map_err(Failure::system("writing the script"))?;
    }
    print_out(&String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

/// Returns the command that the shell runs: the bare name if the program is on the `PATH`, otherwise the path it
/// was started with.
fn own_path() -> String {
    let name = program();
    let file = Path::new(&name).components().nth(1).and_then(|_| std::env::current_exe().ok());
    file.map_or_else(|| "openskill".to_owned(), |it| it.to_string_lossy().into_owned())
}
