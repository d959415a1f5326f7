//! A JSON value that keeps every digit of its numbers and the order of its keys.
//!
//! `serde_json::Value` would turn the id 12345678901234567890123 into 1.2345678901234568e22, although a repair
//! elsewhere in the object must not change it.

use serde::Serialize;
use serde::ser::{Error as _, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    /// The number as written: valid JSON, and finite as a double.
    #[serde(serialize_with = "serialize_number")]
    Number(String),
    Text(String),
    List(Vec<Tree>),
    /// Keys are unique.
    #[serde(serialize_with = "serialize_fields")]
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// Converts to the type that validators accept.
    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Converts from a value in a schema, such as a default.
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
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the fields. None if this is not an object.
    pub(super) fn fields(&self) -> Option<&Vec<(String, Tree)>> {
        let Self::Object(fields) = self else { return None };
        Some(fields)
    }

    /// Returns the field with this name. None if it is missing, or this is not an object.
    pub(super) fn get(&self, key: &str) -> Option<&Tree> {
        self.fields()?.iter().find(|(name, _)| name == key).map(|(_, it)| it)
    }

    /// Returns the string. None if this is not one.
    pub(super) fn as_text(&self) -> Option<&str> {
        let Self::Text(text) = self else { return None };
        Some(text)
    }

    /// Whether this is an empty object, list or text.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Object(fields) => fields.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Text(text) => text.is_empty(),
            _ => false,
        }
    }

    /// Returns the value at a JSON Pointer.
    pub(super) fn at(&self, pointer: &str) -> Option<&Tree> {
        segments(pointer).try_fold(self, |tree, segment| match tree {
            Self::List(items) => items.get(segment.parse::<usize>().ok()?),
            other => other.get(&segment),
        })
    }

    /// Returns the value at a JSON Pointer, for changes.
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

fn serialize_number<S: Serializer>(written: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<&RawValue>(written).map_err(S::Error::custom)?.serialize(serializer)
}

fn serialize_fields<S: Serializer>(fields: &[(String, Tree)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().map(|(key, it)| (key, it)))
}

/// Returns the unescaped segments of a JSON Pointer (RFC 6901).
fn segments(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(unescape)
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
    use openskill_skill::schema::join;

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
