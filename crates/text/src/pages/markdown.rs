//! Parses the parts of Markdown that matter for quotes: headings, lists, tables and code. Emphasis marks stay in
//! the text, so that a quote matches the file.

use crate::pages::document::{BlockKind, Builder, Document};

/// Parses a Markdown file.
pub fn read(text: &str) -> Document {
    let mut builder = Builder::default();
    let (mut paragraph, mut kind, mut is_code) = (String::new(), BlockKind::Paragraph, false);
    let flush = |builder: &mut Builder, paragraph: &mut String, kind: BlockKind| {
        builder.block(kind, paragraph);
        paragraph.clear();
    };
    for line in without_front_matter(text, &mut builder).lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            flush(&mut builder, &mut paragraph, kind);
            is_code = !is_code;
        } else if is_code {
            builder.block(BlockKind::Line, line);
        } else if let Some((level, heading)) = heading(trimmed) {
            flush(&mut builder, &mut paragraph, kind);
            if level == 1 {
                builder.title(heading);
            }
            builder.heading(level, heading);
        } else if trimmed.is_empty() {
            flush(&mut builder, &mut paragraph, kind);
            kind = BlockKind::Paragraph;
        } else if trimmed.starts_with('|') {
            flush(&mut builder, &mut paragraph, kind);
            if trimmed.chars().any(|it| !matches!(it, '|' | '-' | ':' | ' ')) {
                builder.block(BlockKind::Row, trimmed.trim_matches('|'));
            }
        } else if let Some(item) = item(trimmed) {
            flush(&mut builder, &mut paragraph, kind);
            kind = BlockKind::Item;
            paragraph.push_str(item);
            paragraph.push('\n');
        } else {
            paragraph.push_str(trimmed);
            paragraph.push('\n');
        }
        if builder.is_full() {
            break;
        }
    }
    flush(&mut builder, &mut paragraph, kind);
    builder.finish()
}

/// Skips the front matter between two `---` lines, after taking the title from it.
fn without_front_matter<'a>(text: &'a str, builder: &mut Builder) -> &'a str {
    let Some((matter, rest)) = text.strip_prefix("---\n").and_then(|it| it.split_once("\n---\n")) else { return text };
    if let Some(title) = matter.lines().find_map(|it| it.strip_prefix("title:")) {
        builder.title(title.trim().trim_matches(['"', '\'']));
    }
    rest
}

fn heading(line: &str) -> Option<(u8, &str)> {
    let level = line.bytes().take_while(|it| *it == b'#').count();
    let text = line.get(level..)?.strip_prefix(' ')?;
    (1..=6).contains(&level).then(|| (level as u8, text.trim_end_matches('#').trim()))
}

fn item(line: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ "].iter().find_map(|it| line.strip_prefix(it));
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    bullet.or_else(|| {
        let rest = line.get(digits..).filter(|_| (1..=3).contains(&digits))?;
        rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_is_read() {
        let text = "---\ntitle: A guide\n---\n# Top\n\nOne\ntwo.\n\n## Lists\n- a\n- b\n  more\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```\nlet x = 1;\nlet y = 2;\n```\n";
        let document = read(text);
        assert_eq!(document.title, "A guide");
        assert_eq!(document.text, "One two.\na\nb more\nx | y\n1 | 2\nlet x = 1;\nlet y = 2;\n");
        assert_eq!(document.headings, ["Top", "Top > Lists"]);
        assert_eq!(document.blocks[1].kind, BlockKind::Item);
    }
}
