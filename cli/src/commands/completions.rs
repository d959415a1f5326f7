//! `openskill completions`: a script that makes a shell ask this program what it can complete.

use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::complete::VARIABLE;
use crate::exit::Failure;
use crate::terminal::{program, say};

pub(super) fn run(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        let written = completer.write_registration(VARIABLE, "openskill", "openskill", &own_path(), &mut script);
        written.map_err(Failure::system("writing the script"))?;
    }
    say(&String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

/// What the shell runs: the program on the `PATH`, or the file that was started by its path.
fn own_path() -> String {
    let name = program();
    let file = Path::new(&name).components().nth(1).and_then(|_| std::env::current_exe().ok());
    file.map_or_else(|| "openskill".to_owned(), |it| it.to_string_lossy().into_owned())
}
