//! Rejects commands that are missing from a build without the `worker` feature.

use std::ffi::OsString;

use crate::exit::Failure;

/// Commands that run skills on this machine, or write skill files.
const COMMANDS: [&str; 11] = ["up", "worker", "init", "new", "add", "run", "check", "doctor", "manifest", "pin", "sdk"];

/// Subcommands of `openskill tools`.
const TOOLS_COMMANDS: [&str; 4] = ["add", "remove", "index", "pins"];

/// Returns an error if this build lacks the command. `words` is the command line without the program name.
pub(crate) fn refuse_unavailable(mut words: impl Iterator<Item = OsString>) -> Option<Failure> {
    let mut next = || words.next().map(|it| it.to_string_lossy().into_owned());
    let mut first = next()?;
    if first == "--config" {
        next()?;
        first = next()?;
    } else if first.starts_with("--config=") {
        first = next()?;
    }
    if COMMANDS.contains(&first.as_str()) {
        return Some(Failure::NoWorker { command: first });
    }
    let second = next().filter(|it| first == "tools" && TOOLS_COMMANDS.contains(&it.as_str()))?;
    Some(Failure::NoWorker { command: format!("{first} {second}") })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::refuse_unavailable;

    fn reason(line: &str) -> Option<String> {
        refuse_unavailable(line.split(' ').map(OsString::from)).map(|it| it.to_string())
    }

    #[test]
    fn a_command_that_needs_a_worker_says_which_build_has_it() {
        for line in [
            "up --workers 3",
            "worker",
            "check --help",
            "doctor",
            "init x",
            "new a",
            "add core",
            "run a.py",
            "manifest show",
            "pin b",
            "sdk install",
        ] {
            let command = line.split(' ').next().unwrap();
            let said = reason(line).unwrap();
            assert!(said.contains(&format!("`openskill {command}`")) && said.contains("openskill-worker"), "{said}");
        }
        for line in ["--config a.toml check", "--config=a.toml check"] {
            assert!(reason(line).unwrap().contains("`openskill check`"), "{line}");
        }
        assert!(reason("tools add git").unwrap().contains("`openskill tools add`"));
    }

    #[test]
    fn other_commands_are_parsed_as_ever() {
        for line in
            ["gateway", "tools --dialect gemini", "tools", "invoke check", "skills", "workers", "--version", "cheque"]
        {
            assert!(reason(line).is_none(), "{line}");
        }
    }
}
