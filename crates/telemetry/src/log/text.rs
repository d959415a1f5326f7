//! Escapes untrusted text so that it is safe to show. All functions are pure.
//!
//! One rule applies to text logs, JSON logs and command output: characters are escaped if they are invisible or
//! change the text around them. The three forms differ only in the escape syntax and in the line breaks that they
//! keep.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Characters that are invisible, or that reorder or break the text around them, in addition to control characters.
///
/// Unicode's `Default_Ignorable_Code_Point`, the line and paragraph separators, and the interlinear annotations.
pub const HIDDEN: [(char, char); 21] = [
    ('\u{ad}', '\u{ad}'),       // soft hyphen
    ('\u{34f}', '\u{34f}'),     // combining grapheme joiner
    ('\u{61c}', '\u{61c}'),     // Arabic letter mark
    ('\u{115f}', '\u{1160}'),   // Hangul fillers
    ('\u{17b4}', '\u{17b5}'),   // Khmer inherent vowels
    ('\u{180b}', '\u{180f}'),   // Mongolian selectors
    ('\u{200b}', '\u{200f}'),   // zero width, and direction marks
    ('\u{2028}', '\u{2029}'),   // line and paragraph separator
    ('\u{202a}', '\u{202e}'),   // direction embeddings and overrides
    ('\u{2060}', '\u{206f}'),   // invisible operators, direction isolates, deprecated format characters
    ('\u{3164}', '\u{3164}'),   // Hangul filler
    ('\u{fe00}', '\u{fe0f}'),   // variation selectors
    ('\u{feff}', '\u{feff}'),   // byte order mark
    ('\u{ffa0}', '\u{ffa0}'),   // halfwidth Hangul filler
    ('\u{fff0}', '\u{fff8}'),   // unassigned, ignorable
    ('\u{fff9}', '\u{fffb}'),   // interlinear annotations
    ('\u{1bca0}', '\u{1bca3}'), // shorthand format controls
    ('\u{1d173}', '\u{1d17a}'), // musical format controls
    ('\u{e0000}', '\u{e00ff}'), // tags
    ('\u{e0100}', '\u{e01ef}'), // variation selectors supplement
    ('\u{e01f0}', '\u{e0fff}'), // unassigned, ignorable
];

/// Whether a character must be escaped.
pub fn is_hidden(character: char) -> bool {
    let is_listed = || HIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&character));
    character.is_control() || character >= HIDDEN[0].0 && is_listed()
}

/// Escapes text for one line of a log or one table cell. Uses visible escapes such as `
/// ` and `\u{202e}`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false, write_visible)
}

/// Escapes text for a terminal. Uses visible escapes, and keeps line breaks and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |it| matches!(it, '\n' | '\t'), write_visible)
}

/// Escapes JSON text with `\u` escapes, so that it parses to the same value. Keeps line breaks between values.
pub fn json(text: &str) -> Cow<'_, str> {
    escape(text, |it| it == '\n', write_json)
}

/// A writer that escapes like [`one_line`].
#[derive(Debug)]
pub struct OneLine<W>(pub W);

impl<W: Write> Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape_into(&mut self.0, text, |_| false, write_visible)
    }
}

/// Writes a character as a JSON escape. Characters above U+FFFF become a surrogate pair, two escapes.
///
/// # Errors
/// The writer's error.
pub fn write_json(out: &mut dyn Write, character: char) -> fmt::Result {
    character.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}

fn write_visible(out: &mut dyn Write, character: char) -> fmt::Result {
    write!(out, "{}", character.escape_default())
}

type WriteEscape = fn(&mut dyn Write, char) -> fmt::Result;

fn escape(text: &str, is_kept: fn(char) -> bool, write_escape: WriteEscape) -> Cow<'_, str> {
    if !text.contains(|it| is_hidden(it) && !is_kept(it)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    // Writing to a String cannot fail.
    let _ = escape_into(&mut out, text, is_kept, write_escape);
    Cow::Owned(out)
}

fn escape_into(out: &mut dyn Write, text: &str, is_kept: fn(char) -> bool, write_escape: WriteEscape) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(|it| is_hidden(it) && !is_kept(it)) {
        let (before, after) = rest.split_at(at);
        out.write_str(before)?;
        let mut characters = after.chars();
        if let Some(hidden) = characters.next() {
            write_escape(out, hidden)?;
        }
        rest = characters.as_str();
    }
    out.write_str(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every escaped character: control characters, and all of [`HIDDEN`].
    fn all() -> impl Iterator<Item = char> {
        let controls = ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}');
        controls.chain(HIDDEN.into_iter().flat_map(|(first, last)| first..=last))
    }

    #[test]
    fn every_listed_character_is_escaped_and_its_neighbours_are_not() {
        for character in all() {
            let text = format!("a{character}b");
            assert!(is_hidden(character), "{character:?}");
            let visible = format!("a{}b", character.escape_default());
            assert_eq!(one_line(&text), visible);
            let stays = matches!(character, '\n' | '\t');
            assert_eq!(lines(&text), if stays { text.as_str() } else { visible.as_str() });
            assert!(!json(&text).contains(|it| is_hidden(it) && it != '\n'), "{character:?}");
        }
        for shown in ["plain", "é", "“quoted” – text…", "日本語", "مرحبا", "שלום", "👍", "\u{a0}", "\u{3000}"]
        {
            assert!(matches!(one_line(shown), Cow::Borrowed(it) if it == shown), "{shown}");
        }
    }

    #[test]
    fn the_ranges_are_sorted_and_apart() {
        assert!(HIDDEN.iter().all(|(first, last)| first <= last));
        assert!(HIDDEN.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    #[test]
    fn the_attacks_that_are_known_are_listed() {
        for (name, character) in [
            ("escape", '\u{1b}'),
            ("C1 control sequence introducer", '\u{9b}'),
            ("next line", '\u{85}'),
            ("right-to-left override", '\u{202e}'),
            ("first isolate", '\u{2066}'),
            ("last isolate", '\u{2069}'),
            ("line separator", '\u{2028}'),
            ("paragraph separator", '\u{2029}'),
            ("zero width space", '\u{200b}'),
            ("zero width joiner", '\u{200d}'),
            ("word joiner", '\u{2060}'),
            ("byte order mark", '\u{feff}'),
            ("tag", '\u{e0041}'),
            ("variation selector", '\u{e0100}'),
        ] {
            assert!(is_hidden(character), "{name}");
        }
    }

    #[test]
    fn a_json_escape_above_the_basic_plane_is_a_surrogate_pair() {
        assert_eq!(json("\"\u{202e}\u{e0041}\u{7f}\"\n"), "\"\\u202e\\udb40\\udc41\\u007f\"\n");
    }

    #[test]
    fn a_writer_escapes_across_writes() {
        let mut out = OneLine(String::new());
        writeln!(out, "a\u{202e}").and_then(|()| write!(out, "{:?}", "\u{3164}\u{200b}")).unwrap();
        assert_eq!(out.0, "a\\u{202e}\\n\"\\u{3164}\\u{200b}\"");
    }
}
