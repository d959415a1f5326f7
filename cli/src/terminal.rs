//! Output: stdout has what the command was asked for, stderr everything else.

use std::io::Write as _;

/// Writes to stdout without control characters. A closed pipe (`| head`) is not an error.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(plain(text).as_bytes()).and_then(|()| out.flush());
}

/// Writes indented JSON to stdout.
pub(crate) fn say_json(items: &[serde_json::Value]) {
    say(&format!("{}\n", serde_json::to_string_pretty(items).unwrap_or_default()));
}

/// Writes to stderr.
pub(crate) fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Removes control characters, which a terminal would interpret. Line breaks and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|it| matches!(it, '\n' | '\t') || !it.is_control()).collect()
}
