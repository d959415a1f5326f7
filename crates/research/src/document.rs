//! The text of a page: blocks, one a line, each beneath its headings. Quotes are slices of it.

use std::ops::Range;

/// The longest text of a document, in bytes. The rest of a page is not read.
pub const MAX_TEXT_BYTES: usize = 2 << 20;

/// The most blocks of a document.
pub const MAX_BLOCKS: usize = 50_000;

/// A longer block is divided at the end of a sentence, or at a space.
const MAX_BLOCK_BYTES: usize = 16 * 1024;

/// The longest title and the longest heading, in bytes.
const MAX_TITLE_BYTES: usize = 300;

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Running text.
    Paragraph,
    /// An entry of a list.
    Item,
    /// A row of a table, cells between `|`.
    Row,
    /// Text whose line breaks matter, such as code. One block is one line.
    Line,
}

/// A piece of text that belongs together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its bytes in [`Document::text`].
    pub range: Range<usize>,
    /// What it is.
    pub kind: Kind,
    /// Its headings in [`Document::headings`]. None: it is above the first.
    pub heading: Option<usize>,
    /// The first row of its table, in [`Document::blocks`]. None: it is that row, or in no table.
    pub table: Option<usize>,
}

/// The text of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// Empty: it has none.
    pub title: String,
    /// All blocks, one a line. White space is collapsed, and control characters are gone.
    pub text: String,
    /// In the order of the text.
    pub blocks: Vec<Block>,
    /// Headings with those above them: `Install > Linux`.
    pub headings: Vec<String>,
    /// What links are relative to, as written. Empty: the page's own URL.
    pub base: String,
    /// Targets of links, as written.
    pub links: Vec<String>,
    /// Whether the page had more text than [`MAX_TEXT_BYTES`] or [`MAX_BLOCKS`].
    pub is_cut: bool,
}

impl Document {
    /// The headings of a block, or nothing.
    pub fn heading(&self, block: &Block) -> &str {
        block.heading.and_then(|it| self.headings.get(it)).map_or("", String::as_str)
    }

    /// The first row of a block's table, or nothing.
    pub fn table_head(&self, block: &Block) -> &str {
        let head = block.table.and_then(|it| self.blocks.get(it));
        head.and_then(|it| self.text.get(it.range.clone())).unwrap_or_default()
    }

    /// Its own title, or its first heading, or the beginning of its text.
    pub fn name(&self) -> String {
        let first = self.headings.first().map_or("", String::as_str);
        let begin = self.text.lines().next().unwrap_or_default();
        let name = [self.title.as_str(), first, begin].into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        clipped(name, 160)
    }
}

/// Makes a document block by block.
#[derive(Debug, Default)]
pub struct Builder {
    document: Document,
    /// The headings that are open, with their levels.
    open: Vec<(u8, String)>,
}

impl Builder {
    /// Sets the title, if there is none yet.
    pub fn title(&mut self, text: &str) {
        if self.document.title.is_empty() {
            self.document.title = clipped(&collapsed(text), MAX_TITLE_BYTES);
        }
    }

    /// Adds a heading. `level` is 1 for the top.
    pub fn heading(&mut self, level: u8, text: &str) {
        let text = clipped(&collapsed(text), MAX_TITLE_BYTES);
        if text.is_empty() || self.document.headings.len() >= MAX_BLOCKS {
            return;
        }
        self.open.retain(|(above, _)| *above < level);
        self.open.push((level, text));
        let path: Vec<_> = self.open.iter().map(|(_, it)| it.as_str()).collect();
        self.document.headings.push(path.join(" > "));
    }

