//! Parses plain text, in which empty lines separate paragraphs.

use crate::pages::document::{BlockKind, Builder, Document};

/// Parses plain text. Joins the lines of a paragraph.
pub fn read(text: &str) -> Document {
    let mut builder = Builder::default();
    let mut paragraph = String::new();
    for line in text.lines() {
        if line.trim().is_empty() {
            builder.block(BlockKind::Paragraph, &paragraph);
            paragraph.clear();
        } else {
            paragraph.push_str(line);
            paragraph.push('\n');
        }
        if builder.is_full() {
            break;
        }
    }
    builder.block(BlockKind::Paragraph, &paragraph);
    builder.finish()
}

/// Parses pages with fixed line breaks. Joins words that are hyphenated at the end of a line.
pub fn read_pages<'a>(pages: impl IntoIterator<Item = &'a str>) -> Document {
    let mut text = String::new();
    for line in pages.into_iter().flat_map(|page| page.lines().chain([""])) {
        let line = line.trim();
        let continues = line.chars().next().is_some_and(char::is_lowercase);
        let is_divided = text.strip_suffix("-\n").is_some_and(|it| it.ends_with(char::is_lowercase));
        if continues && is_divided {
            text.truncate(text.len() - 2);
        }
        text.push_str(line);
        text.push('\n');
    }
    read(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divided_words_are_joined() {
        let document = read_pages(["An exam-\nple of a well-\nKnown word.", "Next page."]);
        assert_eq!(document.text, "An example of a well- Known word.\nNext page.\n");
    }

    #[test]
    fn lines_are_joined_and_paragraphs_are_not() {
        assert_eq!(read("one\ntwo\n\n\nthree\r\n").text, "one two\nthree\n");
    }
}
