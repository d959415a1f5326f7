//! Asks the user for answers and approvals in the terminal.

use openskill_proto::v1::chat_event::Event;
use openskill_proto::v1::chat_request::Request;
use openskill_proto::v1::{
    ApprovalRequested, Decision, InputRequested, Question, QuestionType, UserAnswer, UserAnswers, UserDecision,
};

use super::prompt::{Editor, PromptInput, read_secret};
use crate::commands::input::yes_or_no;
use crate::exit::Failure;
use crate::pretty::pretty;
use crate::terminal::print_err;

/// Says what an event asks the user.
pub(super) fn describe(asked: &Event) -> String {
    match asked {
        Event::ApprovalRequired(asked) => describe_call(asked),
        Event::InputRequired(asked) => {
            let questions = asked.questions.iter().map(|it| format!("{}\n", phrase(it)));
            format!("{}{}", introduce(asked), questions.collect::<String>())
        }
        _ => String::new(),
    }
}

/// Names the call that needs approval, with the arguments that it will have.
fn describe_call(asked: &ApprovalRequested) -> String {
    let arguments = pretty(&asked.arguments_json);
    format!("\nMay {} {} run? {}\n{}\n", asked.skill_id, asked.version, asked.reason, arguments.trim_end())
}

fn introduce(asked: &InputRequested) -> String {
    if asked.message.is_empty() { String::new() } else { format!("\n{}\n", asked.message) }
}

/// Asks whether to run a call. Returns `None` after Ctrl-C or at the end of the input.
pub(super) async fn ask_decision(asked: &ApprovalRequested) -> Result<Option<Request>, Failure> {
    print_err(&describe_call(asked));
    let user_decision = |decision: Decision| UserDecision {
        request_id: asked.request_id.clone(),
        decision: decision.into(),
        ..UserDecision::default()
    };
    loop {
        let choice = read_line("[a]llow, allow for the [c]onversation, [e]dit, [d]eny: ").await?;
        let PromptInput::Line(choice) = choice else { return Ok(None) };
        let decision = match choice.trim().to_lowercase().as_str() {
            "a" | "allow" | "y" | "yes" => user_decision(Decision::Allow),
            "c" | "conversation" => user_decision(Decision::AllowConversation),
            "d" | "deny" | "n" | "no" => {
                let reason = read_line("Why? (the model reads it; may be empty) ").await?;
                let PromptInput::Line(reason) = reason else { return Ok(None) };
                UserDecision { reason: reason.trim().to_owned(), ..user_decision(Decision::Deny) }
            }
            "e" | "edit" => {
                let arguments = read_line("Arguments as JSON: ").await?;
                let PromptInput::Line(arguments_json) = arguments else { return Ok(None) };
                if serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&arguments_json).is_err() {
                    print_err("That is not a JSON object.\n");
                    continue;
                }
                UserDecision { arguments_json, ..user_decision(Decision::Edit) }
            }
            _ => continue,
        };
        return Ok(Some(Request::Decision(decision)));
    }
}

/// Asks the questions of a call. Returns `None` after Ctrl-C or at the end of the input.
pub(super) async fn ask_questions(asked: &InputRequested) -> Result<Option<Request>, Failure> {
    print_err(&introduce(asked));
    let mut answers = Vec::new();
    for question in &asked.questions {
        match ask_question(question).await? {
            None => return Ok(None),
            Some(answer) if answer.is_empty() => {}
            Some(answer) => answers.push(UserAnswer { id: question.id.clone(), answer }),
        }
    }
    let request_id = asked.request_id.clone();
    Ok(Some(Request::Answers(UserAnswers { request_id, answers, declined: false })))
}

/// Asks one question. Returns `None` after Ctrl-C or at the end of the input, and empty text if the user skips an
/// optional question.
async fn ask_question(question: &Question) -> Result<Option<String>, Failure> {
    let prompt = format!("{}: ", phrase(question));
    loop {
        let input = if question.r#type() == QuestionType::Secret {
            read_secret(&prompt).await
        } else {
            read_line(&prompt).await?
        };
        let PromptInput::Line(text) = input else { return Ok(None) };
        match parse_answer(question, &text) {
            Some(answer) => return Ok(Some(answer)),
            None => print_err("That is not a valid answer.\n"),
        }
    }
}

/// Formats a question with its options.
fn phrase(question: &Question) -> String {
    let hint = match question.r#type() {
        QuestionType::Confirm => " (yes or no)".to_owned(),
        QuestionType::Choice => format!(" ({})", number_options(&question.options)),
        QuestionType::Secret => " (not shown)".to_owned(),
        QuestionType::Text | QuestionType::Unspecified => String::new(),
    };
    format!("{}{hint}{}", question.text, if question.required { "" } else { ", optional" })
}

/// Converts the user's text into the answer to send. Returns `None` if the text does not fit the question.
fn parse_answer(question: &Question, text: &str) -> Option<String> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return (!question.required).then(String::new);
    }
    match question.r#type() {
        QuestionType::Confirm => yes_or_no(trimmed).map(|it| it.to_string()),
        QuestionType::Choice => {
            let by_number = || question.options.get(trimmed.parse::<usize>().ok()?.checked_sub(1)?);
            question.options.iter().find(|it| *it == trimmed).or_else(by_number).cloned()
        }
        QuestionType::Secret => Some(text.to_owned()),
        QuestionType::Text | QuestionType::Unspecified => Some(trimmed.to_owned()),
    }
}

fn number_options(options: &[String]) -> String {
    let all: Vec<_> = options.iter().zip(1..).map(|(option, number)| format!("{number}: {option}")).collect();
    all.join(", ")
}

async fn read_line(prompt: &str) -> Result<PromptInput, Failure> {
    // The editor draws its prompt itself, and text from models must not reach the terminal unescaped.
    let prompt = openskill_telemetry::log::text::one_line(prompt).into_owned();
    Ok(Editor::new()?.read(&prompt).await?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kind: QuestionType, required: bool) -> Question {
        let options = vec!["red".to_owned(), "green".to_owned()];
        Question { r#type: kind.into(), options, required, ..Question::default() }
    }

    #[test]
    fn answers_fit_their_questions() {
        let choice = question(QuestionType::Choice, true);
        assert_eq!(parse_answer(&choice, "2").as_deref(), Some("green"));
        assert_eq!(parse_answer(&choice, "red ").as_deref(), Some("red"));
        let numbers = Question { options: vec!["2".to_owned(), "1".to_owned()], ..choice.clone() };
        assert_eq!(parse_answer(&numbers, "2").as_deref(), Some("2"));
        assert_eq!(
            (parse_answer(&choice, "3"), parse_answer(&choice, "0"), parse_answer(&choice, "")),
            (None, None, None)
        );
        assert_eq!(parse_answer(&question(QuestionType::Confirm, true), "No").as_deref(), Some("false"));
        assert_eq!(parse_answer(&question(QuestionType::Text, false), " ").as_deref(), Some(""));
        assert_eq!(parse_answer(&question(QuestionType::Secret, true), " s ").as_deref(), Some(" s "));
    }
}
