//! Makes file names and media types from skills safe to pass on. Pure.

/// The maximum length of a file name on common file systems, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// The maximum length of a media type (RFC 6838), in bytes.
const MAX_MEDIA_TYPE_BYTES: usize = 127;

/// Replaces an unusable artifact name.
const NAMELESS: &str = "artifact";

/// Replaces an invalid media type.
const UNKNOWN: &str = "application/octet-stream";

/// Returns the last component of a path, without characters that have a meaning for file systems or terminals.
pub(super) fn file_name(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut name: String = last.chars().filter(|it| !is_hidden(*it)).map(plain).collect();
    name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
    match name.trim() {
        "" | "." | ".." => NAMELESS.to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

/// Normalizes a media type to `type/subtype` in lower case, without parameters.
pub(super) fn media_type(given: &str) -> String {
    let essence = given.split(';').next().unwrap_or_default().trim();
    let is_token = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte));
    let is_valid = essence.len() <= MAX_MEDIA_TYPE_BYTES
        && essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    if is_valid { essence.to_ascii_lowercase() } else { UNKNOWN.to_owned() }
}

/// Returns whether a character is invisible or changes the text direction. Such characters can disguise an
/// extension.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn plain(character: char) -> char {
    if matches!(character, '<' | '>' | ':' | '"' | '|' | '?' | '*') { '_' } else { character }
}

/// Returns whether a media type's token may contain this character, in addition to letters and digits.
fn is_mark(byte: u8) -> bool {
    b"!#$&-^_.+".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_plain_file_name() {
        for (given, expected) in [
            ("plot.png", "plot.png"),
            ("../../etc/passwd", "passwd"),
            ("C:\\temp\\a.txt", "a.txt"),
            ("Bericht für März.pdf", "Bericht für März.pdf"),
            ("a\0b\n.png", "ab.png"),
            ("gnp.\u{202e}exe", "gnp.exe"),
            ("what?.txt", "what_.txt"),
            ("folder/", NAMELESS),
            ("..", NAMELESS),
            ("", NAMELESS),
        ] {
            assert_eq!(file_name(given), expected, "{given:?}");
        }
        assert_eq!(file_name(&"é".repeat(200)).len(), 254);
    }

    #[test]
    fn a_media_type_is_valid_or_unknown() {
        for (given, expected) in [
            ("image/png", "image/png"),
            ("Image/SVG+XML", "image/svg+xml"),
            ("text/plain; charset=utf-8", "text/plain"),
            ("image", UNKNOWN),
            ("image/", UNKNOWN),
            ("a/b/c", UNKNOWN),
            ("image/png\r\nX-Evil: 1", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(media_type(given), expected, "{given:?}");
        }
        assert_eq!(media_type(&format!("a/{}", "b".repeat(126))), UNKNOWN);
    }
}
