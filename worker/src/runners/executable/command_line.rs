//! Converts a call's arguments to command-line elements. Pure.

use openskill_proto::v1::{ErrorCode, SkillError};
use serde_json::{Map, Value};

use crate::manifest::exec::Element;

/// The maximum length of a command line, in bytes. Messages to the supervisor are limited, and also contain the
/// environment.
const MAX_BYTES: usize = 32 * 1024;

/// Fills the elements in the manifest with the call's arguments.
///
/// # Errors
/// Fails if a value looks like an option, can't be part of a command line, or is too long.
pub(super) fn fill(elements: &[Element], input: &[u8]) -> Result<Vec<String>, SkillError> {
    let mut filled = Vec::with_capacity(elements.len());
    if elements.iter().all(|it| matches!(it, Element::Literal(_))) {
        filled.extend(elements.iter().map(|it| match it {
            Element::Literal(text) | Element::Value { prefix: text, .. } => text.clone(),
        }));
        return Ok(filled);
    }
    let arguments: Map<String, Value> = serde_json::from_slice(input).map_err(|error| {
        SkillError::new(ErrorCode::InvalidJson, format!("the arguments are not an object: {error}"))
    })?;
    let mut left = MAX_BYTES;
    let mut push = |text: String| -> Result<(), SkillError> {
        left = left.checked_sub(text.len() + 1).ok_or_else(too_long)?;
        filled.push(text);
        Ok(())
    };
    for element in elements {
        match element {
            Element::Literal(text) => push(text.clone())?,
            Element::Value { prefix, name, after_dashes } => match arguments.get(name) {
                None | Some(Value::Null) => {}
                Some(Value::Array(items)) => {
                    for item in items {
                        push(one(prefix, name, item, *after_dashes)?)?;
                    }
                }
                Some(value) => push(one(prefix, name, value, *after_dashes)?)?,
            },
        }
    }
    Ok(filled)
}

fn too_long() -> SkillError {
    let message = format!("the arguments make a command line of more than {MAX_BYTES} bytes");
    SkillError::new(ErrorCode::InvalidArgument, message)
}

fn one(prefix: &str, name: &str, value: &Value, after_dashes: bool) -> Result<String, SkillError> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let refuse = |reason: &str| Err(SkillError::new(ErrorCode::InvalidArgument, format!("{name}: {reason}")));
    if text.contains('\0') {
        return refuse("must not contain a NUL character");
    }
    if prefix.is_empty() && !after_dashes && text.starts_with('-') {
        return refuse("must not begin with '-': the program would read it as an option");
    }
    Ok(format!("{prefix}{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(prefix: &str, name: &str, after_dashes: bool) -> Element {
        Element::Value { prefix: prefix.to_owned(), name: name.to_owned(), after_dashes }
    }

    #[test]
    fn values_are_filled_in_and_absent_ones_left_out() {
        let elements = [Element::Literal("-l".to_owned()), value("--size=", "size", false), value("", "paths", false)];
        let filled = fill(&elements, br#"{"size": 3, "paths": ["a b", "$(id)"]}"#).unwrap();
        assert_eq!(filled, ["-l", "--size=3", "a b", "$(id)"]);
        assert_eq!(fill(&elements, br#"{"size": null}"#).unwrap(), ["-l"]);
    }

    #[test]
    fn no_value_becomes_an_option() {
        let error = fill(&[value("", "path", false)], br#"{"path": "--exec=rm"}"#).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message.contains("option"), "{error:?}");
        let in_list = fill(&[value("", "paths", false)], br#"{"paths": ["a", "-x"]}"#);
        assert!(in_list.is_err());
        assert_eq!(
            fill(&[value("", "n", false)], br#"{"n": -5}"#).map_err(|it| it.code()),
            Err(ErrorCode::InvalidArgument)
        );
        assert_eq!(fill(&[value("--path=", "path", false)], br#"{"path": "-x"}"#).unwrap(), ["--path=-x"]);
        assert_eq!(fill(&[value("", "path", true)], br#"{"path": "-x"}"#).unwrap(), ["-x"]);
    }

    #[test]
    fn nul_and_overlong_arguments_are_refused() {
        assert!(fill(&[value("", "a", false)], br#"{"a": "x\u0000y"}"#).is_err());
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(40_000));
        assert!(fill(&[value("", "a", false)], long.as_bytes()).is_err());
        // Rejected at the first placeholder, because all of them would take gigabytes.
        let places = vec![value("", "a", false); 100_000];
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(4_000_000));
        assert!(fill(&places, long.as_bytes()).is_err());
    }
}
