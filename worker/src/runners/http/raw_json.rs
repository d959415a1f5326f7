//! A call's arguments as unparsed JSON. Numbers keep all their digits, and values that are only passed on are never parsed.

use openskill_proto::json::RawFields;
use openskill_proto::v1::{ErrorCode, SkillError};
use serde_json::value::RawValue;

use super::secrets::Secrets;
use crate::manifest::http::{Text, TextPart};

/// A call's arguments by name, in their original order.
pub(super) struct CallArguments<'a>(RawFields<'a>);

impl<'a> CallArguments<'a> {
    /// Splits a call's input into its arguments.
    pub(super) fn read(input: &'a [u8]) -> Result<Self, SkillError> {
        serde_json::from_slice(input).map(Self).map_err(|error| {
            SkillError::new(ErrorCode::InvalidJson, format!("the arguments are not an object: {error}"))
        })
    }

    /// Returns an argument, if the call sets it. `null` counts as a value.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.0.iter().rfind(|it| it.0 == name).map(|it| it.1)
    }

    /// Returns the arguments that no template uses.
    pub(super) fn others(&self, is_placed: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.0.iter().filter(move |it| !is_placed(&it.0)).map(|it| (it.0.as_ref(), it.1))
    }

    /// Expands a template within the budget. Returns no texts if one of its arguments is absent or `null`, and
    /// several if its only argument is a list.
    pub(super) fn expand(
        &self,
        text: &Text,
        secrets: &Secrets,
        budget: &mut Budget,
    ) -> Result<Vec<String>, SkillError> {
        let lone = text.arguments().count() == 1;
        let mut filled = vec![String::new()];
        for part in &text.0 {
            let value = match part {
                TextPart::Literal(text) => text.as_str(),
                TextPart::Variable(name) => secrets.get(name),
                TextPart::Argument(name) => {
                    let Some(value) = self.get(name).filter(|it| it.get() != "null") else { return Ok(Vec::new()) };
                    let before = filled.first().cloned().unwrap_or_default();
                    // The prefix counts once per value.
                    budget.left += before.len();
                    let values = texts(value, before.len(), budget)?;
                    if values.len() != 1 && !lone {
                        return Err(unfit(name, "must not be a list: the template puts it into a longer text"));
                    }
                    filled = values.into_iter().map(|value| before.clone() + &value).collect();
                    continue;
                }
            };
            budget.spend(value.len().saturating_mul(filled.len()))?;
            filled.iter_mut().for_each(|it| it.push_str(value));
        }
        Ok(filled)
    }
}

/// The remaining size of a request. Needed because a list repeats the text around it.
pub(super) struct Budget {
    left: usize,
    most: usize,
    what: &'static str,
}

impl Budget {
    /// Limits `what` to `most` bytes.
    pub(super) fn new(most: usize, what: &'static str) -> Self {
        Self { left: most, most, what }
    }

    /// Spends bytes before they are written. Fails if too few are left.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), SkillError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| self.over())?;
        Ok(())
    }

    /// Creates the error for an exceeded budget.
    pub(super) fn over(&self) -> SkillError {
        let message = format!("the arguments make a {} of more than {} bytes", self.what, self.most);
        SkillError::new(ErrorCode::InvalidArgument, message)
    }
}

/// Converts a value to texts: a list becomes several, nested values become JSON. Each text costs `overhead`
/// additional bytes.
pub(super) fn texts(value: &RawValue, overhead: usize, budget: &mut Budget) -> Result<Vec<String>, SkillError> {
    let mut one = |value: &RawValue| {
        let text = text(value);
        budget.spend(text.len().saturating_add(overhead))?;
        Ok(text)
    };
    match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        Ok(items) => items.into_iter().filter(|it| it.get() != "null").map(one).collect(),
        Err(_) => Ok(vec![one(value)?]),
    }
}

/// Returns a string without quotes, and any other value as JSON.
pub(super) fn text(value: &RawValue) -> String {
    serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

/// Creates the error for an unusable argument.
pub(super) fn unfit(name: &str, reason: &str) -> SkillError {
    SkillError::new(ErrorCode::InvalidArgument, format!("{name}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(input: &str, before: usize, most: usize) -> Result<Vec<String>, SkillError> {
        let text = Text(vec![TextPart::Literal("x".repeat(before)), TextPart::Argument("a".to_owned())]);
        let mut budget = Budget::new(most, "URL");
        CallArguments::read(input.as_bytes())?.expand(&text, &Secrets::default(), &mut budget)
    }

    #[test]
    fn the_prefix_of_a_list_counts_for_each_item() {
        assert_eq!(expand(r#"{"a": ["b", "c"]}"#, 3, 8).unwrap(), ["xxxb", "xxxc"]);
        assert_eq!(expand(r#"{"a": "bcdef"}"#, 3, 8).unwrap(), ["xxxbcdef"]);
        for (input, before) in [(r#"{"a": ["b", "c"]}"#, 4), (r#"{"a": "bcdef"}"#, 4), (r#"{"a": []}"#, 9)] {
            let error = expand(input, before, 8).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            assert_eq!(error.message, "the arguments make a URL of more than 8 bytes");
        }
    }

    #[test]
    fn a_list_that_would_take_gigabytes_is_refused_early() {
        let list = format!(r#"{{"a": [{}"0"]}}"#, r#""0","#.repeat(900_000));
        assert!(expand(&list, 8 * 1024, 16 * 1024).is_err());
    }
}
