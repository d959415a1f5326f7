//! The settings of a `cli:exec` skill: a program and its command line.
//!
//! Without `args` a program gets its arguments on stdin, like a script. Each of `args` is one element of the command line;
//! `{name}` stands for an argument of the call. There is no shell, and no value can become an option.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::error::Fault;
use super::path::beside;

/// How many elements a command line may have.
const MAX_ARGS: usize = 64;

/// As written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {
    args: Vec<String>,
    stdin: Option<bool>,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// The program: absolute.
    pub program: PathBuf,
    /// The elements of its command line, in order.
    pub args: Vec<Element>,
    /// Whether the call's arguments come on stdin: `{"input": {...}}`.
    pub stdin: bool,
}

/// One element of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Element {
    /// Literal text.
    Literal(String),
    /// `prefix{name}`: omitted without the argument; repeated for each item of a list.
    Value {
        /// The text before the value. If it begins with `-`, it contains a `=`.
        prefix: String,
        /// The argument.
        name: String,
        /// A literal `--` precedes it, after which nothing is an option.
        after_dashes: bool,
    },
}

impl Exec {
    /// Checks that each value of the command line is a declared parameter.
    pub(super) fn check(&self, schema: Option<&Value>) -> Result<(), Fault> {
        let Some(properties) = schema.and_then(|it| it.get("properties")).and_then(Value::as_object) else {
            return Ok(());
        };
        let unknown = self.args.iter().find_map(|it| match it {
            Element::Value { name, .. } if !properties.contains_key(name) => Some(name),
            _ => None,
        });
        match unknown {
            Some(name) => {
                Err(("exec", format!("its args name '{{{name}}}', which is not one of its parameters")).into())
            }
            None => Ok(()),
        }
    }
}

/// Checks the settings.
pub(super) fn resolve(raw: Raw, entry: &str, file: &Path) -> Result<Exec, Fault> {
    let program = if entry.starts_with('/') { PathBuf::from(entry) } else { beside(entry, file)? };
    if raw.args.len() > MAX_ARGS {
        return Err(("exec", format!("at most {MAX_ARGS} args")).into());
    }
    let mut after_dashes = false;
    let mut args = Vec::with_capacity(raw.args.len());
    for text in raw.args {
        let element = element(&text, after_dashes).map_err(|reason| Fault::from(("exec", reason)))?;
        after_dashes |= element == Element::Literal("--".to_owned());
        args.push(element);
    }
    let maps = args.iter().any(|it| matches!(it, Element::Value { .. }));
    Ok(Exec { program, args, stdin: raw.stdin.unwrap_or(!maps) })
}

fn element(text: &str, after_dashes: bool) -> Result<Element, String> {
    if text.contains('\0') {
        return Err("a command line cannot contain NUL".to_owned());
    }
    let Some((prefix, rest)) = text.split_once('{') else {
        return Ok(Element::Literal(text.to_owned()));
    };
    let name = rest.strip_suffix('}').filter(|name| !name.is_empty() && !name.contains(['{', '}']));
    let Some(name) = name else {
        return Err(format!("'{text}': a value is written {{name}}, once, at the end of its element"));
    };
    // `-o{x}` would let the value choose options, as `-ovx` is `-o -v -x` to many programs.
    if !after_dashes && prefix.starts_with('-') && !prefix.contains('=') {
        return Err(format!("'{text}': an option takes its value after '=', or as the next element"));
    }
    Ok(Element::Value { prefix: prefix.to_owned(), name: name.to_owned(), after_dashes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_a_literal_or_ends_in_one_value() {
        let value = |prefix: &str, after_dashes| {
            Ok(Element::Value { prefix: prefix.to_owned(), name: "x".to_owned(), after_dashes })
        };
        assert_eq!(element("-l", false), Ok(Element::Literal("-l".to_owned())));
        assert_eq!(element("{x}", false), value("", false));
        assert_eq!(element("--size={x}", false), value("--size=", false));
        assert_eq!(element("-{x}", true), value("-", true));
        for bad in ["-{x}", "--size{x}", "{x}{y}", "{}", "{x} more", "{x", "a\0"] {
            assert!(element(bad, false).is_err(), "{bad}");
        }
    }
}
