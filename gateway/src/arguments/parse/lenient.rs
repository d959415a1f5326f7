//! JSON as models write it: trailing commas, comments, single quotes, Python's literals, line breaks within strings.
//!
//! Only what can mean one thing is read. What is cut off, what has a key twice, NaN, unquoted words and expressions are
//! not: to read those would be to guess.

use std::collections::HashSet;
use std::fmt;

use openskill_proto::limits::MAX_JSON_DEPTH;

use crate::arguments::tree::Tree;

/// Why a text can't be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::arguments) struct Fault {
    /// The character, from 1.
    place: usize,
    reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the JSON can't be read at character {}: {}", self.place, self.reason)
    }
}

/// Why there is no one object in a text.
pub(super) enum NotOne {
    /// There is none, or it is a part of something else.
    None,
    /// There is one that can't be read.
    Broken(Fault),
    /// There may be more than one.
    Several,
}

fn fault(text: &str, at: usize, reason: impl Into<String>) -> Fault {
    Fault { place: text[..text.floor_char_boundary(at)].chars().count() + 1, reason: reason.into() }
}

/// The value that begins at a place in a text, where it ends, and whether it deviates from JSON.
pub(in crate::arguments) fn value_at(text: &str, at: usize) -> Result<(Tree, usize, bool), Fault> {
    let mut reader = Reader { text, at, deviated: false };
    let tree = reader.value(0)?;
    Ok((tree, reader.at, reader.deviated))
}

/// The value that fills a text, and whether it deviates from JSON.
pub(in crate::arguments) fn whole(text: &str) -> Result<(Tree, bool), Fault> {
    let mut reader = Reader { text, at: 0, deviated: false };
    let tree = reader.value(0)?;
    reader.blank()?;
    if reader.at < text.len() {
        return Err(fault(text, reader.at, "there is text after the value"));
    }
    Ok((tree, reader.deviated))
}

/// The one object in a text that is not JSON as a whole, and whether it deviates from JSON.
pub(super) fn in_prose(text: &str) -> Result<(Tree, bool), NotOne> {
    let begin = text.find('{').ok_or(NotOne::None)?;
    // What stands around it tells whether it is a part of something: of a list, an assignment, a string, or an object
    // whose braces were lost.
    let before = &text[..begin];
    let within_object = before.contains('}')
        || is_after_keys(before)
        || ["\":", "\" :", "':", "' :"].iter().any(|it| before.contains(it));
    if within_object || before.trim_end().ends_with(['[', '(', ',', '"', '\'', '=', '\\']) {
        return Err(NotOne::None);
    }
    let (tree, end, deviated) = value_at(text, begin).map_err(NotOne::Broken)?;
    if text[end..].contains(['{', '}']) {
        return Err(NotOne::Several);
    }
    if text[end..].trim_start().starts_with([',', ':', ']', ')', '"', '\'', '+', '*', '/', '=', '|', '\\']) {
        return Err(NotOne::None);
    }
    Ok((tree, deviated))
}

/// Whether the text before an object ends in a key as YAML has it, `options:`, with other keys on the lines above.
fn is_after_keys(before: &str) -> bool {
    let key_of = |line: &str| {
        let (key, _) = line.trim_start().split_once(':')?;
        let plain = !key.is_empty() && key.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
        plain.then_some(())
    };
    let mut lines = before.lines().rev();
    let last = lines.next().filter(|line| line.trim_end().ends_with(':')).and_then(key_of);
    last.is_some() && lines.any(|line| key_of(line).is_some())
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Whether anything was read that JSON does not have.
    deviated: bool,
}

