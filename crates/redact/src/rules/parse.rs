//! Parses a rule file in TOML: keys with booleans, strings and lists of strings, and `[[token]]` tables.

use std::ops::Range;

use toml_edit::{Document, Item, Table};

use super::{RuleError, Rules, SHORTEST_LITERAL};
use crate::classes::TOKEN;
use crate::shapes::{Look, TokenShape, characters};

/// The maximum number of names and texts in total, and the maximum number of tokens.
const MOST: usize = 10_000;
const LONGEST: usize = 4096;

type Result<T> = std::result::Result<T, String>;

impl Rules {
    /// Parses a rule file. `docs/redaction.md` describes the format.
    ///
    /// # Errors
    /// [`RuleError`], with the line and a fix.
    pub fn parse(text: &str) -> std::result::Result<Self, RuleError> {
        let error = |span: Option<Range<usize>>, message: String| {
            let start = span.map_or(0, |span| span.start);
            RuleError { line: 1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count(), message }
        };
        let document = Document::parse(text).map_err(|it| error(it.span(), it.message().to_owned()))?;
        let mut rules = Self::default();
        for (key, item) in document.iter() {
            let Some(tables) = item.as_array_of_tables().filter(|_| key == "token") else {
                rules.add(key, item).map_err(|message| error(item.span(), message))?;
                continue;
            };
            if tables.len() > MOST {
                return Err(error(None, format!("more than {MOST} tokens: remove some")));
            }
            for table in tables {
                let token = token(table).map_err(|(span, message)| error(span, message))?;
                rules.tokens.push(token);
            }
        }
        Ok(rules)
    }

    fn add(&mut self, key: &str, item: &Item) -> Result<()> {
        if item.is_table() || item.is_array_of_tables() {
            return Err(format!("unknown table {key}: expected [[token]]"));
        }
        match key {
            "built_in" => self.replaces_built_in = !switch(key, item)?,
            "emails" => self.emails = switch(key, item)?,
            "phones" => self.phones = switch(key, item)?,
            "id_key" => {
                let id_key = item.as_str().filter(|id_key| id_key.len() >= 16);
                let id_key =
                    id_key.ok_or("`id_key` must be a string of at least 16 characters: generate a random one")?;
                self.id_key = Some(id_key.as_bytes().to_vec());
            }
            "names" => self.names = names(key, item)?,
            "keep" => self.keep = names(key, item)?,
            "literals" => self.literals = literals(key, item)?,
            _ => {
                return Err(format!(
                    "unknown key `{key}`: expected built_in, emails, phones, names, keep, literals or id_key; set tokens in [[token]] tables"
                ));
            }
        }
        let count = self.names.len() + self.keep.len() + self.literals.len();
        if count > MOST { Err(format!("more than {MOST} names and literals: shorten the lists")) } else { Ok(()) }
    }
}

/// Parses a `[[token]]` table. An error contains its range in the file.
fn token(table: &Table) -> std::result::Result<TokenShape, (Option<Range<usize>>, String)> {
    let mut token = TokenShape { prefix: String::new(), characters: TOKEN, shortest: 16, look: Look::Any };
    for (key, item) in table {
        token_key(&mut token, key, item).map_err(|message| (item.span(), message))?;
    }
    if token.prefix.is_empty() {
        return Err((table.span(), "this [[token]] has no `prefix`: add prefix = \"acme_\"".to_owned()));
    }
    Ok(token)
}

fn token_key(token: &mut TokenShape, key: &str, item: &Item) -> Result<()> {
    match key {
        "prefix" => {
            let prefix = item.as_str().filter(|prefix| (2..=64).contains(&prefix.len()));
            token.prefix = prefix.ok_or("`prefix` must be a string of 2 to 64 bytes")?.to_owned();
        }
        "min" => {
            let shortest = item.as_integer().and_then(|it| usize::try_from(it).ok()).filter(|it| *it <= LONGEST);
            token.shortest = shortest.ok_or_else(|| {
                format!("`min` must be a number from 0 to {LONGEST}: the minimum number of characters after the prefix")
            })?;
        }
        "characters" => {
            token.characters = item
                .as_str()
                .and_then(characters)
                .ok_or("`characters` must be a string: alnum, hex, upper, token, dotted, padded, dollars or base64")?;
        }
        _ => {
            return Err(format!(
                "unknown key `{key}` in [[token]]: expected prefix, min or characters; top-level keys must come before the first [[token]]"
            ));
        }
    }
    Ok(())
}

fn switch(key: &str, item: &Item) -> Result<bool> {
    item.as_bool().ok_or_else(|| format!("`{key}` must be true or false"))
}

fn strings(key: &str, item: &Item) -> Result<Vec<String>> {
    let strings = item.as_array().and_then(|list| list.iter().map(|it| Some(it.as_str()?.to_owned())).collect());
    strings.ok_or_else(|| format!("`{key}` must be a list of strings: {key} = [\"one\", \"two\"]"))
}

fn names(key: &str, item: &Item) -> Result<Vec<String>> {
    let names = strings(key, item)?;
    let is_name =
        |name: &String| (2..=48).contains(&name.len()) && name.bytes().any(|byte| byte.is_ascii_alphanumeric());
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(format!("\"{name}\" is not a valid name: use 2 to 48 letters, digits and separators")),
        None => Ok(names),
    }
}

fn literals(key: &str, item: &Item) -> Result<Vec<String>> {
    let literals = strings(key, item)?;
    if literals.iter().all(|text| (SHORTEST_LITERAL..=LONGEST).contains(&text.len())) {
        return Ok(literals);
    }
    Err(format!("a literal must have {SHORTEST_LITERAL} to {LONGEST} bytes: a shorter one would hide parts of words"))
}
