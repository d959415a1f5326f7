//! The JSON of an event as servers write it. What an answer needs is read strictly, so that no part of it is lost unseen;
//! anything else leniently, so that it costs no answer. Pure.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::pieces::Piece;
use super::wire::Fault;

/// How many fields an object of an event may have. Arguments are no such object.
const MAX_FIELDS: usize = 4096;

/// A value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Json<'a>(&'a RawValue);

impl<'a> Json<'a> {
    /// # Errors
    /// The text is not JSON.
    pub(super) fn parse(text: &'a str) -> Result<Self, Fault> {
        serde_json::from_str(text).map(Self).map_err(|error| Fault::of_json(&error))
    }

    pub(super) fn raw(self) -> &'a RawValue {
        self.0
    }

    pub(super) fn is_text(self) -> bool {
        self.0.get().starts_with('"')
    }

    pub(super) fn is_empty_text(self) -> bool {
        self.0.get() == "\"\""
    }

    /// # Errors
    /// It is not an object.
    pub(super) fn object(self) -> Result<Object<'a>, Fault> {
        self.read()
    }

    /// The values of a list, without null.
    ///
    /// # Errors
    /// It is not a list.
    pub(super) fn list(self) -> Result<Vec<Self>, Fault> {
        let list: Vec<&RawValue> = self.read()?;
        Ok(list.into_iter().filter(|it| it.get() != "null").map(Self).collect())
    }

    /// # Errors
    /// It is not a string.
    pub(super) fn text(self) -> Result<Piece, Fault> {
        self.read()
    }

    /// All of a text: a string's, without half a character, or the JSON that a server wrote in its place.
    ///
    /// # Errors
    /// It has half a character.
    pub(super) fn whole_text(self) -> Result<Cow<'a, str>, Fault> {
        if self.is_text() { self.read::<String>().map(Cow::Owned) } else { Ok(Cow::Borrowed(self.0.get())) }
    }

    /// A string, or what a server wrote in its place: a number, or a boolean.
    pub(super) fn word(self) -> Option<String> {
        match self.0.get().as_bytes().first() {
            Some(b'"') => self.text().ok().map(Piece::into_text),
            Some(b'{' | b'[') | None => None,
            _ => Some(self.0.get().to_owned()),
        }
    }

    /// A place in a list: `0`, `0.0` and `"0"` are the same one.
    pub(super) fn place(self) -> Option<String> {
        let word = self.word()?;
        Some(whole_number(&word).map_or(word, |it| it.to_string()))
    }

    /// A number of tokens.
    pub(super) fn count(self) -> Option<u64> {
        whole_number(&self.word()?)
    }

    fn read<T: Deserialize<'a>>(self) -> Result<T, Fault> {
        serde_json::from_str(self.0.get()).map_err(|error| Fault::of_json(&error))
    }
}

/// The number in a text, if it is whole, however it is written.
fn whole_number(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0).then(|| format!("{number:.0}"))?.parse().ok()
    })
}

/// The fields of an object. Of equal names the last counts, and null is as good as absent.
#[derive(Debug)]
pub(super) struct Object<'a>(Vec<(String, Json<'a>)>);

impl<'a> Object<'a> {
    pub(super) fn get(&self, name: &str) -> Option<Json<'a>> {
        let (_, value) = self.0.iter().rfind(|(it, _)| it == name)?;
        (value.0.get() != "null").then_some(*value)
    }

    /// A field that the answer does not need as an object. None if it is not one.
    pub(super) fn object(&self, name: &str) -> Option<Self> {
        self.get(name)?.object().ok()
    }

    /// # Errors
    /// The field is not a list.
    pub(super) fn list(&self, name: &str) -> Result<Vec<Json<'a>>, Fault> {
        self.get(name).map_or(Ok(Vec::new()), Json::list)
    }

    /// # Errors
    /// The field is not a string.
    pub(super) fn text(&self, name: &str) -> Result<Piece, Fault> {
        self.get(name).map_or(Ok(Piece::default()), Json::text)
    }

    /// The word of a field, or an empty one.
    pub(super) fn word(&self, name: &str) -> String {
        self.get(name).and_then(Json::word).unwrap_or_default()
    }

    /// The place in a field, or an empty one.
    pub(super) fn place(&self, name: &str) -> String {
        self.get(name).and_then(Json::place).unwrap_or_default()
    }

    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.get(name)?.count()
    }

    /// The sum of these counts. 0 for those that are absent.
    pub(super) fn sum(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.count(name)).fold(0, u64::saturating_add)
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
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
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_field_means_outlasts_its_type() {
        let json = r#"{"a": 0, "a": null, "a": "7", "b": 5.0, "c": {}, "d": -1, "e": 1e300, "\ud83c": 1, "f": "x"}"#;
        let object = Json::parse(json).unwrap().object().unwrap();
        let place = |name: &str| object.place(name);
        assert_eq!(["a", "b", "c", "d", "f", "g"].map(place), ["7", "5", "", "-1", "x", ""]);
        assert_eq!(
            ["a", "b", "c", "d", "e", "f"].map(|it| object.count(it)),
            [Some(7), Some(5), None, None, None, None]
        );
        assert!(object.text("b").is_err() && object.list("c").is_err() && object.get("f").unwrap().object().is_err());
    }
}
