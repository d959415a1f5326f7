//! Output of commands: results go to stdout, everything else to stderr.
//!
//! All output passes through [`openskill_telemetry::log::text`], in this module only. Names, messages and data come from skills and
//! servers, and may contain characters that a terminal would interpret.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{IsTerminal, Write as _};

use openskill_telemetry::log::text;
use rustix::fd::AsFd;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The maximum length of arguments or a message within a line, in characters.
const MAX_SHOWN: usize = 100;

/// Writes to stdout, with hidden characters escaped. A closed pipe (`| head`) is not an error.
pub(crate) fn print_out(text: &str) {
    write_stdout(&text::lines(text));
}

/// Writes JSON text to stdout. Hidden characters become JSON escapes, so that the text parses to the same value.
pub(crate) fn print_json(json: &str) {
    write_stdout(&text::json(json));
}

/// Writes a JSON value to stdout, indented.
pub(crate) fn print_value(value: &serde_json::Value) {
    print_json(&format!("{}\n", serde_json::to_string_pretty(value).unwrap_or_default()));
}

/// The style of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Code,
}

impl Style {
    fn begin(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Code => "\x1b[36m",
        }
    }
}

/// Writes a line of styled pieces to stdout, with hidden characters escaped. `has_styles`: stdout is a terminal
/// that shows styles.
pub(crate) fn print_styled(pieces: &[(Style, String)], has_styles: bool) {
    const END: &str = "\x1b[0m";
    let mut line = String::new();
    for (style, piece) in pieces {
        let (begin, end) = if has_styles && *style != Style::Plain { (style.begin(), END) } else { ("", "") };
        line.push_str(begin);
        line.push_str(&text::lines(piece));
        line.push_str(end);
    }
    line.push('\n');
    write_stdout(&line);
}

fn write_stdout(text: &str) {
    let mut out = std::io::stdout().lock();
    // If stdout is closed, the error cannot be reported anywhere.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes to stderr, with hidden characters escaped.
pub(crate) fn print_err(text: &str) {
    let _ = std::io::stderr().lock().write_all(text::lines(text).as_bytes());
}

/// Replaces the current line of the terminal on stderr. Truncates the new line, because a part that wraps could not be
/// replaced.
pub(crate) fn overwrite(line: &str) {
    const CLEAR: &str = "\r\x1b[K";
    let line = text::one_line(line);
    let line = columns(std::io::stderr()).map_or_else(|| line.clone(), |it| cut(&line, it.saturating_sub(1)).into());
    let _ = std::io::stderr().lock().write_all(format!("{CLEAR}{line}").as_bytes());
}

/// Returns the width of the terminal of a stream. `None` if the stream is not a terminal: text in a pipe or a file is
/// never truncated.
pub(crate) fn columns(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Truncates a text without hidden characters to a width. A text that is cut ends with an ellipsis.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = text.chars().take_while(|it| {
        let wide = it.width().unwrap_or_default();
        let is_in = wide <= left;
        left = left.saturating_sub(wide);
        is_in
    });
    format!("{}…", fits.collect::<String>().trim_end())
}

/// Shortens arguments or a message within a line, by number of characters.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Quotes a word for a shell.
pub(crate) fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Whether a stream is colored: only on a terminal, and only if `NO_COLOR` is empty or unset
/// (<https://no-color.org>).
pub(crate) fn has_colours(stream: &impl IsTerminal) -> bool {
    wants_colours(stream.is_terminal(), std::env::var_os("NO_COLOR").as_deref())
}

fn wants_colours(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

/// Returns the name this program was started with, for commands that the user can type.
pub(crate) fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "openskill".to_owned())
}

/// Formats a number with its noun, such as `1 worker` and `2 workers`.
pub(crate) fn pluralize(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    let ending = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_turns_colours_off_unless_it_is_empty() {
        for (is_terminal, no_color, expected) in
            [(true, None, true), (true, Some(""), true), (true, Some("1"), false), (false, None, false)]
        {
            assert_eq!(wants_colours(is_terminal, no_color.map(OsStr::new)), expected, "{is_terminal} {no_color:?}");
        }
    }

    #[test]
    fn long_arguments_are_shortened() {
        assert_eq!(shorten("{}"), "{}");
        assert_eq!(shorten(&"é".repeat(500)).chars().count(), MAX_SHOWN + 1);
    }

    #[test]
    fn one_is_singular() {
        let told = [0, 1, 2, 11].map(|number| pluralize(number, "worker"));
        assert_eq!(told, ["0 workers", "1 worker", "2 workers", "11 workers"]);
    }
}
