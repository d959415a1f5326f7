//! Reads a rule file: the part of TOML that rules need. Tables `[[token]]`, and keys with strings, numbers, booleans, and
//! lists of strings.

use super::{RuleError, Rules, SHORTEST_LITERAL};
use crate::classes::{ALNUM, BASE64, DOT, HEX, JOINT, PADDING, UPPER};
use crate::custom::Token;

/// How many names, texts and tokens a file may have together.
const MOST: usize = 10_000;
const LONGEST: usize = 4096;

enum Value {
    Bool(bool),
    Number(usize),
    Text(String),
    List(Vec<String>),
}

type Result<T> = std::result::Result<T, String>;

impl Rules {
    /// Reads a rule file. `docs/redaction.md` describes it.
    ///
    /// # Errors
    /// [`RuleError`], with the line, and with what to do.
    pub fn parse(text: &str) -> std::result::Result<Self, RuleError> {
        let mut reader = Reader { rules: Self::default(), token: None };
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let mut whole = line.to_owned();
            // A list may go on in further lines.
            while is_open(&whole) {
                let Some((_, line)) = lines.next() else { break };
                whole.push('\n');
                whole.push_str(line);
            }
            reader.line(&whole).map_err(|message| RuleError { line: number + 1, message })?;
        }
        reader.end().map_err(|message| RuleError { line: text.lines().count(), message })
    }
}

fn is_open(line: &str) -> bool {
    let value = line.split_once('=').map_or("", |(_, value)| value.trim_start());
    value.starts_with('[') && !without_comment(value).trim_end().ends_with(']')
}

/// Without what follows a `#` outside of quotes.
fn without_comment(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    for line in line.split('\n') {
        let mut quote = None;
        let comment = line.char_indices().find(|(_, it)| match (quote, it) {
            (None, '#') => true,
            (None, '"' | '\'') => {
                quote = Some(*it);
                false
            }
            (Some(open), it) if open == *it => {
                quote = None;
                false
            }
            _ => false,
        });
        kept.push_str(comment.map_or(line, |(at, _)| &line[..at]));
        kept.push(' ');
    }
    kept
}

struct Reader {
    rules: Rules,
    token: Option<Token>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<()> {
        let line = without_comment(line);
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        if line == "[[token]]" {
            self.finish_token()?;
            self.token = Some(Token { prefix: String::new(), characters: ALNUM | JOINT, shortest: 16 });
            return Ok(());
        }
        if line.starts_with('[') {
            return Err(format!("unknown table {line}: the only one is [[token]]"));
        }
        let (key, value) = line.split_once('=').ok_or("expected `key = value`, such as `emails = true`")?;
        let value = value_of(value.trim())?;
        match &mut self.token {
            Some(token) => token_key(token, key.trim(), value),
            None => self.key(key.trim(), value),
        }
    }

    fn key(&mut self, key: &str, value: Value) -> Result<()> {
        match (key, value) {
            ("built_in", Value::Bool(is_on)) => self.rules.built_in = is_on,
            ("emails", Value::Bool(is_on)) => self.rules.emails = is_on,
            ("phones", Value::Bool(is_on)) => self.rules.phones = is_on,
            ("built_in" | "emails" | "phones", _) => return Err(format!("`{key}` is true or false")),
            ("id_key", Value::Text(key)) if key.len() >= 16 => self.rules.id_key = Some(key.into_bytes()),
            ("id_key", _) => return Err("`id_key` is a string of 16 characters or more: generate it".to_owned()),
            ("names", Value::List(names)) => self.rules.names.extend(names_of(names)?),
            ("keep", Value::List(names)) => self.rules.keep.extend(names_of(names)?),
            ("literals", Value::List(texts)) => self.rules.literals.extend(literals_of(texts)?),
            ("names" | "keep" | "literals", _) => {
                return Err(format!("`{key}` is a list of strings: {key} = [\"one\", \"two\"]"));
            }
            _ => {
                return Err(format!(
                    "unknown key `{key}`: the keys are built_in, emails, phones, names, keep, literals and id_key; tokens have a table [[token]]"
                ));
            }
        }
        let count = self.rules.names.len() + self.rules.keep.len() + self.rules.literals.len();
        if count > MOST { Err(format!("more than {MOST} names and literals: shorten the lists")) } else { Ok(()) }
    }

    fn finish_token(&mut self) -> Result<()> {
        let Some(token) = self.token.take() else { return Ok(()) };
        if token.prefix.is_empty() {
            return Err("a [[token]] before this line has no `prefix`: add prefix = \"acme_\"".to_owned());
        }
        self.rules.tokens.push(token);
        if self.rules.tokens.len() > MOST { Err(format!("more than {MOST} tokens: remove some")) } else { Ok(()) }
    }

