//! Reads JSON as models write it: trailing commas, comments, single quotes, Python literals, line breaks in
//! strings.
//!
//! Rejects ambiguous text: truncated text, duplicate keys, NaN, unquoted words and expressions, because reading
//! them would be a guess.

use std::collections::HashSet;

use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_JSON_VALUES};
use openskill_proto::model_text::comment_length;

use super::errors::{duplicate_key, stopped_at, too_deep, too_many_values};
use crate::arguments::tree::Tree;

/// The error for text that ends within a value.
const CUT_OFF: &str = "unexpected end of the text: was it cut off?";

/// Reads the value that begins at byte `at`. Returns the value, its end, and whether it deviates from JSON.
pub(in crate::arguments) fn value_at(text: &str, at: usize) -> Result<(Tree, usize, bool), String> {
    let mut reader = Reader { text, at, deviates: false, values: 0 };
    let tree = reader.value(0)?;
    Ok((tree, reader.at, reader.deviates))
}

/// Reads a value that spans the whole text. Returns the value, and whether it deviates from JSON.
pub(in crate::arguments) fn parse_complete(text: &str) -> Result<(Tree, bool), String> {
    let mut reader = Reader { text, at: 0, deviates: false, values: 0 };
    let tree = reader.value(0)?;
    reader.skip_blanks()?;
    if reader.at < text.len() {
        return reader.fail("unexpected text after the value");
    }
    Ok((tree, reader.deviates))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Whether the text so far deviates from JSON.
    deviates: bool,
    /// The number of values so far.
    values: usize,
}

impl Reader<'_> {
    fn fail<T>(&self, reason: impl AsRef<str>) -> Result<T, String> {
        Err(stopped_at(self.text, self.at, reason.as_ref()))
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

    /// Skips whitespace and comments.
    fn skip_blanks(&mut self) -> Result<(), String> {
        loop {
            let blanks = self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r', '\u{feff}']).len();
            self.deviates |= self.rest()[..blanks].contains('\u{feff}');
            self.at += blanks;
            let Some(length) = comment_length(self.rest()) else { return self.fail("unterminated comment") };
            if length == 0 {
                return Ok(());
            }
            self.at += length;
            self.deviates = true;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Tree, String> {
        self.skip_blanks()?;
        self.values += 1;
        match self.peek() {
            None => self.fail(CUT_OFF),
            Some(_) if self.values > MAX_JSON_VALUES => self.fail(too_many_values()),
            Some('{' | '[') if depth >= MAX_JSON_DEPTH => self.fail(too_deep()),
            Some('{') => self.object(depth),
            Some('[') => self.list(depth),
            Some(quote @ ('"' | '\'')) => self.string(quote).map(Tree::Text),
            Some('-' | '0'..='9') => self.number(),
            Some(_) => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Tree, String> {
        self.at += 1;
        let (mut fields, mut seen) = (Vec::new(), HashSet::new());
        loop {
            self.skip_blanks()?;
            if self.skip('}') {
                self.deviates |= !fields.is_empty();
                return Ok(Tree::Object(fields));
            }
            let key = match self.peek() {
                Some(quote @ ('"' | '\'')) => self.string(quote)?,
                None => return self.fail(CUT_OFF),
                Some(other) => return self.fail(format!("expected a quoted key, found '{}'", other.escape_debug())),
            };
            if !seen.insert(key.clone()) {
                return self.fail(duplicate_key(&key));
            }
            self.skip_blanks()?;
            if !self.skip(':') {
                return self.fail("expected ':' after the key");
            }
            fields.push((key, self.value(depth + 1)?));
            if !self.comma('}')? {
                return Ok(Tree::Object(fields));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Tree, String> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_blanks()?;
            if self.skip(']') {
                self.deviates |= !items.is_empty();
                return Ok(Tree::List(items));
            }
            items.push(self.value(depth + 1)?);
            if !self.comma(']')? {
                return Ok(Tree::List(items));
            }
        }
    }

    /// Consumes a comma or the end character. Returns whether it was a comma.
    fn comma(&mut self, end: char) -> Result<bool, String> {
        self.skip_blanks()?;
        if self.skip(',') {
            return Ok(true);
        }
        if self.skip(end) {
            return Ok(false);
        }
        match self.peek() {
            None => self.fail(CUT_OFF),
            Some(other) => self.fail(format!("expected ',' or '{end}', found '{}'", other.escape_debug())),
        }
    }

    fn string(&mut self, quote: char) -> Result<String, String> {
        self.deviates |= quote != '"';
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(next) = self.peek() else { return self.fail("unterminated string: was it cut off?") };
            self.at += next.len_utf8();
            match next {
                _ if next == quote => return Ok(out),
                '\\' => out.push(self.escape()?),
                _ => {
                    // JSON requires escapes for control characters, but their meaning is clear.
                    self.deviates |= next < ' ';
                    out.push(next);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let Some(next) = self.peek() else { return self.fail("unterminated string: was it cut off?") };
        self.at += next.len_utf8();
        Ok(match next {
            '"' | '\\' | '/' => next,
            '\'' => {
                self.deviates = true;
                next
            }
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(),
            _ => return self.fail(format!("invalid escape '\\{}'", next.escape_debug())),
        })
    }

    fn unicode(&mut self) -> Result<char, String> {
        let high = self.hex4()?;
        let mut low = None;
        if (0xd800..0xdc00).contains(&high) && self.rest().starts_with("\\u") {
            self.at += 2;
            low = Some(self.hex4()?);
        }
        let character = char::decode_utf16([high].into_iter().chain(low)).next();
        character.and_then(Result::ok).map_or_else(|| self.fail("unpaired surrogate"), Ok)
    }

    fn hex4(&mut self) -> Result<u16, String> {
        let digits = self.rest().get(..4).filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|it| u16::from_str_radix(it, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.fail("expected four hex digits after '\\u'"),
        }
    }

    fn number(&mut self) -> Result<Tree, String> {
        let length = self.rest().find(|it: char| !matches!(it, '0'..='9' | '+' | '-' | '.' | 'e' | 'E' | '_'));
        let written = &self.rest()[..length.unwrap_or(self.rest().len())];
        if serde_json::from_str::<serde_json::Number>(written).is_err() {
            return self.fail(format!("'{}' is not a JSON number", written.chars().take(40).collect::<String>()));
        }
        let number = Tree::Number(written.to_owned());
        self.at += written.len();
        Ok(number)
    }

    fn word(&mut self) -> Result<Tree, String> {
        let length = self.rest().find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(self.rest().len());
        let word = &self.rest()[..length];
        let tree = match word {
            "null" | "None" => Tree::Null,
            "true" | "True" => Tree::Bool(true),
            "false" | "False" => Tree::Bool(false),
            "NaN" | "Infinity" | "inf" | "nan" => return self.fail("JSON has no NaN or Infinity"),
            "" => {
                let found = self.peek().unwrap_or(' ');
                return self.fail(format!("expected a value, found '{}'", found.escape_debug()));
            }
            _ => {
                let shown: String = word.chars().take(40).collect();
                return self.fail(format!("'{shown}' is not a JSON value: put text in double quotes"));
            }
        };
        self.deviates |= matches!(word, "None" | "True" | "False");
        self.at += length;
        Ok(tree)
    }
}
