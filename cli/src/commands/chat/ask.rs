//! Questions and approvals, in place.

use openskill_proto::v1::{
    ApprovalRequested, Decision, InputRequested, Question, QuestionType, UserAnswer, UserAnswers, UserDecision,
};

use super::prompt::{Editor, Entered};
use super::secret;
use crate::exit::Failure;
use crate::pretty::pretty;
use crate::terminal::complain;

/// What the user gave.
pub(super) enum Given {
    Decision(UserDecision),
    Answers(UserAnswers),
    /// Ctrl-C.
    Interrupted,
}

/// Asks whether a call may run.
pub(super) async fn decision(asked: &ApprovalRequested) -> Result<Given, Failure> {
    complain(&format!(
        "\nMay {} {} run? {}\n{}\n",
        asked.skill_id,
        asked.version,
        asked.reason,
        pretty(&asked.arguments_json).trim_end()
    ));
    let decided = |decision: Decision| UserDecision {
        request_id: asked.request_id.clone(),
        decision: decision.into(),
        ..UserDecision::default()
    };
    loop {
        let choice = match line("[a]llow, allow for the [c]onversation, [e]dit, [d]eny: ").await? {
            Entered::Line(line) => line.trim().to_lowercase(),
            Entered::Interrupted | Entered::End => return Ok(Given::Interrupted),
        };
        let decision = match choice.as_str() {
            "a" | "allow" | "y" | "yes" => decided(Decision::Allow),
            "c" | "conversation" => decided(Decision::AllowConversation),
            "d" | "deny" | "n" | "no" => {
                let Entered::Line(reason) = line("Why? (the model reads it; may be empty) ").await? else {
                    return Ok(Given::Interrupted);
                };
                UserDecision { reason: reason.trim().to_owned(), ..decided(Decision::Deny) }
            }
            "e" | "edit" => {
                let Entered::Line(arguments_json) = line("Arguments as JSON: ").await? else {
                    return Ok(Given::Interrupted);
                };
                if serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&arguments_json).is_err() {
                    complain("That is no JSON object.\n");
                    continue;
                }
                UserDecision { arguments_json, ..decided(Decision::Edit) }
            }
            _ => continue,
        };
        return Ok(Given::Decision(decision));
    }
}

/// Asks the questions of a call.
pub(super) async fn answers(asked: &InputRequested) -> Result<Given, Failure> {
    if !asked.message.is_empty() {
        complain(&format!("\n{}\n", asked.message));
    }
    let mut answers = Vec::new();
    for question in &asked.questions {
        match answer(question).await? {
            None => return Ok(Given::Interrupted),
            Some(answer) if answer.is_empty() => {}
            Some(answer) => answers.push(UserAnswer { id: question.id.clone(), answer }),
        }
    }
    Ok(Given::Answers(UserAnswers { request_id: asked.request_id.clone(), answers, declined: false }))
}

/// The answer to one question. None: Ctrl-C. Empty: there is none, and none is required.
async fn answer(question: &Question) -> Result<Option<String>, Failure> {
    let kind = question.r#type();
    let hint = match kind {
        QuestionType::Confirm => " (yes or no)".to_owned(),
        QuestionType::Choice => format!(" ({})", numbered(&question.options)),
        QuestionType::Secret => " (not shown)".to_owned(),
        QuestionType::Text | QuestionType::Unspecified => String::new(),
    };
    let prompt = format!("{}{hint}{}: ", question.text, if question.required { "" } else { ", optional" });
    loop {
        let entered = if kind == QuestionType::Secret { secret::read(&prompt).await } else { line(&prompt).await? };
        let Entered::Line(text) = entered else { return Ok(None) };
        match fitting(question, &text) {
            Some(answer) => return Ok(Some(answer)),
            None => complain("That does not fit.\n"),
        }
    }
}

/// What is sent for a text. None if it does not fit.
fn fitting(question: &Question, text: &str) -> Option<String> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return (!question.required).then(String::new);
    }
    match question.r#type() {
        QuestionType::Confirm => match trimmed.to_lowercase().as_str() {
            "y" | "yes" | "true" => Some("true".to_owned()),
            "n" | "no" | "false" => Some("false".to_owned()),
            _ => None,
        },
        QuestionType::Choice => {
            let by_number = trimmed.parse::<usize>().ok().and_then(|it| question.options.get(it.checked_sub(1)?));
            by_number.or_else(|| question.options.iter().find(|it| *it == trimmed)).cloned()
        }
        QuestionType::Secret => Some(text.to_owned()),
        QuestionType::Text | QuestionType::Unspecified => Some(trimmed.to_owned()),
    }
}

fn numbered(options: &[String]) -> String {
    let all: Vec<_> = options.iter().zip(1..).map(|(option, number)| format!("{number}: {option}")).collect();
    all.join(", ")
}

async fn line(prompt: &str) -> Result<Entered, Failure> {
    // The editor draws its prompt itself: what models wrote must not reach the terminal as it is.
    let prompt = openskill_log::text::one_line(prompt).into_owned();
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
        assert_eq!(fitting(&choice, "2").as_deref(), Some("green"));
        assert_eq!(fitting(&choice, "red ").as_deref(), Some("red"));
        assert_eq!((fitting(&choice, "3"), fitting(&choice, "0"), fitting(&choice, "")), (None, None, None));
        assert_eq!(fitting(&question(QuestionType::Confirm, true), "No").as_deref(), Some("false"));
        assert_eq!(fitting(&question(QuestionType::Text, false), " ").as_deref(), Some(""));
        assert_eq!(fitting(&question(QuestionType::Secret, true), " s ").as_deref(), Some(" s "));
    }
}
