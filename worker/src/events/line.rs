//! The lines of a skill's event channel, and the lines that answer its questions. Pure.
//!
//! A line from a skill is a JSON object with exactly one of these keys: `progress`, `log`, `partial`, `artifact`,
//! `input_required`. A line to a skill has the key `answer`.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use openskill_proto::limits::{MAX_CALL_QUESTIONS, MAX_ID_BYTES, MAX_JSON_DEPTH};
use openskill_proto::v1::{InputKind, Log, Partial, Progress, execute_event::Event};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::artifacts::Chunk;
use crate::questions::{Ask, QuestionAnswer};

/// The content of a line.
#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a line is passed on as soon as it is read")]
pub(super) enum Line {
    Event(Event),
    Artifact(Chunk),
    /// Questions that are asked together.
    Questions(Vec<SkillQuestion>),
}

/// A skill's question. `id`: the skill's name for it.
#[derive(Debug, PartialEq)]
pub(super) struct SkillQuestion {
    pub(super) id: String,
    pub(super) ask: Ask,
}

#[derive(Deserialize)]
struct QuestionLine {
    id: String,
    #[serde(default)]
    kind: Kind,
    message: Option<String>,
    #[serde(default)]
    schema: Option<Value>,
    #[serde(default)]
    params: Option<Value>,
    #[serde(default)]
    key: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(QuestionLine),
    Many(Vec<QuestionLine>),
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    Form,
    Sampling,
    Roots,
    Url,
}

impl OneOrMany {
    /// Converts the line to questions. Returns `None` if one has no usable name, or if there are no questions or
    /// too many.
    fn questions(self) -> Option<Vec<SkillQuestion>> {
        let lines = match self {
            Self::One(line) => vec![line],
            Self::Many(lines) => lines,
        };
        let fits = |it: &QuestionLine| {
            // People read the message. Models and requests for roots need none.
            let is_said = it.message.is_some() || matches!(it.kind, Kind::Sampling | Kind::Roots);
            is_said && is_id(&it.id) && (it.key.is_empty() || is_id(&it.key))
        };
        let are_usable = (1..=MAX_CALL_QUESTIONS).contains(&lines.len()) && lines.iter().all(fits);
        are_usable.then(|| lines.into_iter().map(QuestionLine::question).collect())
    }
}