    /// Adds a block. One without text is left out, and a long one is divided.
    pub fn block(&mut self, kind: Kind, text: &str) {
        let text = collapsed(text);
        let mut rest = text.as_str();
        while rest.len() > MAX_BLOCK_BYTES && !self.document.is_cut {
            let most = clip(rest, MAX_BLOCK_BYTES);
            let end = most.rfind(". ").map(|it| it + 1).or_else(|| most.rfind(' ')).unwrap_or(most.len()).max(1);
            let (part, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            self.part(kind, part);
            rest = after.trim_start();
        }
        self.part(kind, rest);
    }

    fn part(&mut self, kind: Kind, text: &str) {
        if text.is_empty() {
            return;
        }
        let document = &mut self.document;
        let room = MAX_TEXT_BYTES.saturating_sub(document.text.len() + 1);
        if room == 0 || document.blocks.len() >= MAX_BLOCKS {
            document.is_cut = true;
            return;
        }
        document.is_cut |= text.len() > room;
        let start = document.text.len();
        document.text.push_str(clip(text, room));
        let range = start..document.text.len();
        document.text.push('\n');
        let table = document.blocks.last().filter(|it| it.kind == Kind::Row && kind == Kind::Row);
        let table = table.map(|it| it.table.unwrap_or(document.blocks.len() - 1));
        let heading = document.headings.len().checked_sub(1);
        document.blocks.push(Block { range, kind, heading, table });
    }

    /// Sets what links are relative to, if it is not set yet.
    pub fn base(&mut self, target: &str) {
        if self.document.base.is_empty() && target.len() <= 2048 {
            target.trim().clone_into(&mut self.document.base);
        }
    }

    /// Adds the target of a link.
    pub fn link(&mut self, target: &str) {
        let target = target.trim();
        if !target.is_empty() && target.len() <= 2048 && self.document.links.len() < MAX_BLOCKS {
            self.document.links.push(target.to_owned());
        }
    }

    /// Whether more text would be left out.
    pub fn is_full(&self) -> bool {
        self.document.is_cut
    }

    /// The document.
    pub fn finish(self) -> Document {
        self.document
    }
}

/// White space becomes single spaces, and characters that could hide text are removed.
pub fn collapsed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_pending = false;
    for character in text.chars() {
        if character.is_whitespace() {
            is_pending = !out.is_empty();
        } else if !is_invisible(character) {
            if std::mem::take(&mut is_pending) {
                out.push(' ');
            }
            out.push(character);
        }
    }
    out
}

/// Characters that make a text look other than it is: controls, changes of direction, tags. Others without a shape, such as soft
/// hyphens, belong to it.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(character, '\u{e0000}'..='\u{e007f}' | '\u{fff9}'..='\u{fffb}')
}

/// At most so many bytes of a text, whole characters.
pub fn clip(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

/// [`clip`], owned and without white space at its end.
pub fn clipped(text: &str, bytes: usize) -> String {
    clip(text, bytes).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_know_their_headings() {
        let mut builder = Builder::default();
        builder.block(Kind::Paragraph, "  above\n all ");
        builder.heading(1, "Guide");
        builder.heading(2, "Install");
        builder.block(Kind::Item, "one");
        builder.heading(2, "Use");
        builder.block(Kind::Paragraph, "two");
        let document = builder.finish();
        assert_eq!(document.text, "above all\none\ntwo\n");
        let headings: Vec<_> = document.blocks.iter().map(|it| document.heading(it)).collect();
        assert_eq!(headings, ["", "Guide > Install", "Guide > Use"]);
    }

    #[test]
    fn rows_know_the_head_of_their_table() {
        let mut builder = Builder::default();
        builder.block(Kind::Row, "metal | melts at");
        builder.block(Kind::Row, "copper | 1085");
        builder.block(Kind::Row, "iron | 1538");
        builder.block(Kind::Paragraph, "text");
        builder.block(Kind::Row, "other");
        let document = builder.finish();
        let heads: Vec<_> = document.blocks.iter().map(|it| document.table_head(it)).collect();
        assert_eq!(heads, ["", "metal | melts at", "metal | melts at", "", ""]);
    }

    #[test]
    fn a_page_without_end_is_cut() {
        let mut builder = Builder::default();
        let long = "word ".repeat(100_000);
        for _ in 0..10 {
            builder.block(Kind::Paragraph, &long);
        }
        let document = builder.finish();
        assert!(document.is_cut && document.text.len() <= MAX_TEXT_BYTES);
    }

    #[test]
    fn characters_that_hide_text_are_removed() {
        assert_eq!(collapsed("a\u{ad}b\u{202e}c\u{0}\t \u{e0041}d"), "a\u{ad}bc d");
    }
}
