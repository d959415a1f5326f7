//! A call's arguments, unread: numbers keep all their digits, and what only passes through is never parsed.

use std::borrow::Cow;
use std::fmt;

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::secrets::Secrets;
use crate::manifest::http::{Part, Text};

/// Arguments by name, in the order in which they came.
pub(super) struct Arguments<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Arguments<'a> {
    /// Reads a call's input.
    pub(super) fn read(input: &'a [u8]) -> Result<Self, SkillError> {
        serde_json::from_slice(input)
            .map_err(|error| SkillError::new(ErrorCode::InvalidJson, format!("the arguments are no object: {error}")))
    }

    /// The argument, if it was given; `null` is a value here.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rfind(|it| it.0 == name).map(|it| it.1)
    }

    /// Those that `is_placed` does not know.
    pub(super) fn others(&self, is_placed: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().filter(move |it| !is_placed(&it.0)).map(|it| (it.0.as_ref(), it.1))
    }

    /// A template with its values: none if an argument of it is absent or `null`; several if it has one argument, and
    /// that is a list.
    pub(super) fn expand(&self, text: &Text, secrets: &Secrets) -> Result<Vec<String>, SkillError> {
        let lone = text.arguments().count() == 1;
        let mut filled = vec![String::new()];
        for part in &text.0 {
            let value = match part {
                Part::Literal(text) => text.as_str(),
                Part::Variable(name) => secrets.get(name),
                Part::Argument(name) => {
                    let Some(value) = self.get(name).filter(|it| it.get() != "null") else { return Ok(Vec::new()) };
                    let values = texts(value);
                    if values.len() != 1 && !lone {
                        return Err(unfit(name, "must not be a list: it is a part of a longer text"));
                    }
                    let before = filled.first().cloned().unwrap_or_default();
                    filled = values.into_iter().map(|value| before.clone() + &value).collect();
                    continue;
                }
            };
            filled.iter_mut().for_each(|it| it.push_str(value));
        }
        Ok(filled)
    }
}

/// A value as text: a list has several, and what nests deeper is JSON.
pub(super) fn texts(value: &RawValue) -> Vec<String> {
    match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        Ok(items) => items.into_iter().filter(|it| it.get() != "null").map(text).collect(),
        Err(_) => vec![text(value)],
    }
}

/// A text without its quotes; anything else as its JSON.
pub(super) fn text(value: &RawValue) -> String {
    serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

/// A refusal of an argument.
pub(super) fn unfit(name: &str, reason: &str) -> SkillError {
    SkillError::new(ErrorCode::InvalidArgument, format!("{name}: {reason}"))
}

impl<'de> Deserialize<'de> for Arguments<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Arguments<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Arguments<'de>, M::Error> {
                let mut items = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    items.push((key, map.next_value()?));
                }
                Ok(Arguments(items))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

/// A key, borrowed unless it has escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
