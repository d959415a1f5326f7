//! The definitions of the built-in tools, and the parsing of the questions that the model asks through them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use openskill_proto::v1::{self, Dialect};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::entry::{QuestionKind, UserQuestion};

/// The maximum number of questions in one request.
const MAX_QUESTIONS: usize = 16;

/// The maximum number of options of one question.
const MAX_OPTIONS: usize = 64;

/// The maximum length of a question or an option, in bytes.
const MAX_TEXT_BYTES: usize = 2000;

/// The maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// A tool that the agent runs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinTool {
    /// Asks the user questions.
    AskUser,
    /// Reads another part of a truncated result.
    ReadResult,
    /// Searches skills. Offered if there are too many skills to show them all.
    ToolSearch,
}

/// What the model reads about a built-in tool.
#[derive(Debug, Default, Deserialize)]
struct ToolText {
    name: String,
    /// A sentence about the tool for the instructions.
    instruction: String,
    description: String,
    /// The JSON Schema of the arguments, in the subset that every provider accepts.
    parameters: Value,
}

/// The texts, in the order of [`BuiltinTool::ALL`].
static TEXTS: LazyLock<[ToolText; BuiltinTool::ALL.len()]> = LazyLock::new(|| {
    // Tests parse this embedded file, so it is valid.
    serde_json::from_str(include_str!("builtin_tools.json")).unwrap_or_default()
});

impl BuiltinTool {
    const ALL: [Self; 3] = [Self::AskUser, Self::ReadResult, Self::ToolSearch];

    /// Returns the tool's name.
    pub fn name(self) -> &'static str {
        &TEXTS[self as usize].name
    }

    /// Returns the tool with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns the sentence about this tool for the instructions.
    pub(super) fn instruction(self) -> &'static str {
        &TEXTS[self as usize].instruction
    }

    /// Returns the tool definition in a provider's format, as JSON text.
    pub fn definition(self, dialect: Dialect) -> String {
        let ToolText { name, description, parameters, .. } = &TEXTS[self as usize];
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

/// A question as the model writes it.
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

/// Parses the questions in a call of `ask_user`.
///
/// # Errors
/// What is wrong with the questions, worded for the model.
pub fn questions(arguments: &str) -> Result<Vec<UserQuestion>, String> {
    let mut asking: Asking = serde_json::from_str(arguments)
        .map_err(|error| format!("ask_user expects {{\"questions\": [{{\"id\", \"text\", \"type\"}}]}}: {error}"))?;
    if asking.questions.is_empty() || asking.questions.len() > MAX_QUESTIONS {
        return Err(format!("ask_user accepts 1 to {MAX_QUESTIONS} questions"));
    }
    let mut ids = BTreeSet::new();
    for question in &mut asking.questions {
        // As in the shipped skill of the same name, text with options is a choice.
        if question.kind == QuestionKind::Text && !question.options.is_empty() {
            question.kind = QuestionKind::Choice;
        }
        if question.id.is_empty()
            || question.id.len() > 64
            || question.id.contains(['/', '{', '}'])
            || !ids.insert(question.id.clone())
        {
            return Err(
                "each question needs a unique id of 1 to 64 bytes that contains no slashes or braces".to_owned()
            );
        }
        let texts = std::iter::once(&question.text).chain(&question.options);
        if texts.clone().any(|it| it.trim().is_empty() || it.len() > MAX_TEXT_BYTES) {
            return Err(format!("each text and each option must have 1 to {MAX_TEXT_BYTES} bytes"));
        }
        let wants_options = question.kind == QuestionKind::Choice;
        if wants_options && question.options.is_empty() || question.options.len() > MAX_OPTIONS {
            return Err(format!("the choice '{}' needs 1 to {MAX_OPTIONS} options", question.id));
        }
    }
    let question = |it: AskedQuestion| UserQuestion {
        options: if it.kind == QuestionKind::Choice { it.options } else { Vec::new() },
        id: it.id,
        text: it.text,
        kind: it.kind,
        required: it.required,
    };
    Ok(asking.questions.into_iter().map(question).collect())
}

/// Matches answers with questions. Returns one tuple per answer, in question order: the id, the answer, and
/// whether it is a secret.
///
/// # Errors
/// An answer is missing, does not belong to a question, or does not fit. The message is for the user.
pub fn answers(questions: &[UserQuestion], given: &v1::UserAnswers) -> Result<Vec<(String, String, bool)>, String> {
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

fn fitting(question: &UserQuestion, answer: &str) -> Result<String, String> {
    if answer.len() > MAX_ANSWER_BYTES {
        return Err(format!("the answer to {:?} exceeds {MAX_ANSWER_BYTES} bytes", question.id));
    }
    match question.kind {
        QuestionKind::Text | QuestionKind::Secret => Ok(answer.to_owned()),
        QuestionKind::Confirm if answer == "true" || answer == "false" => Ok(answer.to_owned()),
        QuestionKind::Confirm => Err(format!("the answer to {:?} must be true or false", question.id)),
        QuestionKind::Choice => {
            let by_number = || question.options.get(answer.trim().parse::<usize>().ok()?.checked_sub(1)?);
            let chosen = question.options.iter().find(|it| *it == answer).or_else(by_number);
            chosen.cloned().ok_or_else(|| {
                format!("the answer to {:?} must be one of: {}", question.id, question.options.join(", "))
            })
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
            |dialect| serde_json::from_str::<Value>(&BuiltinTool::AskUser.definition(dialect)).unwrap_or_default();
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
            {"id":"b","text":"Sure?","type":"confirm","required":false},{"id":"c","text":"Key?","type":"secret","required":false},
            {"id":"d","text":"Color?","options":["red","2","1"],"required":false}]}"#)
            .unwrap_or_default();
        assert_eq!(questions[3].kind, QuestionKind::Choice);
        assert!(answers(&questions, &given(&[])).is_err());
        assert!(answers(&questions, &given(&[("a", "z")])).is_err());
        assert!(answers(&questions, &given(&[("a", "x"), ("b", "maybe")])).is_err());
        assert!(answers(&questions, &given(&[("a", "x"), ("e", "?")])).is_err());
        let fine = answers(&questions, &given(&[("c", "k"), ("a", "x")])).unwrap_or_default();
        assert_eq!(fine, [("a".into(), "x".into(), false), ("c".into(), "k".into(), true)]);
        for (answer, option) in [("red", "red"), ("1", "1"), ("2", "2"), ("3", "1")] {
            let chosen = answers(&questions, &given(&[("a", "y"), ("d", answer)])).unwrap_or_default();
            assert_eq!(chosen[1].1, option, "{answer}");
        }
        assert!(answers(&questions, &given(&[("a", "0")])).is_err());
    }
}