impl Reader<'_> {
    fn fail<T>(&self, reason: impl Into<String>) -> Result<T, Fault> {
        Err(fault(self.text, self.at, reason))
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, it: char) -> bool {
        let found = self.peek() == Some(it);
        if found {
            self.at += it.len_utf8();
        }
        found
    }

    /// Blanks and comments.
    fn blank(&mut self) -> Result<(), Fault> {
        loop {
            let blanks = self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r', '\u{feff}']).len();
            self.deviated |= self.rest()[..blanks].contains('\u{feff}');
            self.at += blanks;
            let rest = self.rest();
            // `#13` may be a value; a comment has a blank behind its mark.
            let mark = ["//", "#"].iter().find_map(|mark| rest.strip_prefix(mark));
            let length = if mark.is_some_and(|text| text.is_empty() || text.starts_with(char::is_whitespace)) {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(text) = rest.strip_prefix("/*") {
                match text.find("*/") {
                    Some(end) => end + 4,
                    None => return self.fail("a comment does not end"),
                }
            } else {
                return Ok(());
            };
            self.at += length;
            self.deviated = true;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Tree, Fault> {
        self.blank()?;
        match self.peek() {
            None => self.fail("it ends too early: was it cut off?"),
            Some('{' | '[') if depth >= MAX_JSON_DEPTH => self.fail(super::too_deep()),
            Some('{') => self.object(depth),
            Some('[') => self.list(depth),
            Some(quote @ ('"' | '\'')) => self.string(quote).map(Tree::Text),
            Some('-' | '0'..='9') => self.number(),
            Some(_) => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Tree, Fault> {
        self.at += 1;
        let (mut fields, mut seen) = (Vec::new(), HashSet::new());
        loop {
            self.blank()?;
            if self.skip('}') {
                self.deviated |= !fields.is_empty();
                return Ok(Tree::Object(fields));
            }
            let key = match self.peek() {
                Some(quote @ ('"' | '\'')) => self.string(quote)?,
                None => return self.fail("it ends too early: was it cut off?"),
                Some(other) => return self.fail(format!("expected a key in quotes, found '{}'", other.escape_debug())),
            };
            if !seen.insert(key.clone()) {
                return self.fail(super::twice(&key));
            }
            self.blank()?;
            if !self.skip(':') {
                return self.fail("expected ':' after the key");
            }
            fields.push((key, self.value(depth + 1)?));
            if !self.comma('}')? {
                return Ok(Tree::Object(fields));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Tree, Fault> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.blank()?;
            if self.skip(']') {
                self.deviated |= !items.is_empty();
                return Ok(Tree::List(items));
            }
            items.push(self.value(depth + 1)?);
            if !self.comma(']')? {
                return Ok(Tree::List(items));
            }
        }
    }

    /// Whether more follows: a comma stands here, and not the end.
    fn comma(&mut self, end: char) -> Result<bool, Fault> {
        self.blank()?;
        if self.skip(',') {
            return Ok(true);
        }
        if self.skip(end) {
            return Ok(false);
        }
        match self.peek() {
            None => self.fail("it ends too early: was it cut off?"),
            Some(other) => self.fail(format!("expected ',' or '{end}', found '{}'", other.escape_debug())),
        }
    }

    fn string(&mut self, quote: char) -> Result<String, Fault> {
        self.deviated |= quote != '"';
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(next) = self.peek() else { return self.fail("a string does not end: was it cut off?") };
            self.at += next.len_utf8();
            match next {
                _ if next == quote => return Ok(out),
                '\\' => out.push(self.escape()?),
                _ => {
                    // JSON wants these escaped; what they mean is plain.
                    self.deviated |= next < ' ';
                    out.push(next);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let Some(next) = self.peek() else { return self.fail("a string does not end: was it cut off?") };
        self.at += next.len_utf8();
        Ok(match next {
            '"' | '\\' | '/' => next,
            '\'' => {
                self.deviated = true;
                next
            }
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(),
            _ => return self.fail(format!("there is no escape '\\{}'", next.escape_debug())),
        })
    }

    fn unicode(&mut self) -> Result<char, Fault> {
        let first = self.hex4()?;
        let code = match first {
            0xd800..=0xdbff => {
                let paired = self.rest().starts_with("\\u");
                self.at += if paired { 2 } else { 0 };
                match if paired { self.hex4()? } else { 0 } {
                    second @ 0xdc00..=0xdfff => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => return self.fail("half of a surrogate pair"),
                }
            }
            other => other,
        };
        char::from_u32(code).map_or_else(|| self.fail("half of a surrogate pair"), Ok)
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let digits = self.rest().get(..4).filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|it| u32::from_str_radix(it, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.fail("expected four hex digits after '\\u'"),
        }
    }

    fn number(&mut self) -> Result<Tree, Fault> {
        let length = self.rest().find(|it: char| !matches!(it, '0'..='9' | '+' | '-' | '.' | 'e' | 'E' | '_'));
        let written = &self.rest()[..length.unwrap_or(self.rest().len())];
        if serde_json::from_str::<serde_json::Number>(written).is_err() {
            return self.fail(format!("'{}' is no number of JSON", written.chars().take(40).collect::<String>()));
        }
        let number = Tree::Number(written.to_owned());
        self.at += written.len();
        Ok(number)
    }

    fn word(&mut self) -> Result<Tree, Fault> {
        let length = self.rest().find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(self.rest().len());
        let word = &self.rest()[..length];
        let tree = match word {
            "null" | "None" => Tree::Null,
            "true" | "True" => Tree::Bool(true),
            "false" | "False" => Tree::Bool(false),
            "NaN" | "Infinity" | "inf" | "nan" => return self.fail("JSON has no NaN and no infinity"),
            "" => {
                let found = self.peek().unwrap_or(' ');
                return self.fail(format!("expected a value, found '{}'", found.escape_debug()));
            }
            _ => {
                let shown: String = word.chars().take(40).collect();
                return self.fail(format!("'{shown}' is no JSON value: put text in double quotes"));
            }
        };
        self.deviated |= matches!(word, "None" | "True" | "False");
        self.at += length;
        Ok(tree)
    }
}
