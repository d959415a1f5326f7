//! What is written for people: stdout has what was asked for, stderr all else.

use std::io::Write as _;

/// Writes to stdout, without what would steer a terminal. A reader that went away (`| head`) is no failure.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(plain(text).as_bytes()).and_then(|()| out.flush());
}

/// Writes JSON to stdout, for people and programs.
pub(crate) fn say_json(items: &[serde_json::Value]) {
    say(&format!("{}\n", serde_json::to_string_pretty(items).unwrap_or_default()));
}

/// Writes to stderr.
pub(crate) fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Text of others, a skill's say, without what would steer a terminal. Line ends and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|it| matches!(it, '\n' | '\t') || !it.is_control()).collect()
}
