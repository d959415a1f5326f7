//! The built-in rules, loaded from `shapes.txt`, which documents its rows.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::classes::{ALNUM, BASE64, DOLLAR, DOT, HEX, PADDING, TOKEN, UPPER};
use crate::kind::{NameEntry, ValueKind};
use crate::values::looks;

/// The shape of a token with a known prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenShape {
    pub(crate) prefix: String,
    /// The classes of the bytes after the prefix.
    pub(crate) characters: u16,
    /// The minimum number of bytes after the prefix.
    pub(crate) shortest: usize,
    pub(crate) look: Look,
}

/// What must follow the prefix of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Any characters: only tokens begin with the prefix.
    Any,
    /// Letters, and digits or both cases.
    Mixed,
    /// A long part that looks random.
    Dense,
    /// Exactly the minimum number of characters.
    Exact,
}

impl TokenShape {
    /// Whether `tail` is valid after the prefix. `next` is the byte after it.
    pub(crate) fn matches(&self, tail: &[u8], next: Option<&u8>) -> bool {
        let has_look = match self.look {
            Look::Any => true,
            Look::Mixed => looks::is_mixed(tail),
            Look::Dense => looks::has_random_part(tail),
            Look::Exact => tail.len() == self.shortest && !next.is_some_and(u8::is_ascii_alphanumeric),
        };
        tail.len() >= self.shortest && has_look
    }
}

/// Parses the name of byte classes in `shapes.txt` or in a rule file.
pub(crate) fn characters(name: &str) -> Option<u16> {
    Some(match name {
        "alnum" => ALNUM,
        "hex" => HEX,
        "upper" => UPPER,
        "token" => TOKEN,
        "dotted" => TOKEN | DOT,
        "padded" => TOKEN | DOT | PADDING,
        "dollars" => TOKEN | DOLLAR,
        "base64" => TOKEN | DOT | BASE64 | PADDING,
        _ => return None,
    })
}

fn look(name: &str) -> Option<Look> {
    Some(match name {
        "any" => Look::Any,
        "mixed" => Look::Mixed,
        "dense" => Look::Dense,
        "exact" => Look::Exact,
        _ => return None,
    })
}

/// The tables of `shapes.txt`.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    pub(crate) tokens: Vec<TokenShape>,
    pub(crate) labels: Vec<&'static str>,
    pub(crate) webhooks: Vec<&'static str>,
    pub(crate) hashes: Vec<&'static str>,
    pub(crate) marks: Vec<&'static str>,
    /// The meanings of final words of names.
    pub(crate) names: HashMap<&'static [u8], NameEntry>,
    /// Words before a name that change its meaning.
    pub(crate) negations: HashSet<&'static [u8]>,
    /// Word endings that name a secret, as in `githubtoken`.
    pub(crate) glued: Vec<(&'static [u8], ValueKind)>,
    /// Names in non-ASCII letters.
    pub(crate) foreign: Vec<&'static str>,
    /// URL schemes of data sources.
    pub(crate) sources: HashSet<&'static [u8]>,
    /// Names within a secret that describe it, such as those of a schema or of cookie attributes.
    pub(crate) attributes: HashSet<&'static [u8]>,
    /// Words that describe a value instead of stating it.
    pub(crate) states: HashSet<&'static [u8]>,
    pub(crate) keywords: HashSet<&'static [u8]>,
    pub(crate) roots: HashSet<&'static [u8]>,
    /// Words that may name a secret in prose.
    pub(crate) words: Vec<&'static [u8]>,
    /// Words between a name and its value.
    pub(crate) fillers: Vec<&'static [u8]>,
    /// Commands with a short flag for a password.
    pub(crate) commands: Vec<&'static [u8]>,
    /// Endings of functions that set a value by its name.
    pub(crate) setters: Vec<&'static [u8]>,
}

pub(crate) static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    let mut shapes = Shapes::default();
    for row in rows() {
        // A test parses each row and fails on an invalid one.
        let _ = shapes.add(row);
    }
    shapes
});

fn rows() -> impl Iterator<Item = &'static str> {
    include_str!("shapes.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

impl Shapes {
    /// Adds a row to its table. Returns `None` if the row is invalid.
    fn add(&mut self, row: &'static str) -> Option<()> {
        let mut columns = row.split_ascii_whitespace();
        match columns.next()? {
            "token" => self.tokens.push(TokenShape {
                prefix: columns.next().filter(|prefix| prefix.len() >= 2)?.to_owned(),
                characters: characters(columns.next()?)?,
                shortest: columns.next()?.parse().ok()?,
                look: look(columns.next()?)?,
            }),
            "label" => self.labels.push(columns.next()?),
            "webhook" => self.webhooks.push(columns.next().filter(|start| start.len() >= 4)?),
            "hash" => self.hashes.push(columns.next()?),
            "mark" => self.marks.push(columns.next()?),
            "name" => {
                let entry = NameEntry::Kind(ValueKind::from_name(columns.next()?)?);
                self.add_names(columns, entry);
            }
            "harmless" => self.add_names(columns, NameEntry::Harmless),
            "after" => self.add_names(columns, NameEntry::Afterthought),
            "before" => self.negations.extend(columns.map(str::as_bytes)),
            "glued" => {
                let kind = ValueKind::from_name(columns.next()?)?;
                self.glued.extend(columns.map(|word| (word.as_bytes(), kind)));
            }
            "foreign" => self.foreign.extend(columns),
            "source" => self.sources.extend(columns.map(str::as_bytes)),
            "about" => self.attributes.extend(columns.map(str::as_bytes)),
            "state" => self.states.extend(columns.map(str::as_bytes)),
            "keyword" => self.keywords.extend(columns.map(str::as_bytes)),
            "root" => self.roots.extend(columns.map(str::as_bytes)),
            "word" => self.words.extend(columns.map(str::as_bytes)),
            "filler" => self.fillers.extend(columns.map(str::as_bytes)),
            "command" => self.commands.extend(columns.map(str::as_bytes)),
            "setter" => self.setters.extend(columns.map(str::as_bytes)),
            _ => return None,
        }
        Some(())
    }

    fn add_names(&mut self, words: impl Iterator<Item = &'static str>, entry: NameEntry) {
        for word in words {
            self.names.entry(word.as_bytes()).or_insert(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Redactor;

    /// Returns the secret in a row's example, and the part of it that must be hidden. `None` without an example.
    fn example(row: &str) -> Option<(String, &str)> {
        let columns: Vec<_> = row.split_ascii_whitespace().collect();
        match columns[..] {
            ["token", start, _, _, _, example] | ["webhook" | "hash", start, example] => {
                Some((format!("{start}{example}"), example))
            }
            ["label", label, example] => Some((format!("acme_{label}_{example}"), example)),
            ["mark", mark, example] => example.contains(mark).then(|| (example.to_owned(), example)),
            _ => None,
        }
    }

    #[test]
    fn each_example_is_hidden() {
        let redactor = Redactor::default();
        for row in rows() {
            assert!(Shapes::default().add(row).is_some(), "a wrong row: {row}");
            let is_shape = ["token", "label", "webhook", "hash", "mark"].iter().any(|table| row.starts_with(table));
            if !is_shape {
                continue;
            }
            let (secret, hidden) = example(row).unwrap_or_else(|| panic!("a row without an example: {row}"));
            let redacted = redactor.text(&format!("it is {secret} now")).into_owned();
            assert!(redacted.ends_with("*** now") && !redacted.contains(hidden), "{row}: {redacted}");
        }
    }
}
