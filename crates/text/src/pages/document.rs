//! The text of a page as blocks, one per line, with their headings. Quotes are slices of this text.

use std::ops::Range;

/// The maximum size of a document's text, in bytes. The rest of the page is dropped.
pub const MAX_TEXT_BYTES: usize = 2 << 20;

/// The maximum number of blocks in a document.
pub const MAX_BLOCKS: usize = 50_000;

/// The maximum size of a block, in bytes. A longer block is split at the end of a sentence or at a space.
const MAX_BLOCK_BYTES: usize = 16 * 1024;

/// The maximum length of a title or heading, in bytes.
const MAX_TITLE_BYTES: usize = 300;

/// The kinds of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// Prose.
    Paragraph,
    /// A list item.
    Item,
    /// A table row, with `|` between cells.
    Row,
    /// A line of text whose line breaks matter, such as code.
    Line,
}

/// A paragraph, list item, table row or line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The byte range of the block in [`Document::text`].
    pub range: Range<usize>,
    /// Which kind of block this is.
    pub kind: BlockKind,
    /// The index of the block's heading in [`Document::headings`]. `None` if the block is above the first heading.
    pub heading: Option<usize>,
    /// The index in [`Document::blocks`] of the first row of the block's table. `None` if the block is that row or
    /// not in a table.
    pub table: Option<usize>,
}

/// The parsed text of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// The title. Empty if the page has none.
    pub title: String,
    /// The text of all blocks, one per line, with white space collapsed and control characters removed.
    pub text: String,
    /// The blocks in text order.
    pub blocks: Vec<Block>,
    /// The headings, each preceded by its parent headings: `Install > Linux`.
    pub headings: Vec<String>,
    /// The base URL for relative links, as written. Empty means the page's own URL.
    pub base: String,
    /// Link targets, as written.
    pub links: Vec<String>,
    /// Whether text was dropped because of [`MAX_TEXT_BYTES`] or [`MAX_BLOCKS`].
    pub is_cut: bool,
}

impl Document {
    /// Returns the headings of a block, or an empty string.
    pub fn heading(&self, block: &Block) -> &str {
        block.heading.and_then(|it| self.headings.get(it)).map_or("", String::as_str)
    }

    /// Returns the first row of a block's table, or an empty string.
    pub fn table_head(&self, block: &Block) -> &str {
        let head = block.table.and_then(|it| self.blocks.get(it));
        head.and_then(|it| self.text.get(it.range.clone())).unwrap_or_default()
    }

    /// Returns a name for the document: its title, its first heading, or the beginning of its text.
    pub fn name(&self) -> String {
        let first = self.headings.first().map_or("", String::as_str);
        let begin = self.text.lines().next().unwrap_or_default();
        let name = [self.title.as_str(), first, begin].into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        clip_owned(name, 160)
    }
}

/// Builds a document block by block.
#[derive(Debug, Default)]
pub struct Builder {
    document: Document,
    /// The current headings, with their levels.
    open: Vec<(u8, String)>,
}

impl Builder {
    /// Sets the title unless it is already set.
    pub fn title(&mut self, text: &str) {
        if self.document.title.is_empty() {
            self.document.title = clip_owned(&collapse_whitespace(text), MAX_TITLE_BYTES);
        }
    }

    /// Adds a heading. The top level is 1.
    pub fn heading(&mut self, level: u8, text: &str) {
        let text = clip_owned(&collapse_whitespace(text), MAX_TITLE_BYTES);
        if text.is_empty() || self.document.headings.len() >= MAX_BLOCKS {
            return;
        }
        self.open.retain(|(above, _)| *above < level);
        self.open.push((level, text));
        let path: Vec<_> = self.open.iter().map(|(_, it)| it.as_str()).collect();
        self.document.headings.push(path.join(" > "));
    }

    /// Adds a block. Drops an empty block and splits a long one.
    pub fn block(&mut self, kind: BlockKind, text: &str) {
        let text = collapse_whitespace(text);
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

    fn part(&mut self, kind: BlockKind, text: &str) {
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
        let table = document.blocks.last().filter(|it| it.kind == BlockKind::Row && kind == BlockKind::Row);
        let table = table.map(|it| it.table.unwrap_or(document.blocks.len() - 1));
        let heading = document.headings.len().checked_sub(1);
        document.blocks.push(Block { range, kind, heading, table });
    }

    /// Sets the base URL for relative links unless it is already set.
    pub fn base(&mut self, target: &str) {
        if self.document.base.is_empty() && target.len() <= 2048 {
            target.trim().clone_into(&mut self.document.base);
        }
    }

    /// Adds a link target.
    pub fn link(&mut self, target: &str) {
        let target = target.trim();
        if !target.is_empty() && target.len() <= 2048 && self.document.links.len() < MAX_BLOCKS {
            self.document.links.push(target.to_owned());
        }
    }

    /// Returns whether the document is full, so that further text is dropped.
    pub fn is_full(&self) -> bool {
        self.document.is_cut
    }

    /// Returns the finished document.
    pub fn finish(self) -> Document {
        self.document
    }
}

/// Replaces white space with single spaces, and removes characters that could hide text.
pub fn collapse_whitespace(text: &str) -> String {
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

/// Returns whether a character makes a text look different from its content: control characters, direction
/// changes, and tags. Other invisible characters, such as soft hyphens, are part of the text.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(character, '\u{e0000}'..='\u{e007f}' | '\u{fff9}'..='\u{fffb}')
}

/// Returns the beginning of a text, at most `bytes` bytes, cut between characters.
pub fn clip(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

/// Like [`clip`], but returns an owned string without trailing white space.
pub fn clip_owned(text: &str, bytes: usize) -> String {
    clip(text, bytes).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_know_their_headings() {
        let mut builder = Builder::default();
        builder.block(BlockKind::Paragraph, "  above\n all ");
        builder.heading(1, "Guide");
        builder.heading(2, "Install");
        builder.block(BlockKind::Item, "one");
        builder.heading(2, "Use");
        builder.block(BlockKind::Paragraph, "two");
        let document = builder.finish();
        assert_eq!(document.text, "above all\none\ntwo\n");
        let headings: Vec<_> = document.blocks.iter().map(|it| document.heading(it)).collect();
        assert_eq!(headings, ["", "Guide > Install", "Guide > Use"]);
    }

    #[test]
    fn rows_know_the_head_of_their_table() {
        let mut builder = Builder::default();
        builder.block(BlockKind::Row, "metal | melts at");
        builder.block(BlockKind::Row, "copper | 1085");
        builder.block(BlockKind::Row, "iron | 1538");
        builder.block(BlockKind::Paragraph, "text");
        builder.block(BlockKind::Row, "other");
        let document = builder.finish();
        let heads: Vec<_> = document.blocks.iter().map(|it| document.table_head(it)).collect();
        assert_eq!(heads, ["", "metal | melts at", "metal | melts at", "", ""]);
    }

    #[test]
    fn a_page_without_end_is_cut() {
        let mut builder = Builder::default();
        let long = "word ".repeat(100_000);
        for _ in 0..10 {
            builder.block(BlockKind::Paragraph, &long);
        }
        let document = builder.finish();
        assert!(document.is_cut && document.text.len() <= MAX_TEXT_BYTES);
    }

    #[test]
    fn characters_that_hide_text_are_removed() {
        assert_eq!(collapse_whitespace("a\u{ad}b\u{202e}c\u{0}\t \u{e0041}d"), "a\u{ad}bc d");
    }
}
