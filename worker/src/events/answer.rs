//! The answer to a question as a skill reads it: one line of JSON.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::questions::Answer;

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
    /// Why nobody could be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// The line, with its line break. `id` is the skill's own name for the question.
pub(super) fn answer_line(id: &str, answer: &Answer) -> Bytes {
    let (action, content, reason) = match answer {
        Answer::Accept(content) => ("accept", serde_json::from_str(content).ok(), None),
        Answer::Decline => ("decline", None, None),
        Answer::Cancel => ("cancel", None, None),
        Answer::Unavailable(reason) => ("unavailable", None, Some(reason.as_str())),
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
                Answer::Accept(r#"{"n": 12345678901234567890123}"#.to_owned()),
                r#"{"answer":{"id":"q1","action":"accept","content":{"n": 12345678901234567890123}}}"#,
            ),
            (Answer::Decline, r#"{"answer":{"id":"q1","action":"decline"}}"#),
            (Answer::Cancel, r#"{"answer":{"id":"q1","action":"cancel"}}"#),
            (Answer::Unavailable("no".to_owned()), r#"{"answer":{"id":"q1","action":"unavailable","reason":"no"}}"#),
        ] {
            assert_eq!(answer_line("q1", &answer), format!("{line}\n"));
        }
    }
}
