//! Asks the user what a skill requires in the middle of a call.

use openskill_proto::v1::{InputAction, InputRequired};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::form::{Field, fields, yes_or_no};
use crate::terminal::{complain, plain};

/// Reads a line of stdin, or None at its end.
async fn line() -> Option<String> {
    let (sender, receiver) = oneshot::channel();
    // A thread of its own, which nobody joins: a call that ends does not wait for the user.
    let read = move || {
        let mut line = String::new();
        let count = std::io::stdin().read_line(&mut line);
        let _ = sender.send(count.is_ok_and(|count| count > 0).then_some(line));
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read).ok()?;
    receiver.await.ok().flatten()
}

/// Shows a question and prompts for its fields. The end of the input declines.
pub(super) async fn answer(question: &InputRequired) -> (InputAction, String) {
    complain(&format!("\n{}\n", plain(&question.message)));
    let schema: Value = serde_json::from_str(&question.schema_json).unwrap_or_default();
    let answered = match fields(&schema) {
        fields if !fields.is_empty() => fill(&fields).await,
        _ if schema.is_object() => confirm().await,
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
                    complain(&format!("{reason}\n"));
                    continue;
                }
            }
            break;
        }
    }
    Some(content)
}

/// A question without fields only needs consent.
async fn confirm() -> Option<Map<String, Value>> {
    loop {
        if let Some(accepted) = yes_or_no(&ask("Continue? (yes or no): ").await?) {
            return accepted.then(Map::new);
        }
    }
}

/// A question without a schema accepts any object.
async fn object() -> Option<Map<String, Value>> {
    loop {
        match serde_json::from_str(&ask("Answer (JSON object): ").await?) {
            Ok(content) => return Some(content),
            Err(error) => complain(&format!("not a JSON object: {error}\n")),
        }
    }
}

/// Prompts for one line.
async fn ask(prompt: &str) -> Option<String> {
    complain(&plain(prompt));
    line().await
}
