//! The agent's own tools, as a model sees them, and the questions that it asks with them.

use std::collections::BTreeSet;

use openskill_proto::v1::{self, Dialect};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::entry::{Question, QuestionKind};

/// Questions of one request.
const MAX_QUESTIONS: usize = 16;

/// Options of one question.
const MAX_OPTIONS: usize = 64;

/// The longest question or option, in bytes.
const MAX_TEXT_BYTES: usize = 2000;

/// The longest answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// A tool that the agent itself runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnTool {
    /// Asks the user.
    AskUser,
    /// Reads more of a result that was cut.
    ReadResult,
    /// Finds skills, if there are too many to show.
    ToolSearch,
}

impl OwnTool {
    const ALL: [Self; 3] = [Self::AskUser, Self::ReadResult, Self::ToolSearch];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AskUser => "ask_user",
            Self::ReadResult => "read_result",
            Self::ToolSearch => "tool_search",
        }
    }

    /// The tool of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// What the instructions say of it.
    pub(super) fn instruction(self) -> &'static str {
        match self {
            Self::AskUser => {
                "If something is missing that only the user knows, ask with ask_user rather than guess. Ask for passwords, \
                 keys and tokens as questions of type secret: you get a reference such as {\"$secret\": \"...\"}, and pass it \
                 on to tools exactly as it is."
            }
            Self::ReadResult => {
                "A result with a notice is cut: read more of it with read_result, or pass a part of it on to another tool as \
                 {\"$result\": \"<result_id>\", \"pointer\": \"/rows\"} in place of a value."
            }
            Self::ToolSearch => {
                "There are more tools than you see. Find the ones for a task with tool_search before you say that something \
                 is impossible; what it finds can be called afterwards."
            }
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::AskUser => "Asks the user, and waits for the answers. Only for what no tool can tell.",
            Self::ReadResult => "Reads a part of an earlier result that was too large to be shown whole.",
            Self::ToolSearch => "Finds tools for a task. What it finds can be called afterwards.",
        }
    }

    /// JSON Schema of its arguments, in the subset that every provider takes.
    fn parameters(self) -> Value {
        match self {
            Self::AskUser => json!({"type": "object", "properties": {"questions": {
                "type": "array", "description": "1 to 16 questions.", "items": {"type": "object", "properties": {
                    "id": {"type": "string", "description": "Names the answer."},
                    "text": {"type": "string", "description": "The question, in the user's language."},
                    "type": {"type": "string", "enum": ["text", "choice", "confirm", "secret"]},
                    "options": {"type": "array", "items": {"type": "string"}, "description": "What to choose from, for type choice."},
                    "required": {"type": "boolean", "description": "Whether an answer is required. Default: true."},
                }, "required": ["id", "text", "type"]}}}, "required": ["questions"]}),
            Self::ReadResult => json!({"type": "object", "properties": {
                "result_id": {"type": "string", "description": "The result_id that a notice named."},
                "pointer": {"type": "string", "description": "JSON Pointer to a part of the data, such as /rows/3. Empty: all of it."},
                "offset": {"type": "integer", "description": "The first element of an array, or character of a text. Default: 0."},
                "limit": {"type": "integer", "description": "How many at most."},
            }, "required": ["result_id"]}),
            Self::ToolSearch => json!({"type": "object", "properties": {
                "query": {"type": "string", "description": "The task in a few words."},
            }, "required": ["query"]}),
        }
    }

    /// Its definition in a provider's format, a JSON object as text.
    pub fn definition(self, dialect: Dialect) -> String {
        let (name, description, parameters) = (self.name(), self.description(), self.parameters());
        let definition = match dialect {
            Dialect::Anthropic => json!({"name": name, "description": description, "input_schema": parameters}),
            Dialect::Gemini => json!({"name": name, "description": description, "parameters": parameters}),
            Dialect::Mcp => json!({"name": name, "description": description, "inputSchema": parameters}),
            Dialect::OpenaiResponses => {
                json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
            }
            Dialect::Unspecified | Dialect::Openai | Dialect::Dashscope => json!({"type": "function", "function":
                {"name": name, "description": description, "parameters": parameters}}),
        };
        definition.to_string()
    }
}

#[derive(Deserialize)]
struct Asking {
    questions: Vec<AskedQuestion>,
}

/// A question as models write it.
#[derive(Deserialize)]
struct AskedQuestion {
    id: String,
    text: String,
    #[serde(rename = "type", default)]
    kind: QuestionKind,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default = "yes")]
    required: bool,
}

fn yes() -> bool {
    true
}