    fn end(mut self) -> Result<Rules> {
        self.finish_token()?;
        Ok(self.rules)
    }
}

fn token_key(token: &mut Token, key: &str, value: Value) -> Result<()> {
    match (key, value) {
        ("prefix", Value::Text(prefix)) if (2..=64).contains(&prefix.len()) => token.prefix = prefix,
        ("prefix", _) => return Err("`prefix` is a string of 2 to 64 bytes".to_owned()),
        ("min", Value::Number(shortest)) if shortest <= LONGEST => token.shortest = shortest,
        ("min", _) => {
            return Err(format!(
                "`min` is a number from 0 to {LONGEST}: how many characters follow the prefix at least"
            ));
        }
        ("characters", Value::Text(name)) => token.characters = characters(&name)?,
        ("characters", _) => {
            return Err("`characters` is a string: alnum, hex, upper, token, dotted or base64".to_owned());
        }
        _ => {
            return Err(format!(
                "unknown key `{key}` of a token: the keys are prefix, min and characters; keys for all rules come before the first [[token]]"
            ));
        }
    }
    Ok(())
}

fn characters(name: &str) -> Result<u16> {
    Ok(match name {
        "alnum" => ALNUM,
        "hex" => HEX,
        "upper" => UPPER,
        "token" => ALNUM | JOINT,
        "dotted" => ALNUM | JOINT | DOT,
        "base64" => ALNUM | JOINT | DOT | BASE64 | PADDING,
        _ => return Err(format!("unknown `characters` \"{name}\": alnum, hex, upper, token, dotted or base64")),
    })
}

fn names_of(names: Vec<String>) -> Result<Vec<String>> {
    match names
        .iter()
        .find(|name| !(2..=48).contains(&name.len()) || !name.bytes().any(|it| it.is_ascii_alphanumeric()))
    {
        Some(name) => Err(format!("\"{name}\" is no name: use 2 to 48 letters, digits and separators")),
        None => Ok(names),
    }
}

fn literals_of(texts: Vec<String>) -> Result<Vec<String>> {
    match texts.iter().find(|text| !(SHORTEST_LITERAL..=LONGEST).contains(&text.len())) {
        Some(_) => {
            Err(format!("a literal has {SHORTEST_LITERAL} to {LONGEST} bytes: a shorter one would hide parts of words"))
        }
        None => Ok(texts),
    }
}

fn value_of(text: &str) -> Result<Value> {
    match text {
        "true" => return Ok(Value::Bool(true)),
        "false" => return Ok(Value::Bool(false)),
        _ => {}
    }
    if let Some(list) = text.strip_prefix('[') {
        let list = list.strip_suffix(']').ok_or("a list ends with `]`")?;
        return list_of(list).map(Value::List);
    }
    if let Ok(number) = text.parse() {
        return Ok(Value::Number(number));
    }
    if !text.starts_with(['"', '\'']) {
        return Err(format!("`{text}` is neither true nor false, nor a number: put a string in double quotes"));
    }
    match string(text)? {
        (text, "") => Ok(Value::Text(text)),
        (_, rest) => Err(format!("`{rest}` follows the string: remove it")),
    }
}

fn list_of(mut text: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return Ok(found);
        }
        let (item, rest) = string(text)?;
        found.push(item);
        let rest = rest.trim_start();
        text = match rest.strip_prefix(',') {
            Some(rest) => rest,
            None if rest.is_empty() => rest,
            None => return Err("separate the strings of a list by commas".to_owned()),
        };
    }
}

/// A string at the beginning of a text, and what follows it.
fn string(text: &str) -> Result<(String, &str)> {
    let quote = text
        .chars()
        .next()
        .filter(|it| matches!(it, '"' | '\''))
        .ok_or_else(|| format!("put `{text}` in double quotes"))?;
    let mut out = String::new();
    let mut characters = text[1..].char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            it if it == quote => return Ok((out, text[1 + at + 1..].trim_start())),
            '\\' if quote == '"' => match characters.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((_, 't')) => out.push('\t'),
                Some((_, it @ ('"' | '\\'))) => out.push(it),
                _ => {
                    return Err("escapes are \\n, \\t, \\\" and \\\\; write the string in single quotes to have none"
                        .to_owned());
                }
            },
            it => out.push(it),
        }
    }
    Err(format!("a string is not closed: add {quote} at its end"))
}
