//! Reads an event's JSON tolerantly. Fields that make up the answer are read strictly, so that no part of it is
//! lost silently. Errors in other fields are ignored. Does no I/O.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::pieces::Piece;
use crate::wire::WireError;

/// The maximum number of fields in an event's object, not counting arguments.
const MAX_FIELDS: usize = 4096;

/// An unparsed JSON value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<'a>(&'a RawValue);

impl<'a> Json<'a> {
    pub(crate) fn raw(self) -> &'a RawValue {
        self.0
    }

    pub(crate) fn is_text(self) -> bool {
        self.0.get().starts_with('"')
    }

    pub(crate) fn is_empty_text(self) -> bool {
        self.0.get() == "\"\""
    }

    /// Parses an object.
    ///
    /// # Errors
    /// The value is not an object.
    pub(crate) fn object(self) -> Result<Object<'a>, WireError> {
        self.read()
    }

    /// Parses a list, leaving out null values.
    ///
    /// # Errors
    /// The value is not a list.
    pub(crate) fn list(self) -> Result<Vec<Self>, WireError> {
        let list: Vec<&RawValue> = self.read()?;
        Ok(list.into_iter().filter(|it| it.get() != "null").map(Self).collect())
    }

    /// Parses a string, which may contain unpaired surrogates.
    ///
    /// # Errors
    /// The value is not a string.
    pub(crate) fn text(self) -> Result<Piece, WireError> {
        self.read()
    }

    /// Parses a string. If the value is not a string, returns its JSON text.
    ///
    /// # Errors
    /// The string contains an unpaired surrogate.
    pub(crate) fn whole_text(self) -> Result<Cow<'a, str>, WireError> {
        if self.is_text() { self.read::<String>().map(Cow::Owned) } else { Ok(Cow::Borrowed(self.0.get())) }
    }

    /// Returns a string, or the text of a number or boolean sent in its place. Returns `None` for lists and
    /// objects.
    pub(crate) fn word(self) -> Option<String> {
        match self.0.get().as_bytes().first() {
            Some(b'"') => self.text().ok().map(Piece::into_text),
            Some(b'{' | b'[') | None => None,
            _ => Some(self.0.get().to_owned()),
        }
    }

    fn read<T: Deserialize<'a>>(self) -> Result<T, WireError> {
        serde_json::from_str(self.0.get()).map_err(|error| WireError::from_json_error(&error))
    }
}

/// Parses an integer in any notation, such as `5.0`.
fn whole_number(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0).then(|| format!("{number:.0}"))?.parse().ok()
    })
}

/// The fields of an object. The last of several duplicate names counts. Null values count as absent.
#[derive(Debug)]
pub(crate) struct Object<'a>(Vec<(String, Json<'a>)>);

impl<'a> Object<'a> {
    /// Parses the text of a JSON object.
    ///
    /// # Errors
    /// The text is not a JSON object.
    pub(crate) fn parse(text: &'a str) -> Result<Self, WireError> {
        serde_json::from_str(text).map_err(|error| WireError::from_json_error(&error))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Json<'a>> {
        let (_, value) = self.0.iter().rfind(|(it, _)| it == name)?;
        (value.0.get() != "null").then_some(*value)
    }

    /// Returns an object, or `None` if the field is absent.
    ///
    /// # Errors
    /// The field is not an object.
    pub(crate) fn part(&self, name: &str) -> Result<Option<Self>, WireError> {
        self.get(name).map(Json::object).transpose()
    }

    /// Returns an optional object, or `None` if it is absent or not an object.
    pub(crate) fn object(&self, name: &str) -> Option<Self> {
        self.get(name)?.object().ok()
    }

    /// Returns a list, which is empty if the field is absent.
    ///
    /// # Errors
    /// The field is not a list.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<Json<'a>>, WireError> {
        self.get(name).map_or(Ok(Vec::new()), Json::list)
    }

    /// Returns a string, which is empty if the field is absent.
    ///
    /// # Errors
    /// The field is not a string.
    pub(crate) fn text(&self, name: &str) -> Result<Piece, WireError> {
        self.get(name).map_or(Ok(Piece::default()), Json::text)
    }

    /// Returns a field like [`Json::word`]. Empty if the field is absent.
    pub(crate) fn word(&self, name: &str) -> String {
        self.get(name).and_then(Json::word).unwrap_or_default()
    }

    /// Returns the index in a field in normalized form: `0`, `0.0` and `"0"` are equal. Empty if the field is
    /// absent.
    pub(crate) fn place(&self, name: &str) -> String {
        let word = self.word(name);
        whole_number(&word).map_or(word, |it| it.to_string())
    }

    /// Returns a token count, or `None` if it is absent or invalid.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        whole_number(&self.word(name))
    }

    /// Returns the sum of these counts. Absent counts are 0.
    pub(crate) fn sum(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.count(name)).fold(0, u64::saturating_add)
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<Piece, &RawValue>()? {
                    if fields.len() == MAX_FIELDS {
                        return Err(A::Error::custom("too many fields"));
                    }
                    fields.push((name.into_text(), Json(value)));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_an_unexpected_type_is_still_understood() {
        let json = r#"{"a": 0, "a": null, "a": "7", "b": 5.0, "c": {}, "d": -1, "e": 1e300, "\ud83c": 1, "f": "x"}"#;
        let object = Object::parse(json).unwrap();
        let place = |name: &str| object.place(name);
        assert_eq!(["a", "b", "c", "d", "f", "g"].map(place), ["7", "5", "", "-1", "x", ""]);
        assert_eq!(
            ["a", "b", "c", "d", "e", "f"].map(|it| object.count(it)),
            [Some(7), Some(5), None, None, None, None]
        );
        assert!(object.text("b").is_err() && object.list("c").is_err() && object.get("f").unwrap().object().is_err());
    }
}
