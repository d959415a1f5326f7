//! The settings of a `cli:exec` skill: a program and its command line.
//!
//! Without `args`, a program gets its arguments on stdin, like a script. Each item of `args` is one command-line
//! element, in which `{name}` is replaced by an argument of the call. No shell is involved, and no value can
//! become an option. A program that does not follow the contract of scripts declares its output format with
//! `output`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::checks::{ManifestFault, beside, refuse};

/// The maximum number of command-line elements.
const MAX_ARGS: usize = 64;

/// The settings as the manifest contains them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawExec {
    args: Vec<String>,
    stdin: Option<Value>,
    output: Option<Output>,
    ok_exits: Option<Vec<u8>>,
    invalid_exits: Option<Vec<u8>>,
    show_stderr: Option<bool>,
}

/// A program, and how it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// The absolute path of the program.
    pub program: PathBuf,
    /// The command-line elements, in order.
    pub args: Vec<Element>,
    /// The source of the program's stdin.
    pub stdin: Stdin,
    /// How to parse the output. `None` if the program follows the contract of scripts.
    pub printed: Option<Printed>,
}

/// The source of a program's stdin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Stdin is closed.
    Nothing,
    /// The call's arguments as `{"input": {...}}`.
    Input,
    /// The argument with this name: a string as it is, any other value as JSON.
    Argument(String),
}

/// One element of the command line: a constant or an argument of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Element {
    /// Text that is the same in each call.
    Literal(String),
    /// `prefix{name}`. Omitted if the argument is missing, and repeated for each item of a list.
    Value {
        /// The text before the value. Contains `=` if it begins with `-`.
        prefix: String,
        /// The name of the call's argument.
        name: String,
        /// Whether a literal `--` precedes it, so that no value is an option.
        after_dashes: bool,
    },
}

/// How to convert stdout to data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// One JSON value, which becomes the data.
    Json,
    /// Lines, which become a list of strings.
    Lines,
    /// Text, which becomes a string.
    Text,
}

/// How to interpret a program's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// How to convert stdout to data.
    pub output: Output,
    /// The exit codes that mean success.
    pub ok_exits: Vec<u8>,
    /// The exit codes that indicate an invalid argument.
    pub invalid_exits: Vec<u8>,
    /// Whether errors show the end of stderr to the caller.
    pub show_stderr: bool,
}

impl Exec {
    /// Checks that each value on the command line is a declared parameter.
    pub(super) fn check(&self, schema: Option<&Value>) -> Result<(), ManifestFault> {
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
            Some((who, name)) => refuse("exec", format!("its {who} '{{{name}}}', which is not one of its parameters")),
            None => Ok(()),
        }
    }
}

pub(super) fn resolve(raw: RawExec, entry: &str, file: &Path) -> Result<Exec, ManifestFault> {
    let program = if entry.starts_with('/') { PathBuf::from(entry) } else { beside(entry, file)? };
    if raw.args.len() > MAX_ARGS {
        return refuse("exec", format!("must have at most {MAX_ARGS} args"));
    }
    let mut after_dashes = false;
    let mut args = Vec::with_capacity(raw.args.len());
    for text in &raw.args {
        let element = element(text, after_dashes).map_err(|reason| ManifestFault::new("exec", reason))?;
        after_dashes |= element == Element::Literal("--".to_owned());
        args.push(element);
    }
    let stdin = match &raw.stdin {
        None if args.iter().any(|it| matches!(it, Element::Value { .. })) => Stdin::Nothing,
        None => Stdin::Input,
        Some(written) => stdin(written).ok_or_else(|| {
            let reason =
                format!("stdin must be true, false, or the name of a parameter as \"{{name}}\", not {written}");
            ManifestFault::new("exec", reason)
        })?,
    };
    let printed = raw.printed().map_err(|reason| ManifestFault::new("exec", reason))?;
    Ok(Exec { program, args, stdin, printed })
}

impl RawExec {
    /// Validates how to interpret the output. Returns `None` if the program follows the contract of scripts.
    fn printed(self) -> Result<Option<Printed>, String> {
        let Some(output) = self.output else {
            let others = [
                ("ok_exits", self.ok_exits.is_some()),
                ("invalid_exits", self.invalid_exits.is_some()),
                ("show_stderr", self.show_stderr.is_some()),
            ];
            return match others.iter().find(|(_, given)| *given) {
                Some((name, _)) => Err(format!(
                    "{name} applies only if output is set to json, lines or text; otherwise, the program must print \
                     JSON and exit like a script"
                )),
                None => Ok(None),
            };
        };
        let ok_exits = self.ok_exits.unwrap_or_else(|| vec![0]);
        let invalid_exits = self.invalid_exits.unwrap_or_default();
        if ok_exits.is_empty() {
            return Err("ok_exits is empty: the skill could never succeed".to_owned());
        }
        if let Some(both) = ok_exits.iter().find(|code| invalid_exits.contains(code)) {
            return Err(format!("exit code {both} is in ok_exits and in invalid_exits"));
        }
        Ok(Some(Printed { output, ok_exits, invalid_exits, show_stderr: self.show_stderr.unwrap_or_default() }))
    }
}

fn stdin(written: &Value) -> Option<Stdin> {
    match written {
        Value::Bool(false) => Some(Stdin::Nothing),
        Value::Bool(true) => Some(Stdin::Input),
        Value::String(text) => Some(Stdin::Argument(text.strip_prefix('{').and_then(name)?.to_owned())),
        _ => None,
    }
}

/// Returns the name in a `{name}`, given the text after its `{`.
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
        return Err(format!("'{text}': write a value as {{name}}, once, at the end of the element"));
    };
    // `-o{x}` would let a value choose options, because many programs read `-ovx` as `-o -v -x`.
    if !after_dashes && prefix.starts_with('-') && !prefix.contains('=') {
        return Err(format!("'{text}': write the value of an option after '=' or as the next element"));
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
            assert!(read(json!({ "stdin": bad })).unwrap_err().contains("stdin must be true, false"), "{bad}");
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
            (json!({"ok_exits": [0, 1]}), "ok_exits applies only if output"),
            (json!({"show_stderr": true}), "show_stderr applies only if output"),
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
