//! Input of commands: a flag's value, or stdin.

use std::io::Read as _;

use crate::exit::Failure;

/// Returns `text`, or reads stdin if it is `-`.
pub(super) fn text_or_stdin(text: &str) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).map_err(Failure::system("reading stdin"))?;
    Ok(input)
}
