//! Renders the Markdown that is useful in a terminal, line by line. Pure.

use crate::terminal::Style;

/// Renders successive lines. Its only state is whether a code block is open.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    is_code: bool,
}

/// A line as styled pieces.
pub(super) type Line = Vec<(Style, String)>;

impl Markdown {
    /// Renders one line, without its line break.
    pub(super) fn line(&mut self, text: &str) -> Line {
        let start = text.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            self.is_code = !self.is_code;
            return vec![(Style::Dim, text.to_owned())];
        }
        if self.is_code {
            return vec![(Style::Code, text.to_owned())];
        }
        if let Some(heading) = heading(start) {
            return vec![(Style::Bold, heading.to_owned())];
        }
        let indent = &text[..text.len() - start.len()];
        for bullet in ["- ", "* ", "+ "] {
            if let Some(rest) = start.strip_prefix(bullet) {
                let mut line = vec![(Style::Plain, format!("{indent}• "))];
                line.extend(inline(rest));
                return line;
            }
        }
        inline(text)
    }
}

fn heading(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    ((1..=6).contains(&level) && rest.starts_with(' ')).then(|| rest.trim())
}

/// Splits a line into plain text, bold text and code.
fn inline(text: &str) -> Line {
    let mut line = Line::new();
    let mut rest = text;
    while let Some((at, mark, style)) = next_mark(rest) {
        let inner = &rest[at + mark.len()..];
        let Some(end) = inner.find(mark).filter(|end| *end > 0) else { break };
        if at > 0 {
            line.push((Style::Plain, rest[..at].to_owned()));
        }
        line.push((style, inner[..end].to_owned()));
        rest = &inner[end + mark.len()..];
    }
    if !rest.is_empty() || line.is_empty() {
        line.push((Style::Plain, rest.to_owned()));
    }
    line
}

fn next_mark(text: &str) -> Option<(usize, &'static str, Style)> {
    let marks = [("**", Style::Bold), ("`", Style::Code)];
    let found = marks.into_iter().filter_map(|(mark, style)| Some((text.find(mark)?, mark, style)));
    found.min_by_key(|(at, ..)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Line {
        Markdown::default().line(text)
    }

    fn piece(style: Style, text: &str) -> (Style, String) {
        (style, text.to_owned())
    }

    #[test]
    fn headings_lists_bold_and_code_are_styled() {
        assert_eq!(pieces("## Prices"), [piece(Style::Bold, "Prices")]);
        assert_eq!(
            pieces("  - the **mean** is `10.5`."),
            [
                piece(Style::Plain, "  • "),
                piece(Style::Plain, "the "),
                piece(Style::Bold, "mean"),
                piece(Style::Plain, " is "),
                piece(Style::Code, "10.5"),
                piece(Style::Plain, "."),
            ]
        );
    }

    #[test]
    fn what_is_no_markdown_stays_as_it_is() {
        for text in ["#tag", "2 ** 3", "a ` b", "", "** **", "****"] {
            let joined: String = pieces(text).into_iter().map(|(_, text)| text).collect();
            assert_eq!(joined.replace(' ', ""), text.replace("** **", "").replace(' ', ""), "{text}");
        }
    }

    #[test]
    fn a_code_block_is_left_alone() {
        let mut markdown = Markdown::default();
        markdown.line("```rust");
        assert_eq!(markdown.line("# **no** heading"), [piece(Style::Code, "# **no** heading")]);
        markdown.line("```");
        assert_eq!(markdown.line("# heading"), [piece(Style::Bold, "heading")]);
    }
}
