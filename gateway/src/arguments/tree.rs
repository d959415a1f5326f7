//! A JSON value whose numbers keep every digit and whose keys keep their order.
//!
//! `serde_json::Value` would turn 12345678901234567890123 into 1.2345678901234568e22, and a repair elsewhere in the object
//! must not do that to an id.

use std::fmt::Write as _;

use serde_json::Value;

/// The value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    /// As written; valid JSON and finite as a double.
    Number(String),
    Text(String),
    List(Vec<Tree>),
    /// No key stands twice.
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// The value as validators take it.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(it) => Value::Bool(*it),
            Self::Number(it) => serde_json::from_str(it).unwrap_or_default(),
            Self::Text(it) => Value::String(it.clone()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(fields) => fields.iter().map(|(key, it)| (key.clone(), it.to_value())).collect(),
        }
    }

    /// Takes a value over, as a schema's default or enum has it.
    pub(super) fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(it) => Self::Bool(*it),
            Value::Number(it) => Self::Number(it.to_string()),
            Value::String(it) => Self::Text(it.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::from_value).collect()),
            Value::Object(fields) => {
                Self::Object(fields.iter().map(|(key, it)| (key.clone(), Self::from_value(it))).collect())
            }
        }
    }

    /// JSON text.
    pub(super) fn write(&self) -> String {
        let mut out = String::new();
        self.write_to(&mut out);
        out
    }

    fn write_to(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(it) => out.push_str(if *it { "true" } else { "false" }),
            Self::Number(it) => out.push_str(it),
            Self::Text(it) => write_text(it, out),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write_to(out);
                }
                out.push(']');
            }
            Self::Object(fields) => {
                out.push('{');
                for (index, (key, it)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_text(key, out);
                    out.push(':');
                    it.write_to(out);
                }
                out.push('}');
            }
        }
    }

    /// The fields, if it is an object.
    pub(super) fn fields(&self) -> Option<&Vec<(String, Tree)>> {
        match self {
            Self::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// The field of this name, if it is an object that has one.
    pub(super) fn get(&self, key: &str) -> Option<&Tree> {
        self.fields()?.iter().find(|(name, _)| name == key).map(|(_, it)| it)
    }

    /// The text, if it is one.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(it) => Some(it),
            _ => None,
        }
    }

    /// The value at a JSON Pointer.
    pub(super) fn at(&self, pointer: &str) -> Option<&Tree> {
        steps(pointer).try_fold(self, |tree, step| match tree {
            Self::List(items) => items.get(step.parse::<usize>().ok()?),
            Self::Object(fields) => fields.iter().find(|(key, _)| *key == step).map(|(_, it)| it),
            _ => None,
        })
    }

    /// The value at a JSON Pointer, to change it.
    pub(super) fn at_mut(&mut self, pointer: &str) -> Option<&mut Tree> {
        steps(pointer).try_fold(self, |tree, step| match tree {
            Self::List(items) => items.get_mut(step.parse::<usize>().ok()?),
            Self::Object(fields) => fields.iter_mut().find(|(key, _)| *key == step).map(|(_, it)| it),
            _ => None,
        })
    }

    /// Takes a field out of an object.
    pub(super) fn remove(&mut self, key: &str) -> Option<Tree> {
        let Self::Object(fields) = self else { return None };
        let index = fields.iter().position(|(name, _)| name == key)?;
        Some(fields.remove(index).1)
    }
}

fn write_text(text: &str, out: &mut String) {
    // `Value`'s own writer knows how strings are escaped. Writing to a String can't fail.
    let _ = write!(out, "{}", Value::from(text));
}

/// The steps of a JSON Pointer (RFC 6901), unescaped.
fn steps(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// The pointer to a field of what `parent` points to.
pub(super) fn join(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The pointer to the container, and the last step.
pub(super) fn split(pointer: &str) -> Option<(&str, String)> {
    let (parent, last) = pointer.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_finds_keys_with_slashes_tildes_and_nothing_in_them() {
        let tree = Tree::Object(vec![
            ("a/b~c".to_owned(), Tree::List(vec![Tree::Number("12345678901234567890123".to_owned())])),
            (String::new(), Tree::Null),
        ]);
        let path = join(&join("", "a/b~c"), "0");
        assert_eq!(path, "/a~1b~0c/0");
        assert_eq!(tree.at(&path), Some(&Tree::Number("12345678901234567890123".to_owned())));
        assert_eq!(tree.at("/"), Some(&Tree::Null));
        assert_eq!(split(&path), Some(("/a~1b~0c", "0".to_owned())));
        assert_eq!(tree.write(), r#"{"a/b~c":[12345678901234567890123],"":null}"#);
    }
}
