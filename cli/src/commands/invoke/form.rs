//! The fields of a question, one for each property of its schema. All functions are pure.

use serde_json::{Number, Value};

/// A value that the question asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    label: String,
    kind: FieldType,
    /// The accepted values. An empty list accepts any value.
    choices: Vec<Value>,
    is_required: bool,
    default: Option<Value>,
}

/// The JSON type that the user's text is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldType {
    Text,
    Number,
    Integer,
    Boolean,
    /// Any other type: the user enters JSON.
    Json,
}

/// Returns the fields of an object schema, in the schema's order.
pub(super) fn fields(schema: &Value) -> Vec<Field> {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let field = |(name, property): (&String, &Value)| Field {
        name: name.clone(),
        label: ["title", "description"].iter().find_map(|key| property[key].as_str()).unwrap_or(name).to_owned(),
        kind: match property["type"].as_str() {
            Some("string") => FieldType::Text,
            Some("number") => FieldType::Number,
            Some("integer") => FieldType::Integer,
            Some("boolean") => FieldType::Boolean,
            _ => FieldType::Json,
        },
        choices: property["enum"].as_array().cloned().unwrap_or_default(),
        is_required: required.iter().any(|it| it == name),
        default: property.get("default").cloned(),
    };
    properties.map(field).collect()
}

impl Field {
    /// Formats the prompt, such as `Colour (red, green; optional): `.
    pub(super) fn prompt(&self) -> String {
        let mut hints = vec![match self.kind {
            _ if !self.choices.is_empty() => self.choices.iter().map(display_value).collect::<Vec<_>>().join(", "),
            FieldType::Text => "text".to_owned(),
            FieldType::Number => "number".to_owned(),
            FieldType::Integer => "whole number".to_owned(),
            FieldType::Boolean => "yes or no".to_owned(),
            FieldType::Json => "JSON".to_owned(),
        }];
        match &self.default {
            Some(default) => hints.push(format!("default: {}", display_value(default))),
            None if !self.is_required => hints.push("optional".to_owned()),
            None => {}
        }
        format!("{} ({}): ", self.label, hints.join("; "))
    }

    /// Parses the user's line. Returns `None` to leave the field out.
    ///
    /// # Errors
    /// The problem with the line, worded for the user.
    pub(super) fn parse(&self, line: &str) -> Result<Option<Value>, String> {
        let text = line.trim();
        if text.is_empty() {
            return match &self.default {
                Some(default) => Ok(Some(default.clone())),
                None if self.is_required => Err("a value is required; press Ctrl-D to decline".to_owned()),
                None => Ok(None),
            };
        }
        if !self.choices.is_empty() {
            let choice = self.choices.iter().find(|it| display_value(it) == text);
            return choice.cloned().map(Some).ok_or_else(|| "choose one of the listed values".to_owned());
        }
        let number = || text.parse::<Number>().ok();
        let value = match self.kind {
            FieldType::Text => Some(Value::from(text)),
            FieldType::Number => number().map(Value::Number),
            FieldType::Integer => number().filter(|it| it.is_i64() || it.is_u64()).map(Value::Number),
            FieldType::Boolean => yes_or_no(text).map(Value::Bool),
            FieldType::Json => serde_json::from_str(text).ok(),
        };
        let wanted = match self.kind {
            FieldType::Text | FieldType::Json => "JSON",
            FieldType::Number => "a number",
            FieldType::Integer => "a whole number",
            FieldType::Boolean => "yes or no",
        };
        value.map(Some).ok_or_else(|| format!("enter {wanted}"))
    }
}

/// Parses `yes`, `no` and their short forms.
pub(super) fn yes_or_no(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" => Some(true),
        "n" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Formats a value as the user enters it: strings without quotes.
fn display_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(property: Value, required: bool) -> Field {
        let required: &[&str] = if required { &["it"] } else { &[] };
        fields(&json!({"type": "object", "properties": {"it": property}, "required": required})).remove(0)
    }

    #[test]
    fn each_type_is_parsed_as_its_json_value() {
        for (property, line, expected) in [
            (json!({"type": "string"}), "5", json!("5")),
            (json!({"type": "integer"}), " 5 ", json!(5)),
            (json!({"type": "number"}), "2.5", json!(2.5)),
            (json!({"type": "boolean"}), "Yes", json!(true)),
            (json!({"type": "string", "enum": ["red", "green"]}), "green", json!("green")),
            (json!({"type": "integer", "enum": [1, 2]}), "2", json!(2)),
            (json!({"type": "array"}), "[1]", json!([1])),
        ] {
            assert_eq!(field(property.clone(), true).parse(line), Ok(Some(expected)), "{property} {line}");
        }
    }

    #[test]
    fn what_does_not_match_the_type_is_rejected() {
        for (property, line) in [
            (json!({"type": "integer"}), "2.5"),
            (json!({"type": "number"}), "NaN"),
            (json!({"type": "boolean"}), "maybe"),
            (json!({"enum": ["red"]}), "blue"),
            (json!({"type": "object"}), "{"),
        ] {
            assert!(field(property.clone(), false).parse(line).is_err(), "{property} {line}");
        }
    }

    #[test]
    fn an_empty_line_is_rejected_only_for_a_required_field_without_default() {
        assert!(field(json!({"type": "string"}), true).parse("\n").is_err());
        assert_eq!(field(json!({"type": "string"}), false).parse("\n"), Ok(None));
        assert_eq!(field(json!({"type": "string", "default": "x"}), true).parse("\n"), Ok(Some(json!("x"))));
    }

    #[test]
    fn a_prompt_names_the_field_and_what_it_accepts() {
        let prompt = |property, required| field(property, required).prompt();
        assert_eq!(prompt(json!({"type": "string", "title": "Your name"}), true), "Your name (text): ");
        assert_eq!(prompt(json!({"type": "boolean"}), false), "it (yes or no; optional): ");
        assert_eq!(prompt(json!({"enum": ["red", 2], "default": 2}), false), "it (red, 2; default: 2): ");
    }
}
