//! Prepares a program's stdin. Pure.

use std::collections::HashMap;

use openskill_proto::v1::{ErrorCode, SkillError};
use serde_json::value::RawValue;

use crate::manifest::exec::Stdin;
use crate::runners::once::Given;

/// Selects the input among the call's arguments. Numbers keep all their digits.
///
/// # Errors
/// Fails if the arguments can't be parsed.
pub(super) fn fill(stdin: &Stdin, input: &[u8]) -> Result<Given, SkillError> {
    let name = match stdin {
        Stdin::Nothing => return Ok(Given::Nothing),
        Stdin::Input => return Ok(Given::Input),
        Stdin::Argument(name) => name,
    };
    let refuse = |error| SkillError::new(ErrorCode::InvalidJson, format!("the arguments are not an object: {error}"));
    let arguments: HashMap<String, &RawValue> = serde_json::from_slice(input).map_err(refuse)?;
    let Some(value) = arguments.get(name).map(|value| value.get()).filter(|value| *value != "null") else {
        return Ok(Given::Nothing);
    };
    let text = match value.starts_with('"') {
        true => serde_json::from_str(value).map_err(refuse)?,
        false => value.to_owned(),
    };
    Ok(Given::Text(text.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_given_as_it_is_and_another_value_as_json() {
        let given = |input: &str| match fill(&Stdin::Argument("x".to_owned()), input.as_bytes()).unwrap() {
            Given::Text(text) => Some(String::from_utf8(text).unwrap()),
            Given::Nothing => None,
            Given::Input => panic!("{input}"),
        };
        assert_eq!(given(r#"{"x": "a\nb \u00e9\u0000"}"#).unwrap(), "a\nb é\0");
        assert_eq!(given(r#"{"x": {"n": 12345678901234567890123}}"#).unwrap(), r#"{"n": 12345678901234567890123}"#);
        assert_eq!(given(r#"{"x": ""}"#).unwrap(), "");
        assert_eq!((given(r#"{"x": null}"#), given(r#"{"y": 1}"#)), (None, None));
    }
}
