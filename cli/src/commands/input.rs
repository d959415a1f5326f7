//! Command input from a flag's value, a file or stdin, and yes-or-no questions on the terminal.

use std::fs::File;
use std::io::{IsTerminal as _, Read};

use openskill_proto::limits::MAX_REQUEST_BYTES;

use crate::exit::Failure;
use crate::terminal::print_err;

/// Returns `text`, or reads stdin if it is `-`.
pub(super) fn text_or_stdin(text: &str) -> Result<String, Failure> {
    if text == "-" { read(std::io::stdin(), "stdin") } else { Ok(text.to_owned()) }
}

/// Returns `text`, or reads a file (`@FILE`) or stdin (`@-` or `-`). JSON never begins with an @.
pub(super) fn json_or_file(text: &str) -> Result<String, Failure> {
    match text.strip_prefix('@') {
        Some("-") => text_or_stdin("-"),
        Some(path) => {
            let file = File::open(path).map_err(Failure::system(format!("reading '{path}'")))?;
            read(file, &format!("'{path}'"))
        }
        None => text_or_stdin(text),
    }
}

/// Reads to the end, up to the maximum size of a request.
fn read(source: impl Read, name: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let beyond = MAX_REQUEST_BYTES as u64 + 1;
    source.take(beyond).read_to_string(&mut text).map_err(Failure::system(format!("reading {name}")))?;
    if text.len() > MAX_REQUEST_BYTES {
        return Err(Failure::Usage(format!(
            "{name} is larger than the maximum request size of {MAX_REQUEST_BYTES} bytes"
        )));
    }
    Ok(text)
}

/// Asks on the terminal. Returns `None` if stdin is not a terminal. Any answer except yes means no.
pub(super) fn confirm(question: &str) -> Result<Option<bool>, Failure> {
    if !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    print_err(&format!("{question} [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::system("reading stdin"))?;
    Ok(Some(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")))
}

/// Parses `yes`, `no` and their short forms.
pub(super) fn yes_or_no(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" => Some(true),
        "n" | "no" | "false" => Some(false),
        _ => None,
    }
}
