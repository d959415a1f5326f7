//! Checks whether Markdown contains a text word for word, ignoring emphasis marks, escapes and differences in
//! white space. Does no I/O.

/// Markdown as plain text, with the source position of each byte.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    whole: &'a str,
    pub(super) text: String,
    /// The source range in `whole` for each byte of `text`.
    from: Vec<(usize, usize)>,
}

impl<'a> Plain<'a> {
    pub(super) fn new(whole: &'a str) -> Self {
        let mut plain = Self { whole, text: String::with_capacity(whole.len()), from: Vec::with_capacity(whole.len()) };
        let mut all = whole.char_indices().peekable();
        while let Some((at, c)) = all.next() {
            match c {
                '\\' => match all.next_if(|(_, next)| next.is_ascii_punctuation()) {
                    Some((next, escaped)) => plain.push(escape_bracket(escaped), (at, next + escaped.len_utf8())),
                    None => plain.push(c, (at, at + 1)),
                },
                '*' | '`' | '~' => {}
                c if c.is_whitespace() && plain.text.ends_with(' ') => {}
                c if c.is_whitespace() => plain.push(' ', (at, at + c.len_utf8())),
                c => plain.push(escape_bracket(c), (at, at + c.len_utf8())),
            }
        }
        plain
    }

    fn push(&mut self, c: char, from: (usize, usize)) {
        self.text.push(c);
        self.from.resize(self.text.len(), from);
    }

    /// Returns the part of `whole` that reads like `wanted`, or `None` if there is no match or `wanted` is empty.
    pub(super) fn find(&self, wanted: &str) -> Option<&'a str> {
        let wanted = Plain::new(wanted);
        let wanted = wanted.text.trim();
        let begin = self.text.find(wanted).filter(|_| !wanted.is_empty())?;
        let (first, last) = (self.from.get(begin)?, self.from.get(begin + wanted.len() - 1)?);
        self.whole.get(first.0..last.1)
    }
}

/// Replaces angle brackets, which delimit blocks for the model and must not occur in their text.
fn escape_bracket(c: char) -> char {
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
            assert_eq!(Plain::new(whole).find(wanted), found, "{wanted}");
        }
        assert_eq!(Plain::new("<end>").text, "‹end›");
    }
}
