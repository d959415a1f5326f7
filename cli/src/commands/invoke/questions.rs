//! Asks the user for the input that a skill requires during a call.

use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{InputAction, InputRequired, InputResponse};
use serde_json::{Map, Number, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use tonic::Code;

use crate::channel::Channel;
use crate::commands::input::yes_or_no;
use crate::terminal::print_err;

/// The maximum number of questions that wait for the user. If a skill asks more, its call ends at its deadline
/// without an answer.
const MAX_QUESTIONS: usize = 16;

/// Asks questions one at a time while the events of the call arrive. Dropping it stops it, even during a question.
pub(super) struct QuestionPrompter {
    questions: mpsc::Sender<InputRequired>,
    _task: AbortOnDropHandle<()>,
}

impl QuestionPrompter {
    /// Starts the prompter. Answers go through `client`, over the connection of the call, so that they reach the
    /// gateway that waits for them.
    pub(super) fn start(mut client: SkillServiceClient<Channel>) -> Self {
        let (questions, mut asked) = mpsc::channel(MAX_QUESTIONS);
        let task = tokio::spawn(async move {
            while let Some(question) = asked.recv().await {
                ask_until_accepted(&question, &mut client).await;
            }
        });
        Self { questions, _task: AbortOnDropHandle::new(task) }
    }

    pub(super) fn ask(&self, question: InputRequired) {
        let _ = self.questions.try_send(question);
    }
}

/// Repeats the question until the skill accepts the answer.
async fn ask_until_accepted(question: &InputRequired, client: &mut SkillServiceClient<Channel>) {
    print_err(&format!("\n{}\n", question.message));
    loop {
        let (action, content_json) = answer(question).await;
        let request_id = question.request_id.clone();
        let response = InputResponse { request_id, action: action.into(), content_json };
        match client.answer_input(response).await {
            // The answer does not match the schema, so the question stays open.
            Err(status) if status.code() == Code::InvalidArgument && action == InputAction::Accept => {
                print_err(&format!("{}\n", status.message()));
            }
            Err(status) => return print_err(&format!("the answer was rejected: {}\n", status.message())),
            Ok(_) => return,
        }
    }
}

/// Reads a line of stdin. Returns `None` at its end.
async fn line() -> Option<String> {
    let (sender, receiver) = oneshot::channel();
    // This thread is never joined, so that the end of a call does not wait for the user.
    let read = move || {
        let mut line = String::new();
        let count = std::io::stdin().read_line(&mut line);
        let _ = sender.send(count.is_ok_and(|count| count > 0).then_some(line));
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read).ok()?;
    receiver.await.ok().flatten()
}

/// Prompts for the fields of a question. Declines at the end of the input.
async fn answer(question: &InputRequired) -> (InputAction, String) {
    let schema: Value = serde_json::from_str(&question.schema_json).unwrap_or_default();
    let answered = match fields(&schema) {
        fields if !fields.is_empty() => fill(&fields).await,
        _ if schema["properties"].is_object() => confirm().await,
        _ => object().await,
    };
    match answered {
        Some(content) => (InputAction::Accept, Value::Object(content).to_string()),
        None => (InputAction::Decline, String::new()),
    }
}

/// Prompts for each field until its value is valid.
async fn fill(fields: &[Field]) -> Option<Map<String, Value>> {
    let mut content = Map::new();
    for field in fields {
        loop {
            match field.parse(&ask(&field.prompt()).await?) {
                Ok(Some(value)) => drop(content.insert(field.name.clone(), value)),
                Ok(None) => {}
                Err(reason) => {
                    print_err(&format!("{reason}\n"));
                    continue;
                }
            }
            break;
        }
    }
    Some(content)
}

/// Asks whether to proceed, for a question without fields.
async fn confirm() -> Option<Map<String, Value>> {
    loop {
        if let Some(accepted) = yes_or_no(&ask("Continue? (yes or no): ").await?) {
            return accepted.then(Map::new);
        }
    }
}

/// Asks for any object, for a question without a schema.
async fn object() -> Option<Map<String, Value>> {
    loop {
        match serde_json::from_str(&ask("Answer (JSON object): ").await?) {
            Ok(content) => return Some(content),
            Err(error) => print_err(&format!("not a JSON object: {error}\n")),
        }
    }
}

/// Prompts for one line.
async fn ask(prompt: &str) -> Option<String> {
    print_err(prompt);
    line().await
}

/// A value that the question asks for.
#[derive(Debug, PartialEq)]
struct Field {
    name: String,
    /// The property of the schema.
    property: Value,
    is_required: bool,
}

/// Returns the fields of an object schema, in the schema's order.
fn fields(schema: &Value) -> Vec<Field> {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let field = |(name, property): (&String, &Value)| Field {
        name: name.clone(),
        property: property.clone(),
        is_required: required.iter().any(|it| it == name),
    };
    properties.map(field).collect()
}

impl Field {
    /// Formats the prompt, such as `Colour (red, green; optional): `.
    fn prompt(&self) -> String {
        let label = ["title", "description"].iter().find_map(|key| self.property[key].as_str()).unwrap_or(&self.name);
        let mut hints = vec![match self.kind() {
            _ if !self.choices().is_empty() => self.choices().iter().map(display_value).collect::<Vec<_>>().join(", "),
            "string" => "text".to_owned(),
            "number" => "number".to_owned(),
            "integer" => "whole number".to_owned(),
            "boolean" => "yes or no".to_owned(),
            _ => "JSON".to_owned(),
        }];
        match self.property.get("default") {
            Some(default) => hints.push(format!("default: {}", display_value(default))),
            None if !self.is_required => hints.push("optional".to_owned()),
            None => {}
        }
        format!("{label} ({}): ", hints.join("; "))
    }

    /// Parses the user's line. Returns `None` to leave the field out.
    ///
    /// # Errors
    /// The problem with the line, worded for the user.
    fn parse(&self, line: &str) -> Result<Option<Value>, String> {
        let text = line.trim();
        if text.is_empty() {
            return match self.property.get("default") {
                Some(default) => Ok(Some(default.clone())),
                None if self.is_required => Err("a value is required; press Ctrl-D to decline".to_owned()),
                None => Ok(None),
            };
        }
        if !self.choices().is_empty() {
            let choice = self.choices().iter().find(|it| display_value(it) == text);
            return choice.cloned().map(Some).ok_or_else(|| "choose one of the listed values".to_owned());
        }
        let number = || text.parse::<Number>().ok();
        let (value, wanted) = match self.kind() {
            "string" => return Ok(Some(Value::from(text))),
            "number" => (number().map(Value::Number), "a number"),
            "integer" => (number().filter(|it| it.is_i64() || it.is_u64()).map(Value::Number), "a whole number"),
            "boolean" => (yes_or_no(text).map(Value::Bool), "yes or no"),
            // The user enters any other type as JSON.
            _ => (serde_json::from_str(text).ok(), "JSON"),
        };
        value.map(Some).ok_or_else(|| format!("enter {wanted}"))
    }

    /// Returns the JSON type that the user's text is converted to.
    fn kind(&self) -> &str {
        self.property["type"].as_str().unwrap_or_default()
    }

    /// Returns the accepted values. An empty list accepts any value.
    fn choices(&self) -> &[Value] {
        self.property["enum"].as_array().map(Vec::as_slice).unwrap_or_default()
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
