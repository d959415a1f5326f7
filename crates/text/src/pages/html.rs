//! Parses HTML pages. Extracts the main content without navigation, scripts and hidden text.
//!
//! The parser reads tags without building a tree. Its running time is linear in the size of the page, and unclosed
//! tags cost nothing.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::word_list;
use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};

use crate::pages::document::{BlockKind, Builder, Document};

/// The maximum number of open elements. The text of deeper elements belongs to the innermost open element.
const MAX_DEPTH: usize = 512;

/// How many additional levels skipped elements are tracked.
const ROOM: usize = 64;

/// The maximum number of open elements to search for the one that an end tag closes.
const MAX_STEPS: usize = 64;

/// The minimum fraction of a page's text in `<main>` or `<article>` for which only that text is used.
const MAIN_SHARE: f64 = 0.25;

/// The maximum size of a table row, in bytes. A longer row belongs to a layout table, so the blocks in its cells
/// stay separate blocks.
const MAX_ROW_BYTES: usize = 4096;

/// Separates blocks in a cell until the kind of row is known. This control character never occurs in document
/// text.
const BETWEEN: char = '\u{1f}';

/// Pairs of a meaning and an element that has it: `void` elements have no end tags, the content of `skipped` ones is
/// not part of the text, and a `block` starts a new block.
static ELEMENTS: LazyLock<HashSet<(&str, &str)>> = LazyLock::new(|| {
    let entries = word_list::entries(include_str!("../../data/html_elements.txt"));
    entries.flat_map(|(meaning, names)| names.split(' ').map(move |name| (meaning, name))).collect()
});

/// Parses a page.
pub fn read(html: &str) -> Document {
    let (whole, main) = HtmlReader::default().read(html);
    if main.text.len() as f64 >= whole.text.len() as f64 * MAIN_SHARE && !main.text.is_empty() {
        Document { title: whole.title, base: whole.base, links: whole.links, ..main }
    } else {
        whole
    }
}

struct OpenElement {
    name: String,
    is_skipped: bool,
    is_main: bool,
    kind: Option<BlockKind>,
}

#[derive(Default)]
struct HtmlReader {
    whole: Builder,
    /// Collects only the content of `<main>` and `<article>`.
    only_main: Builder,
    open: Vec<OpenElement>,
    /// The number of open elements that are skipped, and the number that are main content.
    skipped: usize,
    main: usize,
    /// The number of open elements that are table cells.
    cells: usize,
    text: String,
    /// Whether the current text has several cells.
    is_row: bool,
    heading: Option<u8>,
    title: Option<String>,
}

impl HtmlReader {
    fn read(mut self, html: &str) -> (Document, Document) {
        let mut emitter = DefaultEmitter::default();
        emitter.naively_switch_states(true);
        for token in Tokenizer::new_with_emitter(html, emitter) {
            // Reading from memory can't fail.
            let Ok(token) = token;
            match token {
                Token::StartTag(tag) => self.start(&tag),
                Token::EndTag(tag) => self.end(&name(&tag.name)),
                Token::String(text) => self.string(&String::from_utf8_lossy(&text)),
                Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
            }
            if self.whole.is_full() {
                break;
            }
        }
        self.flush();
        (self.whole.finish(), self.only_main.finish())
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name = name(&tag.name);
        if name == "title" && self.open.iter().all(|it| it.name != "svg") {
            self.title = Some(String::new());
            return;
        }
        if name == "a"
            && let Some(target) = attribute(tag, "href")
        {
            self.whole.link(&target);
        }
        if name == "base"
            && let Some(base) = attribute(tag, "href")
        {
            self.whole.base(&base);
        }
        match name.as_str() {
            "br" => self.text.push('\n'),
            "td" | "th" if !self.text.trim_matches([' ', '\n', '\t', BETWEEN]).is_empty() => {
                self.text.push_str(" | ");
                self.is_row = true;
            }
            _ => {}
        }
        if heading(&name).is_some() || is("block", &name) {
            self.divide(&name);
            self.heading = heading(&name).or(self.heading);
        }
        if is("void", &name) || (tag.self_closing && is_foreign(&name)) {
            return;
        }
        let role = attribute(tag, "role").unwrap_or_default();
        let is_skipped = is("skipped", &name)
            || matches!(role.as_str(), "navigation" | "banner" | "contentinfo" | "search" | "menu" | "dialog")
            || is_hidden(tag);
        // Skipped elements are tracked deeper than others, so that their content is skipped at any depth.
        if self.open.len() >= MAX_DEPTH + if is_skipped { ROOM } else { 0 } {
            return;
        }
        let is_main = matches!(name.as_str(), "main" | "article") || role == "main";
        let kind = match name.as_str() {
            "li" | "dt" | "dd" => Some(BlockKind::Item),
            "tr" => Some(BlockKind::Row),
            "pre" => Some(BlockKind::Line),
            _ => None,
        };
        // The start of a paragraph, list item or table part ends the previous one.
        if matches!(name.as_str(), "p" | "li" | "tr" | "td" | "th" | "dt" | "dd" | "option")
            && self.open.last().is_some_and(|it| it.name == name)
        {
            self.close_last();
        }
        self.skipped += usize::from(is_skipped);
        self.main += usize::from(is_main);
        self.cells += usize::from(is_cell(&name));
        self.open.push(OpenElement { name, is_skipped, is_main, kind });
    }

