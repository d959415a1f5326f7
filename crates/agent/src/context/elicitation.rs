//! Converts a skill's question, which is a JSON Schema, into questions for the user, and the answers into content
//! that fits the schema.

use serde_json::{Map, Value};

use crate::entry::{QuestionKind, UserQuestion};

/// The maximum number of questions in one request.
const MAX_QUESTIONS: usize = 32;

/// The id of the only question for a schema without properties.
const ANSWER: &str = "answer";

/// Returns one question for each property of an object schema. A schema without properties yields a single
/// free-text question.
pub fn from_schema(schema_json: &str) -> Vec<UserQuestion> {
    let schema: Value = serde_json::from_str(schema_json).unwrap_or_default();
    let Some(properties) = properties(&schema) else {
        return vec![UserQuestion { id: ANSWER.to_owned(), text: "Answer".to_owned(), ..UserQuestion::default() }];
    };
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
    let question = |(name, property): (&String, &Value)| UserQuestion {
        id: name.clone(),
        text: text(name, property),
        kind: kind(property),
        options: options(property),
        required: required(name),
    };
    properties.iter().take(MAX_QUESTIONS).map(question).collect()
}

/// Builds content that fits a schema from answers by id.
///
/// # Errors
/// The schema requires a number and the answer is not a number. The message is for the user.
pub fn to_content(schema_json: &str, answers: &[(String, String)]) -> Result<String, String> {
    let schema: Value = serde_json::from_str(schema_json).unwrap_or_default();
    let properties = properties(&schema);
    let mut content = Map::new();
    for (id, answer) in answers {
        let property = properties.and_then(|it| it.get(id)).unwrap_or(&Value::Null);
        content.insert(id.clone(), value(id, property, answer)?);
    }
    Ok(Value::from(content).to_string())
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object().filter(|it| !it.is_empty())
}

fn text(name: &str, property: &Value) -> String {
    let field = |field: &str| property[field].as_str().filter(|it| !it.trim().is_empty());
    match (field("title"), field("description")) {
        (Some(title), Some(description)) => format!("{title}: {description}"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) => name.to_owned(),
    }
}

fn kind(property: &Value) -> QuestionKind {
    let is_secret = property["writeOnly"] == true
        || property["x-secret"] == true
        || property["format"].as_str().is_some_and(|it| it == "password" || it == "secret");
    if is_secret {
        QuestionKind::Secret
    } else if !options(property).is_empty() {
        QuestionKind::Choice
    } else if property["type"] == "boolean" {
        QuestionKind::Confirm
    } else {
        QuestionKind::Text
    }
}

fn options(property: &Value) -> Vec<String> {
    let named = property["oneOf"].as_array().into_iter().flatten().filter_map(|it| it["const"].as_str());
    let listed = property["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    listed.chain(named).map(str::to_owned).collect()
}

fn value(id: &str, property: &Value, answer: &str) -> Result<Value, String> {
    match property["type"].as_str() {
        Some("boolean") => Ok((answer == "true").into()),
        Some(wanted @ ("integer" | "number")) => match serde_json::from_str::<Value>(answer.trim()) {
            Ok(number) if number.is_i64() || number.is_u64() || (wanted == "number" && number.is_number()) => {
                Ok(number)
            }
            _ => Err(format!("the answer to {id:?} must be {} {wanted}", if wanted == "integer" { "an" } else { "a" })),
        },
        _ => Ok(answer.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","required":["env"],"properties":{
        "env":{"type":"string","title":"Where","enum":["test","live"]},"sure":{"type":"boolean"},
        "count":{"type":"integer","description":"How many"},"key":{"type":"string","format":"password"}}}"#;

    #[test]
    fn a_schema_becomes_questions_and_answers_become_content() {
        let questions = from_schema(SCHEMA);
        let kinds: Vec<_> = questions.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [QuestionKind::Choice, QuestionKind::Confirm, QuestionKind::Text, QuestionKind::Secret]);
        assert_eq!((questions[0].text.as_str(), questions[0].required, questions[1].required), ("Where", true, false));
        let answer = |id: &str, answer: &str| (id.to_owned(), answer.to_owned());
        let content = to_content(SCHEMA, &[answer("env", "live"), answer("sure", "true"), answer("count", "3")]);
        assert_eq!(content.as_deref(), Ok(r#"{"env":"live","sure":true,"count":3}"#));
        assert!(to_content(SCHEMA, &[answer("count", "3.5")]).is_err());
    }

    #[test]
    fn a_schema_that_says_nothing_asks_for_one_text() {
        assert_eq!(from_schema("")[0].id, ANSWER);
        assert_eq!(to_content("", &[(ANSWER.into(), "yes".into())]).as_deref(), Ok(r#"{"answer":"yes"}"#));
    }
}
