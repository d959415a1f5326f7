//! A JSON value that keeps every digit of its numbers and the order of its keys.
//!
//! `serde_json::Value` would turn the id 12345678901234567890123 into 1.2345678901234568e22. A repair elsewhere in the
//! object must not change it.

use std::fmt::Write as _;

use serde_json::Value;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    /// The number as written: valid JSON, and finite as a double.
    Number(String),
    Text(String),
    List(Vec<Tree>),
    /// Keys are unique.
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// Converts to the type that validators accept.
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

    /// Converts a value of a schema, such as a default.
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

    /// Writes the value as JSON text.
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

    /// The fields, if this is an object.
    pub(super) fn fields(&self) -> Option<&Vec<(String, Tree)>> {
        match self {
            Self::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// The field with this name, if this is an object that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Tree> {
        self.fields()?.iter().find(|(name, _)| name == key).map(|(_, it)| it)
    }

    /// The string, if this is one.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(it) => Some(it),
            _ => None,
        }
    }

    /// Whether this is an object, a list or a text with nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Object(fields) => fields.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Text(text) => text.is_empty(),
            _ => false,
        }
    }

    /// The value at a JSON Pointer.
    pub(super) fn at(&self, pointer: &str) -> Option<&Tree> {
        segments(pointer).try_fold(self, |tree, segment| match tree {
            Self::List(items) => items.get(segment.parse::<usize>().ok()?),
            Self::Object(fields) => fields.iter().find(|(key, _)| *key == segment).map(|(_, it)| it),
            _ => None,
        })
    }

    /// The value at a JSON Pointer, mutably.
    pub(super) fn at_mut(&mut self, pointer: &str) -> Option<&mut Tree> {
        segments(pointer).try_fold(self, |tree, segment| match tree {
            Self::List(items) => items.get_mut(segment.parse::<usize>().ok()?),
            Self::Object(fields) => fields.iter_mut().find(|(key, _)| *key == segment).map(|(_, it)| it),
            _ => None,
        })
    }

    /// Removes a field from an object and returns its value.
    pub(super) fn remove(&mut self, key: &str) -> Option<Tree> {
        let Self::Object(fields) = self else { return None };
        let index = fields.iter().position(|(name, _)| name == key)?;
        Some(fields.remove(index).1)
    }
}

fn write_text(text: &str, out: &mut String) {
    // `Value` escapes strings. Writing to a String cannot fail.
    let _ = write!(out, "{}", Value::from(text));
}

/// The unescaped segments of a JSON Pointer (RFC 6901).
fn segments(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(unescape)
}

/// The pointer to the field `key` of what `parent` points to.
pub(super) fn join(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Splits a pointer into its parent and its unescaped last segment.
pub(super) fn split(pointer: &str) -> Option<(&str, String)> {
    let (parent, last) = pointer.rsplit_once('/')?;
    Some((parent, unescape(last)))
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_finds_empty_keys_and_keys_with_slashes_or_tildes() {
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