    fn end(&mut self, name: &str) {
        if name == "title"
            && let Some(title) = self.title.take()
        {
            self.whole.title(&title);
            return;
        }
        if heading(name).is_some() || is("block", name) {
            self.divide(name);
        }
        if heading(name).is_some() {
            self.heading = None;
        }
        // An end tag without a matching start tag closes nothing.
        let Some(steps) = self.open.iter().rev().take(MAX_STEPS).position(|it| it.name == name) else { return };
        let depth = self.open.len() - 1 - steps;
        while self.open.len() > depth {
            self.close_last();
        }
    }

    fn close_last(&mut self) {
        if let Some(open) = self.open.pop() {
            self.skipped -= usize::from(open.is_skipped);
            self.main -= usize::from(open.is_main);
            self.cells -= usize::from(is_cell(&open.name));
        }
    }

    fn string(&mut self, text: &str) {
        if let Some(title) = &mut self.title {
            title.push_str(text);
        } else if self.skipped == 0 {
            self.text.push_str(text);
        }
    }

    /// Ends the current text at the boundary of a block. Inside a table cell, this only ends a part of the row.
    fn divide(&mut self, name: &str) {
        let is_of_table = matches!(name, "table" | "thead" | "tbody" | "tfoot" | "tr" | "caption");
        if self.cells == 0 || is_of_table || name == "pre" || heading(name).is_some() || self.text.len() > MAX_ROW_BYTES
        {
            self.flush();
        } else {
            self.text.push(BETWEEN);
        }
    }

    /// Ends the current block.
    fn flush(&mut self) {
        let (text, is_row) = (std::mem::take(&mut self.text), std::mem::take(&mut self.is_row));
        let space = [' ', '|', '\n', '\t', BETWEEN];
        if text.trim_matches(space).is_empty() {
            return;
        }
        let heading = self.heading.take();
        let kind = self.open.iter().rev().take(MAX_STEPS).find_map(|it| it.kind).unwrap_or(BlockKind::Paragraph);
        let main = (self.main > 0).then_some(&mut self.only_main);
        for builder in [Some(&mut self.whole), main].into_iter().flatten() {
            match (heading, kind) {
                (Some(level), _) => builder.heading(level, &text.replace(BETWEEN, " ")),
                (None, BlockKind::Line) => text.split(['\n', BETWEEN]).for_each(|line| builder.block(kind, line)),
                (None, _) if is_row => builder.block(BlockKind::Row, &text.trim_matches(space).replace(BETWEEN, " ")),
                // The blocks in a row's only cell count as blocks of the page.
                (None, _) => text.split(BETWEEN).for_each(|it| builder.block(kind, it.trim_matches(space))),
            }
        }
    }
}

fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    tag.attributes.get(name.as_bytes()).map(|it| String::from_utf8_lossy(it).into_owned())
}

fn is(meaning: &str, name: &str) -> bool {
    ELEMENTS.contains(&(meaning, name))
}

