//! Text templates: `{name}` for an argument of the call, `${NAME}` for a variable of the worker's environment.
//!
//! `{{` and `}}` are braces.

use serde_json::Value;

/// The longest template.
const MAX_TEMPLATE_BYTES: usize = 8 * 1024;

/// The longest name in a template.
const MAX_NAME_BYTES: usize = 128;

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Literal(String),
    /// An argument of the call.
    Argument(String),
    /// A variable of the worker's environment: a secret.
    Variable(String),
}

/// A template: parts in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(pub Vec<Part>);

impl Text {
    /// Reads a template.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_TEMPLATE_BYTES {
            return Err(format!("at most {MAX_TEMPLATE_BYTES} bytes"));
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}', '$']) {
            literal.push_str(&rest[..at]);
            rest = &rest[at..];
            let is_variable = rest.starts_with("${") && !rest.starts_with("${{");
            if let Some(brace) = ["{{", "}}"].into_iter().find(|it| rest.starts_with(it)) {
                literal.push_str(&brace[1..]);
                rest = &rest[2..];
            } else if is_variable || rest.starts_with('{') {
                let (name, after) = name(&rest[if is_variable { 2 } else { 1 }..], text)?;
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                parts.push(if is_variable { Part::Variable(name) } else { Part::Argument(name) });
                rest = after;
            } else if rest.starts_with('$') {
                literal.push('$');
                rest = &rest[1..];
            } else {
                return Err(format!("'{text}': a '}}' without its '{{'; a brace itself is written '}}}}'"));
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self(parts))
    }

    /// The arguments it names.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Argument(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The variables it names.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

/// The template of a scalar: numbers and booleans are literal.
pub(super) fn of_scalar(value: &Value) -> Result<Text, String> {
    match value {
        Value::String(text) => Text::parse(text),
        Value::Number(_) | Value::Bool(_) => Text::parse(&value.to_string()),
        _ => Err("must be a text, a number or a boolean".to_owned()),
    }
}

/// The name up to its closing brace, and the rest.
fn name<'a>(rest: &'a str, whole: &str) -> Result<(String, &'a str), String> {
    let (name, after) = rest.split_once('}').ok_or_else(|| format!("'{whole}': a '{{' is never closed"))?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(plain) {
        return Err(format!("'{whole}': a name in braces is made of letters, digits, '_', '-' and '.'"));
    }
    Ok((name.to_owned(), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_and_braces_can_be_written() {
        let text = Text::parse("Bearer ${TOKEN}/{a}{b-c} {{x}} $5 ${{y}}").unwrap();
        let literal = |text: &str| Part::Literal(text.to_owned());
        assert_eq!(
            text.0,
            [
                literal("Bearer "),
                Part::Variable("TOKEN".to_owned()),
                literal("/"),
                Part::Argument("a".to_owned()),
                Part::Argument("b-c".to_owned()),
                literal(" {x} $5 ${y}"),
            ]
        );
        assert_eq!(Text::parse("").unwrap().0, []);
        assert_eq!(of_scalar(&serde_json::json!(5)).unwrap().0, [literal("5")]);
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for bad in ["{", "}", "{a", "a}", "{}", "{a b}", "${}", "${A", "{a{b}}", "{a/b}"] {
            assert!(Text::parse(bad).is_err(), "{bad}");
        }
        assert!(Text::parse(&"x".repeat(9000)).is_err());
    }
}
