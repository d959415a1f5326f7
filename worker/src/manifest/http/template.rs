//! Text templates: `{name}` is an argument of the call, and `${NAME}` a variable in the worker's environment.
//!
//! `{{` and `}}` produce literal braces.

use serde_json::Value;

/// The maximum length of a template, in bytes.
const MAX_TEMPLATE_BYTES: usize = 8 * 1024;

/// The maximum length of a name in a template, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPart {
    /// Text without placeholders.
    Literal(String),
    /// An argument of the call, by name.
    Argument(String),
    /// A variable in the worker's environment, by name. Its value is secret.
    Variable(String),
}

/// A template as a list of its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(pub Vec<TextPart>);

impl Text {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_TEMPLATE_BYTES {
            return Err(format!("must be at most {MAX_TEMPLATE_BYTES} bytes"));
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
                    parts.push(TextPart::Literal(std::mem::take(&mut literal)));
                }
                parts.push(if is_variable { TextPart::Variable(name) } else { TextPart::Argument(name) });
                rest = after;
            } else if rest.starts_with('$') {
                literal.push('$');
                rest = &rest[1..];
            } else {
                return Err(format!("'{text}': '}}' has no matching '{{'; write '}}}}' for a literal brace"));
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TextPart::Literal(literal));
        }
        Ok(Self(parts))
    }

    /// Returns the names of the arguments that the template uses.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            TextPart::Argument(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the names of the variables that the template uses.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            TextPart::Variable(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

/// Converts a scalar to a template. Numbers and booleans are literal.
pub(super) fn parse_scalar(value: &Value) -> Result<Text, String> {
    match value {
        Value::String(text) => Text::parse(text),
        Value::Number(_) | Value::Bool(_) => Text::parse(&value.to_string()),
        _ => Err("must be a string, a number or a boolean".to_owned()),
    }
}

/// Splits the text after `{` into the name and the text after the closing brace.
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
        let literal = |text: &str| TextPart::Literal(text.to_owned());
        assert_eq!(
            text.0,
            [
                literal("Bearer "),
                TextPart::Variable("TOKEN".to_owned()),
                literal("/"),
                TextPart::Argument("a".to_owned()),
                TextPart::Argument("b-c".to_owned()),
                literal(" {x} $5 ${y}"),
            ]
        );
        assert_eq!(Text::parse("").unwrap().0, []);
        assert_eq!(parse_scalar(&serde_json::json!(5)).unwrap().0, [literal("5")]);
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for bad in ["{", "}", "{a", "a}", "{}", "{a b}", "${}", "${A", "{a{b}}", "{a/b}"] {
            assert!(Text::parse(bad).is_err(), "{bad}");
        }
        assert!(Text::parse(&"x".repeat(9000)).is_err());
    }
}
