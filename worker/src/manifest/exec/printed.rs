//! Converts the output of a program that does not follow the contract of scripts.

use serde::Deserialize;

use crate::manifest::error::ManifestFault;

/// How to convert stdout to data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// One JSON value, which becomes the data.
    Json,
    /// Lines, which become a list of strings.
    Lines,
    /// Text, which becomes a string.
    Text,
}

/// How to interpret a program's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// How to convert stdout to data.
    pub output: Output,
    /// The exit codes that mean success.
    pub ok_exits: Vec<u8>,
    /// The exit codes that indicate an invalid argument.
    pub invalid_exits: Vec<u8>,
    /// Whether errors show the end of stderr to the caller.
    pub show_stderr: bool,
}

/// The settings as the manifest contains them.
#[derive(Debug)]
pub(super) struct RawPrinted {
    pub(super) output: Option<Output>,
    pub(super) ok_exits: Option<Vec<u8>>,
    pub(super) invalid_exits: Option<Vec<u8>>,
    pub(super) show_stderr: Option<bool>,
}

/// Validates the settings. Returns `None` if the program follows the contract of scripts.
pub(super) fn resolve(raw: RawPrinted) -> Result<Option<Printed>, ManifestFault> {
    let fault = |reason: String| Err(("exec", reason).into());
    let Some(output) = raw.output else {
        let others = [
            ("ok_exits", raw.ok_exits.is_some()),
            ("invalid_exits", raw.invalid_exits.is_some()),
            ("show_stderr", raw.show_stderr.is_some()),
        ];
        return match others.iter().find(|(_, given)| *given) {
            Some((name, _)) => fault(format!(
                "{name} needs output: json, lines or text; without output, the program must print and exit like a script"
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