impl QuestionLine {
    fn question(self) -> SkillQuestion {
        let kind = match self.kind {
            Kind::Form => InputKind::Form,
            Kind::Sampling => InputKind::Sampling,
            Kind::Roots => InputKind::Roots,
            Kind::Url => InputKind::Url,
        };
        let Self { id, message, schema, params, key, .. } = self;
        SkillQuestion { id, ask: Ask { kind, message: message.unwrap_or_default(), schema, params, key } }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum EventLine<'a> {
    Progress(ProgressLine),
    Log(LogLine),
    #[serde(borrow)]
    Partial(&'a RawValue),
    #[serde(borrow)]
    Artifact(ArtifactLine<'a>),
    InputRequired(OneOrMany),
}

#[derive(Deserialize)]
struct ProgressLine {
    fraction: Option<f64>,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct LogLine {
    #[serde(default)]
    level: String,
    message: String,
}

#[derive(Deserialize)]
struct ArtifactLine<'a> {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    media_type: String,
    #[serde(borrow, default)]
    data: Cow<'a, str>,
    #[serde(default)]
    more: bool,
}

/// Returns whether a line matters even without a listener. Artifacts and log lines are part of the result, and
/// questions must be answered.
pub(super) fn is_collected(line: &[u8]) -> bool {
    let Some(key) = line.trim_ascii_start().strip_prefix(b"{") else { return false };
    let key = key.trim_ascii_start();
    [&b"\"artifact\""[..], b"\"log\"", b"\"input_required\""].iter().any(|it| key.starts_with(it))
}

/// Parses a line. Returns `None` if it is malformed.
pub(super) fn parse(line: &[u8]) -> Option<Line> {
    let text = std::str::from_utf8(line).ok()?;
    Some(match serde_json::from_str(text).ok()? {
        EventLine::Progress(ProgressLine { fraction, message }) => {
            let fraction = fraction.map_or(-1.0, |fraction| fraction.clamp(0.0, 1.0));
            Line::Event(Event::Progress(Progress { fraction, message }))
        }
        EventLine::Log(LogLine { level, message }) => {
            let known = ["debug", "info", "warning", "error"].contains(&level.as_str());
            Line::Event(Event::Log(Log { level: if known { level } else { "info".to_owned() }, message }))
        }
        EventLine::Partial(data) => {
            let data_json = data.get().to_owned();
            if openskill_proto::json::depth(data_json.as_bytes()) > MAX_JSON_DEPTH {
                return None;
            }
            Line::Event(Event::Partial(Partial { data_json }))
        }
        EventLine::Artifact(ArtifactLine { id, name, media_type, data, more }) if is_id(&id) => {
            Line::Artifact(Chunk { id, name, media_type, data: STANDARD.decode(data.as_bytes()).ok()?, more })
        }
        EventLine::InputRequired(asked) => Line::Questions(asked.questions()?),
        EventLine::Artifact(_) => return None,
    })
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID_BYTES && !id.chars().any(char::is_control)
}

/// A line to a skill.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum LineToSkill<'a> {
    Answer {
        id: &'a str,
        action: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<&'a RawValue>,
        /// The reason why the question could not be asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
}

/// Formats the answer to a question as one line of JSON, including its newline. `id`: the skill's name for the
/// question.
pub(super) fn answer_line(id: &str, answer: &QuestionAnswer) -> Bytes {
    let (action, content, reason) = match answer {
        QuestionAnswer::Accept(content) => ("accept", serde_json::from_str(content).ok(), None),
        QuestionAnswer::Decline => ("decline", None, None),
        QuestionAnswer::Cancel => ("cancel", None, None),
        QuestionAnswer::Unavailable(reason) => ("unavailable", None, Some(reason.as_str())),
    };
    let mut line = serde_json::to_vec(&LineToSkill::Answer { id, action, content, reason }).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_of_line_is_read() {
        let progress = parse(br#"{"progress": {"fraction": 0.5, "message": "half"}}"#);
        let expected = Event::Progress(Progress { fraction: 0.5, message: "half".to_owned() });
        assert_eq!(progress, Some(Line::Event(expected)));
        let partial = parse(br#"{"partial": [1, 2]}"#);
        assert_eq!(partial, Some(Line::Event(Event::Partial(Partial { data_json: "[1, 2]".to_owned() }))));
        let log = parse(br#"{"log": {"level": "shout", "message": "hi"}}"#);
        assert_eq!(log, Some(Line::Event(Event::Log(Log { level: "info".to_owned(), message: "hi".to_owned() }))));
        let artifact = br#"{"artifact": {"id": "a", "name": "n", "media_type": "t/u", "data": "aGk=", "more": true}}"#;
        let (name, media_type) = ("n".to_owned(), "t/u".to_owned());
        let chunk = Chunk { id: "a".to_owned(), name, media_type, data: b"hi".to_vec(), more: true };
        assert_eq!(parse(artifact), Some(Line::Artifact(chunk)));
        let question = br#"{"input_required": {"id": "q", "message": "Which?", "schema": {"type": "object"}}}"#;
        let ask = Ask::form("Which?", Some(json!({"type": "object"})));
        assert_eq!(parse(question), Some(Line::Questions(vec![SkillQuestion { id: "q".to_owned(), ask }])));
        let several = br#"{"input_required": [{"id": "q", "kind": "roots", "key": "k"}, {"id": "r", "message": "?"}]}"#;
        let asks = [("q", Ask { key: "k".to_owned(), ..Ask::roots() }), ("r", Ask::form("?", None))];
        let asks = asks.map(|(id, ask)| SkillQuestion { id: id.to_owned(), ask });
        assert_eq!(parse(several), Some(Line::Questions(asks.into())));
    }

    #[test]
    fn a_malformed_line_is_no_event() {
        for line in [
            "",
            "7",
            "{}",
            r#"{"progress": 0.5}"#,
            r#"{"other": 1}"#,
            "\u{fffd}",
            r#"{"log": {}}"#,
            r#"{"artifact": {"id": "", "data": ""}}"#,
            r#"{"artifact": {"id": "a", "data": "not base64"}}"#,
            r#"{"artifact": {"id": "a\nb", "data": ""}}"#,
            r#"{"input_required": {"id": "q"}}"#,
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(parse(b"{\"partial\": \"\xff\"}"), None);
    }

    #[test]
    fn artifacts_log_lines_and_questions_matter_without_a_listener() {
        for line in [r#"{"artifact": {}}"#, r#"{"log": {}}"#, r#" { "input_required":{}}"#, r#"{"artifact""#] {
            assert!(is_collected(line.as_bytes()), "{line}");
        }
        for line in
            ["", "{", r#"{"progress": {"message": "artifact"}}"#, r#"{"partial": {"artifact": 1}}"#, r#"["artifact"]"#]
        {
            assert!(!is_collected(line.as_bytes()), "{line}");
        }
    }

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
