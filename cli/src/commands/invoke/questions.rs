//! Asks the user what a skill requires in the middle of a call.

use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{InputAction, InputRequired, InputResponse};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use tonic::Code;

use super::form::{Field, fields, yes_or_no};
use crate::channel::Channel;
use crate::terminal::complain;

/// Questions that may wait for the user. A skill that asks more gets no answer, and its call ends at its deadline.
const MAX_QUESTIONS: usize = 16;

/// Asks one question after the other, beside the events of the call. Dropping it ends it, even in the middle of a question.
pub(super) struct Asking {
    questions: mpsc::Sender<InputRequired>,
    _task: AbortOnDropHandle<()>,
}

impl Asking {
    /// Sends answers with `client`. They go over the connection of the call, and so to the gateway that waits for them.
    pub(super) fn start(mut client: SkillServiceClient<Channel>) -> Self {
        let (questions, mut asked) = mpsc::channel(MAX_QUESTIONS);
        let task = tokio::spawn(async move {
            while let Some(question) = asked.recv().await {
                settle(&question, &mut client).await;
            }
        });
        Self { questions, _task: AbortOnDropHandle::new(task) }
    }

    /// Asks the user, after the questions before.
    pub(super) fn ask(&self, question: InputRequired) {
        let _ = self.questions.try_send(question);
    }
}

/// Asks until the skill accepts the answer.
async fn settle(question: &InputRequired, client: &mut SkillServiceClient<Channel>) {
    complain(&format!("\n{}\n", question.message));
    loop {
        let (action, content_json) = answer(question).await;
        let request_id = question.request_id.clone();
        let response = InputResponse { request_id, action: action.into(), content_json };
        match client.answer_input(response).await {
            // The content does not match the schema, and the question stays open.
            Err(status) if status.code() == Code::InvalidArgument && action == InputAction::Accept => {
                complain(&format!("{}\n", status.message()));
            }
            Err(status) => return complain(&format!("the answer was rejected: {}\n", status.message())),
            Ok(_) => return,
        }
    }
}

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

/// Prompts for the fields of a question. The end of the input declines.
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
    complain(prompt);
    line().await
}
