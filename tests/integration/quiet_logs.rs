//! What logs and terminals get of the text that callers, models, skills and servers write, and how many lines they can cause.

mod canary;
mod flood;
mod terminal;

/// What a reader can't see, or what acts on the text around it: control characters, Unicode's ignorable characters, line
/// separators and changes of direction.
const HIDDEN: [(char, char); 19] = [
    ('\0', '\u{1f}'),
    ('\u{7f}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

fn is_hidden(character: char) -> bool {
    HIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&character))
}

/// The hidden characters of a text, without line ends.
fn hidden_in(text: &str) -> Vec<char> {
    text.chars().filter(|it| is_hidden(*it) && *it != '\n').collect()
}
