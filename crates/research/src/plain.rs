//! Plain text: paragraphs between empty lines.

use crate::document::{Builder, Document, Kind};

/// Reads plain text. Lines of a paragraph are joined.
pub fn read(text: &str) -> Document {
    let mut builder = Builder::default();
    let mut paragraph = String::new();
    for line in text.lines() {
        if line.trim().is_empty() {
            builder.block(Kind::Paragraph, &paragraph);
            paragraph.clear();
        } else {
            paragraph.push_str(line);
            paragraph.push('\n');
        }
        if builder.is_full() {
            break;
        }
    }
    builder.block(Kind::Paragraph, &paragraph);
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_paragraphs_are_not() {
        assert_eq!(read("one\ntwo\n\n\nthree\r\n").text, "one two\nthree\n");
    }
}
