//! The settings of a `cli:exec` skill: a program and its command line.
//!
//! Without `args` a program gets its arguments on stdin, like a script. Each of `args` is one element of the command line;
//! `{name}` stands for an argument of the call. There is no shell, and no value can become an option. A program that does
//! not know the contract of scripts says with `output` what it prints.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::error::Fault;
use super::path::beside;

mod printed;

pub(crate) use printed::{Output, Printed};

/// How many elements a command line may have.
const MAX_ARGS: usize = 64;

/// As written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {
    args: Vec<String>,
    stdin: Option<Value>,
    output: Option<Output>,
    ok_exits: Option<Vec<u8>>,
    invalid_exits: Option<Vec<u8>>,
    show_stderr: Option<bool>,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// The program: absolute.
    pub program: PathBuf,
    /// The elements of its command line, in order.
    pub args: Vec<Element>,
    /// What comes on stdin.
    pub stdin: Stdin,
    /// How to read its output; none if it is that of a script.
    pub printed: Option<Printed>,
}

/// What a program reads on stdin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: it is closed.
    Nothing,
    /// The arguments of the call: `{"input": {...}}`.
    Input,
    /// The argument with this name: a string as it is, another value as JSON.
    Argument(String),
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
        let in_args = self.args.iter().filter_map(|it| match it {
            Element::Value { name, .. } => Some(("args name", name)),
            Element::Literal(_) => None,
        });
        let on_stdin = match &self.stdin {
            Stdin::Argument(name) => Some(("stdin names", name)),
            Stdin::Nothing | Stdin::Input => None,
        };
        match in_args.chain(on_stdin).find(|(_, name)| !properties.contains_key(*name)) {
            Some((who, name)) => {
                Err(("exec", format!("its {who} '{{{name}}}', which is not one of its parameters")).into())
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
    let stdin = match &raw.stdin {
        None => {
            if maps {
                Stdin::Nothing
            } else {
                Stdin::Input
            }
        }
        Some(written) => stdin(written).ok_or_else(|| {
            Fault::from((
                "exec",
                format!("stdin is true, false, or the name of a parameter as \"{{name}}\", not {written}"),
            ))
        })?,
    };
    let (output, ok_exits, invalid_exits) = (raw.output, raw.ok_exits, raw.invalid_exits);
    let printed = printed::resolve(printed::Raw { output, ok_exits, invalid_exits, show_stderr: raw.show_stderr })?;
    Ok(Exec { program, args, stdin, printed })
}

fn stdin(written: &Value) -> Option<Stdin> {
    match written {
        Value::Bool(false) => Some(Stdin::Nothing),
        Value::Bool(true) => Some(Stdin::Input),
        Value::String(text) => Some(Stdin::Argument(text.strip_prefix('{').and_then(name)?.to_owned())),
        _ => None,
    }
}

/// The name in the rest of a `{name}`.
fn name(rest: &str) -> Option<&str> {
    rest.strip_suffix('}').filter(|name| !name.is_empty() && !name.contains(['{', '}']))
}

fn element(text: &str, after_dashes: bool) -> Result<Element, String> {
    if text.contains('\0') {
        return Err("a command line cannot contain NUL".to_owned());
    }
    let Some((prefix, rest)) = text.split_once('{') else {
        return Ok(Element::Literal(text.to_owned()));
    };
    let Some(name) = name(rest) else {
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
    use serde_json::json;

    use super::*;

    fn read(raw: Value) -> Result<Exec, String> {
        let raw = serde_json::from_value(raw).map_err(|error| error.to_string())?;
        resolve(raw, "/bin/true", Path::new("/skills/true.yaml")).map_err(|fault| fault.reason)
    }

    #[test]
    fn stdin_is_the_call_nothing_or_one_parameter() {
        for (raw, stdin) in [
            (json!({}), Stdin::Input),
            (json!({"args": ["{x}"]}), Stdin::Nothing),
            (json!({"args": ["{x}"], "stdin": true}), Stdin::Input),
            (json!({"stdin": false}), Stdin::Nothing),
            (json!({"stdin": "{text}"}), Stdin::Argument("text".to_owned())),
        ] {
            assert_eq!(read(raw.clone()).unwrap().stdin, stdin, "{raw}");
        }
        for bad in [json!("text"), json!("{}"), json!("{a}{b}"), json!("x{a}"), json!(1)] {
            assert!(read(json!({ "stdin": bad })).unwrap_err().contains("stdin is true, false"), "{bad}");
        }
        let schema = json!({"properties": {"text": {}}});
        let fault = read(json!({"stdin": "{txt}"})).unwrap().check(Some(&schema)).unwrap_err();
        assert!(fault.reason.contains("stdin names '{txt}'"), "{}", fault.reason);
        assert!(read(json!({"stdin": "{text}"})).unwrap().check(Some(&schema)).is_ok());
    }

    #[test]
    fn exit_codes_are_the_manifests_only_if_the_output_is() {
        assert_eq!(read(json!({})).unwrap().printed, None);
        let lines = read(json!({"output": "lines"})).unwrap().printed.unwrap();
        assert_eq!((lines.output, lines.ok_exits, lines.show_stderr), (Output::Lines, vec![0], false));
        let both = read(json!({"output": "text", "ok_exits": [0, 1], "invalid_exits": [2]})).unwrap().printed.unwrap();
        assert_eq!((both.ok_exits, both.invalid_exits), (vec![0, 1], vec![2]));
        for (bad, word) in [
            (json!({"ok_exits": [0, 1]}), "ok_exits needs output"),
            (json!({"show_stderr": true}), "show_stderr needs output"),
            (json!({"output": "lines", "ok_exits": []}), "never succeed"),
            (json!({"output": "lines", "invalid_exits": [0]}), "in ok_exits and in invalid_exits"),
            (json!({"output": "lines", "ok_exits": [256]}), "256"),
            (json!({"output": "yaml"}), "yaml"),
        ] {
            assert!(read(bad.clone()).unwrap_err().contains(word), "{bad}");
        }
    }

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
