//! Output: stdout has what the command was asked for, stderr everything else.

use std::fmt::Display;
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

/// A number and its noun, such as `1 worker` and `2 workers`.
pub(crate) fn counted(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    let ending = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// Removes control characters, which a terminal would interpret. Line breaks and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|it| matches!(it, '\n' | '\t') || !it.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let told = [0, 1, 2, 11].map(|number| counted(number, "worker"));
        assert_eq!(told, ["0 workers", "1 worker", "2 workers", "11 workers"]);
    }
}
