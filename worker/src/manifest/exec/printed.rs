//! How the output of a program becomes data, if the program does not follow the contract of scripts.

use serde::Deserialize;

use crate::manifest::error::Fault;

/// What stdout holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// One JSON value: the data.
    Json,
    /// Lines: the data is a list of strings.
    Lines,
    /// A text: the data is a string.
    Text,
}

/// How to read what a program printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// What stdout holds.
    pub output: Output,
    /// The exit codes of a success.
    pub ok_exits: Vec<u8>,
    /// The exit codes that mean that an argument is invalid.
    pub invalid_exits: Vec<u8>,
    /// Whether an error shows the end of stderr to the caller.
    pub show_stderr: bool,
}

/// As written.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) output: Option<Output>,
    pub(super) ok_exits: Option<Vec<u8>>,
    pub(super) invalid_exits: Option<Vec<u8>>,
    pub(super) show_stderr: Option<bool>,
}

/// Checks the settings. None: the program follows the contract.
pub(super) fn resolve(raw: Raw) -> Result<Option<Printed>, Fault> {
    let fault = |reason: String| Err(("exec", reason).into());
    let Some(output) = raw.output else {
        let others = [
            ("ok_exits", raw.ok_exits.is_some()),
            ("invalid_exits", raw.invalid_exits.is_some()),
            ("show_stderr", raw.show_stderr.is_some()),
        ];
        return match others.iter().find(|(_, given)| *given) {
            Some((name, _)) => fault(format!(
                "{name} needs output: json, lines or text; without it, the output and the exit codes are those of a script"
            )),
            None => Ok(None),
        };
    };
    let (ok_exits, invalid_exits) = (raw.ok_exits.unwrap_or_else(|| vec![0]), raw.invalid_exits.unwrap_or_default());
    if ok_exits.is_empty() {
        return fault("ok_exits is empty: the skill could never succeed".to_owned());
    }
    if let Some(both) = ok_exits.iter().find(|code| invalid_exits.contains(code)) {
        return fault(format!("exit code {both} is in ok_exits and in invalid_exits"));
    }
    Ok(Some(Printed { output, ok_exits, invalid_exits, show_stderr: raw.show_stderr.unwrap_or_default() }))
}