/// The questions of a call of `ask_user`.
///
/// # Errors
/// What is wrong with them, for the model.
pub fn questions(arguments: &str) -> Result<Vec<Question>, String> {
    let asking: Asking = serde_json::from_str(arguments)
        .map_err(|error| format!("ask_user wants {{\"questions\": [{{\"id\", \"text\", \"type\"}}]}}: {error}"))?;
    if asking.questions.is_empty() || asking.questions.len() > MAX_QUESTIONS {
        return Err(format!("ask_user takes 1 to {MAX_QUESTIONS} questions"));
    }
    let mut ids = BTreeSet::new();
    for question in &asking.questions {
        if question.id.is_empty()
            || question.id.len() > 64
            || question.id.contains(['/', '{', '}'])
            || !ids.insert(&question.id)
        {
            return Err("each question needs an id of its own: 1 to 64 bytes without slashes and braces".to_owned());
        }
        let texts = std::iter::once(&question.text).chain(&question.options);
        if texts.clone().any(|it| it.trim().is_empty() || it.len() > MAX_TEXT_BYTES) {
            return Err(format!("texts and options need 1 to {MAX_TEXT_BYTES} bytes"));
        }
        let wants_options = question.kind == QuestionKind::Choice;
        if wants_options && question.options.is_empty() || question.options.len() > MAX_OPTIONS {
            return Err(format!("the choice '{}' needs 1 to {MAX_OPTIONS} options", question.id));
        }
    }
    let question = |it: AskedQuestion| Question {
        options: if it.kind == QuestionKind::Choice { it.options } else { Vec::new() },
        id: it.id,
        text: it.text,
        kind: it.kind,
        required: it.required,
    };
    Ok(asking.questions.into_iter().map(question).collect())
}

/// The answers to questions, in their order: id, answer, and whether it is a secret.
///
/// # Errors
/// An answer is missing, unknown, or does not fit. For the user.
pub fn answers(questions: &[Question], given: &v1::UserAnswers) -> Result<Vec<(String, String, bool)>, String> {
    if let Some(unknown) = given.answers.iter().find(|it| questions.iter().all(|question| question.id != it.id)) {
        return Err(format!("there is no question {:?}", unknown.id));
    }
    let mut answers = Vec::new();
    for question in questions {
        let answer = given.answers.iter().rev().find(|it| it.id == question.id).map(|it| it.answer.as_str());
        match answer.filter(|it| !it.is_empty()) {
            None if question.required => return Err(format!("the question {:?} needs an answer", question.id)),
            None => {}
            Some(answer) => {
                answers.push((question.id.clone(), fitting(question, answer)?, question.kind == QuestionKind::Secret))
            }
        }
    }
    Ok(answers)
}

fn fitting(question: &Question, answer: &str) -> Result<String, String> {
    if answer.len() > MAX_ANSWER_BYTES {
        return Err(format!("the answer to {:?} exceeds {MAX_ANSWER_BYTES} bytes", question.id));
    }
    match question.kind {
        QuestionKind::Text | QuestionKind::Secret => Ok(answer.to_owned()),
        QuestionKind::Confirm if answer == "true" || answer == "false" => Ok(answer.to_owned()),
        QuestionKind::Confirm => Err(format!("the answer to {:?} must be true or false", question.id)),
        QuestionKind::Choice if question.options.iter().any(|it| it == answer) => Ok(answer.to_owned()),
        QuestionKind::Choice => {
            Err(format!("the answer to {:?} must be one of: {}", question.id, question.options.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(answers: &[(&str, &str)]) -> v1::UserAnswers {
        let answers = answers.iter().map(|(id, answer)| v1::UserAnswer { id: (*id).into(), answer: (*answer).into() });
        v1::UserAnswers { answers: answers.collect(), ..v1::UserAnswers::default() }
    }

    #[test]
    fn each_dialect_gets_its_own_form() {
        let definition =
            |dialect| serde_json::from_str::<Value>(&OwnTool::AskUser.definition(dialect)).unwrap_or_default();
        assert_eq!(definition(Dialect::Openai)["function"]["name"], "ask_user");
        assert_eq!(definition(Dialect::OpenaiResponses)["name"], "ask_user");
        assert_eq!(definition(Dialect::Anthropic)["input_schema"]["type"], "object");
        assert_eq!(definition(Dialect::Gemini)["parameters"]["type"], "object");
    }

    #[test]
    fn questions_are_checked() {
        let fine = r#"{"questions":[{"id":"a","text":"Which?","type":"choice","options":["x","y"]},{"id":"b","text":"Key?","type":"secret","required":false}]}"#;
        let parsed = questions(fine).unwrap_or_default();
        assert_eq!((parsed.len(), parsed[0].required, parsed[1].required), (2, true, false));
        for bad in [
            r#"{"questions":[]}"#,
            r#"{"questions":[{"id":"a","text":"?","type":"choice"}]}"#,
            r#"{"questions":[{"id":"a","text":"?","type":"text"},{"id":"a","text":"?","type":"text"}]}"#,
            r#"{"questions":[{"id":"a","text":"?","type":"number"}]}"#,
            r#"{"questions":[{"id":"a{b","text":"?","type":"secret"}]}"#,
            "[1, 2,]",
        ] {
            assert!(questions(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn answers_are_required_and_fit() {
        let questions = questions(r#"{"questions":[{"id":"a","text":"Which?","type":"choice","options":["x","y"]},
            {"id":"b","text":"Sure?","type":"confirm","required":false},{"id":"c","text":"Key?","type":"secret","required":false}]}"#)
            .unwrap_or_default();
        assert!(answers(&questions, &given(&[])).is_err());
        assert!(answers(&questions, &given(&[("a", "z")])).is_err());
        assert!(answers(&questions, &given(&[("a", "x"), ("b", "maybe")])).is_err());
        assert!(answers(&questions, &given(&[("a", "x"), ("d", "?")])).is_err());
        let fine = answers(&questions, &given(&[("c", "k"), ("a", "x")])).unwrap_or_default();
        assert_eq!(fine, [("a".into(), "x".into(), false), ("c".into(), "k".into(), true)]);
    }
}
