//! Values that were cut before they came here: feedback quotes the beginning of an argument, and `…`. If it was cut within a
//! secret, nobody recognizes what is left of that.

use std::borrow::Cow;

use openskill_redact::Redactor;

/// What shows that a value was cut.
const ELLIPSIS: &str = "…";

/// Fewer characters than this say nothing of a secret.
const LEAST: usize = 4;

/// Text, or a document, in which the word before each ellipsis is masked.
pub(super) fn masked(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.contains(ELLIPSIS) {
        return text;
    }
    let mut masked = String::with_capacity(text.len());
    for part in text.split_inclusive(ELLIPSIS) {
        let Some(before) = part.strip_suffix(ELLIPSIS) else {
            masked.push_str(part);
            continue;
        };
        let word = word_start(before);
        let is_said = before.len() - word < LEAST;
        masked.push_str(if is_said { before } else { &before[..word] });
        masked.push_str(if is_said { "" } else { Redactor::MASK });
        masked.push_str(ELLIPSIS);
    }
    Cow::Owned(masked)
}

/// Where the last word begins. Escapes such as `\u002d` are parts of it.
fn word_start(text: &str) -> usize {
    let mut end = text.len();
    loop {
        let boundary = text[..end].rfind(|it| !is_of_word(it));
        let start = boundary.map_or(0, |at| text.ceil_char_boundary(at + 1));
        let is_escape = text[..start].ends_with('\\')
            && text[start..]
                .strip_prefix('u')
                .and_then(|it| it.get(..4))
                .is_some_and(|it| it.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if !is_escape {
            return start;
        }
        end = text[..start].trim_end_matches('\\').len();
    }
}

/// Whether a character belongs to a word: not to the syntax around it, which stays.
fn is_of_word(character: char) -> bool {
    !character.is_whitespace() && !matches!(character, '"' | '\\' | '\'' | '`' | '{' | '}' | '[' | ']' | ',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_was_cut_is_masked_and_everything_else_stays() {
        for (text, expected) in [
            ("got \"use AKIAABC…\", expected a number", "got \"use ***…\", expected a number"),
            (r#"{"got":"{\"a\":\"W2RlZmF…\""}"#, r#"{"got":"{\"a\":\"***…\""}"#),
            ("密码：hunter… and ghp_abc…", "***… and ***…"),
            ("and so on …, one of: a, b, …", "and so on …, one of: a, b, …"),
            (r#"{"got":"{\"v\": \"nvapi\\u002dI7iBR\\u002dumB…\""}"#, r#"{"got":"{\"v\": \"***…\""}"#),
            ("no cut", "no cut"),
        ] {
            assert_eq!(masked(Cow::Borrowed(text)), expected, "{text}");
        }
    }
}
