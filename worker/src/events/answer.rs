//! Formats the answer to a question for skills, as one line of JSON.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::questions::QuestionAnswer;

#[derive(Serialize)]
struct Line<'a> {
    answer: Content<'a>,
}

#[derive(Serialize)]
struct Content<'a> {
    id: &'a str,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a RawValue>,
    /// The reason why the question could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Formats the line, including its newline. `id`: the skill's name for the question.
pub(super) fn answer_line(id: &str, answer: &QuestionAnswer) -> Bytes {
    let (action, content, reason) = match answer {
        QuestionAnswer::Accept(content) => ("accept", serde_json::from_str(content).ok(), None),
        QuestionAnswer::Decline => ("decline", None, None),
        QuestionAnswer::Cancel => ("cancel", None, None),
        QuestionAnswer::Unavailable(reason) => ("unavailable", None, Some(reason.as_str())),
    };
    let mut line = serde_json::to_vec(&Line { answer: Content { id, action, content, reason } }).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_one_line() {
        for (answer, line) in [
            (
                QuestionAnswer::Accept(r#"{"n": 12345678901234567890123}"#.to_owned()),
                r#"{"answer":{"id":"q1","action":"accept","content":{"n": 12345678901234567890123}}}"#,
            ),
            (QuestionAnswer::Decline, r#"{"answer":{"id":"q1","action":"decline"}}"#),
            (QuestionAnswer::Cancel, r#"{"answer":{"id":"q1","action":"cancel"}}"#),
            (
                QuestionAnswer::Unavailable("no".to_owned()),
                r#"{"answer":{"id":"q1","action":"unavailable","reason":"no"}}"#,
            ),
        ] {
            assert_eq!(answer_line("q1", &answer), format!("{line}\n"));
        }
    }
}
