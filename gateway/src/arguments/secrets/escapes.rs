//! Removes the escapes of JSON, or of a program that prints strings. Pure and tolerant: invalid escapes stay
//! unchanged.

/// Unescaped text, with the position of each part in the escaped text.
#[derive(Debug)]
pub(crate) struct Unescaped {
    pub(crate) text: String,
    /// Pairs of positions: in this text, and in the escaped text. Between two pairs, both advance together.
    places: Vec<(usize, usize)>,
}

/// Removes escapes. None if the text has none.
pub(crate) fn unescape(escaped: &str) -> Option<Unescaped> {
    let first = escaped.find('\\')?;
    let mut text = String::with_capacity(escaped.len());
    let (mut places, mut at, mut next) = (vec![(0, 0)], 0, Some(first));
    while let Some(begin) = next {
        text.push_str(&escaped[at..begin]);
        match escape(&escaped[begin..]) {
            Some((character, length)) => {
                places.push((text.len(), begin));
                text.push(character);
                at = begin + length;
                places.push((text.len(), at));
            }
            None => {
                text.push('\\');
                at = begin + 1;
            }
        }
        next = escaped[at..].find('\\').map(|found| at + found);
    }
    text.push_str(&escaped[at..]);
    (places.len() > 1).then_some(Unescaped { text, places })
}

impl Unescaped {
    /// Maps a position in this text to the escaped text.
    pub(crate) fn place(&self, at: usize) -> usize {
        let known = self.places.partition_point(|(own, _)| *own <= at);
        let (own, escaped) = self.places[known.saturating_sub(1)];
        escaped + (at - own)
    }
}

/// Reads an escape. Returns its character, and its length.
fn escape(text: &str) -> Option<(char, usize)> {
    let simple = |character| Some((character, 2));
    match text.as_bytes().get(1)? {
        itself @ (b'"' | b'\'' | b'\\' | b'/') => simple(char::from(*itself)),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'n' => simple('\n'),
        b'r' => simple('\r'),
        b't' => simple('\t'),
        b'x' => Some((char::from(u8::try_from(hex(text, 2, 2)?).ok()?), 4)),
        b'u' => unit(text),
        _ => None,
    }
}

/// Reads one or two UTF-16 units.
fn unit(text: &str) -> Option<(char, usize)> {
    let high = hex(text, 2, 4)?;
    if let Some(character) = char::from_u32(high) {
        return Some((character, 6));
    }
    let low = text.get(6..).filter(|it| it.starts_with("\\u")).and_then(|it| hex(it, 2, 4));
    let pair = low.filter(|low| (0xdc00..0xe000).contains(low) && high < 0xdc00);
    let character = pair.and_then(|low| char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)));
    Some(character.map_or((char::REPLACEMENT_CHARACTER, 6), |it| (it, 12)))
}

fn hex(text: &str, at: usize, digits: usize) -> Option<u32> {
    let digits = text.get(at..at + digits)?;
    digits.bytes().all(|it| it.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_what_they_stand_for() {
        for (escaped, text) in [
            (r"a\u0026b\/c", "a&b/c"),
            (r#"\"\\\n\t"#, "\"\\\n\t"),
            (r"\ud83d\ude00é\u00e9", "😀éé"),
            (r"\ud83d \udc00", "\u{fffd} \u{fffd}"),
            (r"it\'s \x26", "it's &"),
            (r"C:\users\u12", r"C:\users\u12"),
        ] {
            assert_eq!(unescape(escaped).map_or(escaped.to_owned(), |it| it.text), text, "{escaped}");
        }
        for plain in ["", "plain", r"\", r"\d+"] {
            assert!(unescape(plain).is_none(), "{plain}");
        }
    }

    #[test]
    fn places_lead_back_to_the_escaped_text() {
        let escaped = r"ab\u0026cd\\é!";
        let found = unescape(escaped).unwrap();
        assert_eq!(found.text, r"ab&cd\é!");
        for (part, was) in [("b&c", r"b\u0026c"), ("&", r"\u0026"), (r"d\é", r"d\\é"), ("!", "!"), ("ab", "ab")] {
            let start = found.text.find(part).unwrap();
            assert_eq!(&escaped[found.place(start)..found.place(start + part.len())], was, "{part}");
        }
    }
}
