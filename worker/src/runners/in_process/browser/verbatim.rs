//! Whether a text is in Markdown, word for word: marks of emphasis, escapes and kinds of white space aside. Pure.

/// Markdown as its reader sees it, and where in it each byte comes from.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    whole: &'a str,
    pub(super) text: String,
    /// The bytes of `whole` that each byte of `text` stands for: where they begin, and where they end.
    from: Vec<(usize, usize)>,
}

impl<'a> Plain<'a> {
    pub(super) fn of(whole: &'a str) -> Self {
        let mut plain = Self { whole, text: String::with_capacity(whole.len()), from: Vec::with_capacity(whole.len()) };
        let mut all = whole.char_indices().peekable();
        while let Some((at, c)) = all.next() {
            match c {
                '\\' => match all.next_if(|(_, next)| next.is_ascii_punctuation()) {
                    Some((next, escaped)) => plain.push(shown(escaped), (at, next + escaped.len_utf8())),
                    None => plain.push(c, (at, at + 1)),
                },
                '*' | '`' | '~' => {}
                c if c.is_whitespace() && plain.text.ends_with(' ') => {}
                c if c.is_whitespace() => plain.push(' ', (at, at + c.len_utf8())),
                c => plain.push(shown(c), (at, at + c.len_utf8())),
            }
        }
        plain
    }

    fn push(&mut self, c: char, from: (usize, usize)) {
        self.text.push(c);
        self.from.resize(self.text.len(), from);
    }

    /// The part of the whole that reads as `wanted` does. None: there is no such part, or nothing is wanted.
    pub(super) fn find(&self, wanted: &str) -> Option<&'a str> {
        let wanted = Plain::of(wanted);
        let wanted = wanted.text.trim();
        let begin = self.text.find(wanted).filter(|_| !wanted.is_empty())?;
        let (first, last) = (self.from.get(begin)?, self.from.get(begin + wanted.len() - 1)?);
        self.whole.get(first.0..last.1)
    }
}

/// A model's marks are made of angle brackets: a text can't have any.
fn shown(c: char) -> char {
    match c {
        '<' => '‹',
        '>' => '›',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_as_it_reads_and_given_as_it_is() {
        let whole = "A **bold** word,\n\n  `code` and a\\_b \\< c 𝄞. H~2~O";
        for (wanted, found) in [
            ("bold word, code", Some("bold** word,\n\n  `code")),
            ("a_b < c", Some("a\\_b \\< c")),
            ("**bold**", Some("bold")),
            ("H2O", Some("H~2~O")),
            ("𝄞.", Some("𝄞.")),
            ("Bold", None),
            ("bold  word", Some("bold** word")),
            (" ", None),
            ("**", None),
        ] {
            assert_eq!(Plain::of(whole).find(wanted), found, "{wanted}");
        }
        assert_eq!(Plain::of("<end>").text, "‹end›");
    }
}
