//! Asks the user for the input that a skill requires during a call.

use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{InputAction, InputRequired, InputResponse};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use tonic::Code;

use super::form::{Field, fields, yes_or_no};
use crate::channel::Channel;
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