fn heading(name: &str) -> Option<u8> {
    match name.as_bytes() {
        [b'h', level @ b'1'..=b'6'] => Some(level - b'0'),
        _ => None,
    }
}

fn is_cell(name: &str) -> bool {
    matches!(name, "td" | "th")
}

fn is_foreign(name: &str) -> bool {
    matches!(name, "svg" | "math")
}

/// Returns whether an element is hidden from readers. Hidden text must not be quoted.
fn is_hidden(tag: &StartTag<()>) -> bool {
    let style = attribute(tag, "style").unwrap_or_default().to_ascii_lowercase();
    let style: String = style.chars().filter(|it| !it.is_whitespace()).collect();
    attribute(tag, "hidden").is_some()
        || attribute(tag, "aria-hidden").is_some_and(|it| it == "true")
        || ["display:none", "visibility:hidden", "font-size:0", "opacity:0;"].iter().any(|it| style.contains(it))
        || style.ends_with("opacity:0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_content_is_read() {
        let document = read(
            "<html><head><title>A &amp; B</title><style>x{}</style></head><body><nav><a href=/home>Home</a></nav>\
             <main><h1>Top</h1><p>One <b>two</b>.<p>Three<br>four.<ul><li>a<li>b</ul><table><tr><td>x<td>y</tr>\
             <tr><td>1</td><td>2</td></tr></table><pre>l1\nl2</pre></main><footer>Impressum</footer>\
             <script>var x = '<p>no</p>';</script></body></html>",
        );
        assert_eq!(document.title, "A & B");
        assert_eq!(document.text, "One two.\nThree four.\na\nb\nx | y\n1 | 2\nl1\nl2\n");
        assert_eq!(document.headings, ["Top"]);
        assert_eq!(document.links, ["/home"]);
    }

    #[test]
    fn blocks_in_cells_stay_in_their_row_and_in_headings_their_text() {
        for (html, text, headings) in [
            (
                "<table><tr><th>Tower</th><th>Height</th></tr><tr><td><div>Zorblax</div></td><td><p>331 m</p></td></tr></table>",
                "Tower | Height\nZorblax | 331 m\n",
                "",
            ),
            (
                "<table><tr><td><p>One<p>more<td><ul><li>a<li>b</ul><td><dl><dt>c<dd>d</dl></table>after",
                "One more | a b | c d\nafter\n",
                "",
            ),
            ("<table><tr><td><p>A layout.</p><ul><li>entry</ul></td></tr></table>", "A layout.\nentry\n", ""),
            ("<table><tr><td><table><tr><td>1<td>2</table><td>x</table>", "1 | 2\nx\n", ""),
            ("<table><tr><td><pre>1\n2</pre><td><pre>a\nb</pre></table>", "1\n2\na\nb\n", ""),
            ("<h2><div>Head</div></h2><h3></h3><p>text | more<ul><li>a | b</ul>", "text | more\na | b\n", "Head"),
        ] {
            let document = read(html);
            assert_eq!((document.text.as_str(), document.headings.join(",").as_str()), (text, headings), "{html}");
        }
        let long = format!("<table><tr><td>{}<td>x</table>", format!("<p>{}</p>", "word ".repeat(100)).repeat(30));
        assert!(read(&long).blocks.len() > 3, "a row this long lays out a page");
    }

    #[test]
    fn what_is_hidden_is_not_read() {
        let document = read(
            "<p>seen</p><div style='display: none'>one</div><p hidden>two</p><span aria-hidden=true>three</span>\
             <p>after",
        );
        assert_eq!(document.text, "seen\nafter\n");
    }

    #[test]
    fn a_million_open_tags_and_stray_ends_are_read_at_once() {
        let html = format!("{}text{}", "<div><b>".repeat(200_000), "</i></p>".repeat(100_000));
        assert_eq!(read(&html).text, "text\n");
    }

    #[test]
    fn a_small_main_element_is_not_the_page() {
        let html = format!("<main>Menu</main><div><p>{}</p></div>", "All the text is here. ".repeat(20));
        assert!(read(&html).text.contains("All the text"));
    }
}
