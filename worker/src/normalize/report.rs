//! Parses a normalized result that a skill printed. Parses the fields that decide between success and failure
//! strictly, and the others leniently. A malformed field must never turn a failure into a success.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::{Artifact, ErrorCode};
use openskill_sandbox::untrusted_json::parse;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The kinds of value that a skill can print.
pub(super) enum ParsedOutput<'a> {
    /// Any value except an object with a boolean `success`. The value is the data.
    Bare,
    /// An object that is a valid normalized result.
    Report(SkillReport<'a>),
    /// Looks like a normalized result, but is contradictory or malformed.
    Broken(&'static str),
}

const UNREADABLE: &str = "is an object whose keys can't be read";

/// A normalized result. Its `skill_id` and `trace_id` are ignored, because the worker knows them.
pub(super) struct SkillReport<'a> {
    /// The data if the skill succeeded, or its error.
    pub(super) outcome: Result<Option<&'a RawValue>, ReportedError<'a>>,
    pub(super) text: String,
    pub(super) version: String,
    pub(super) truncated: bool,
    /// Unparsed; see [`read_artifacts`].
    pub(super) artifacts: Option<&'a RawValue>,
}

pub(super) struct ReportedError<'a> {
    code: Value,
    pub(super) message: String,
    /// A JSON object, if the skill sets details.
    pub(super) details: Option<&'a RawValue>,
}

impl<'a> ParsedOutput<'a> {
    pub(super) fn read(value: &'a RawValue) -> Self {
        if !value.get().starts_with('{') {
            return Self::Bare;
        }
        match serde_json::from_str(value.get()) {
            Ok(fields) => Self::from_fields(fields),
            Err(_) => Self::Broken(UNREADABLE),
        }
    }

    /// Parses an answer like [`read`](Self::read), for a server that may not know this contract. Many servers have
    /// a `success` field with another meaning, so only an object that also contains `data`, or an `error` with a
    /// reason, is a report.
    pub(super) fn read_from_server(value: &'a RawValue) -> Self {
        if !value.get().starts_with('{') {
            return Self::Bare;
        }
        let Ok(fields) = serde_json::from_str::<ReportFields<'a>>(value.get()) else { return Self::Broken(UNREADABLE) };
        let says_why = fields.error.is_some_and(|error| error.get().starts_with(['{', '"']));
        if fields.data.is_some() || says_why { Self::from_fields(fields) } else { Self::Bare }
    }

    fn from_fields(fields: ReportFields<'a>) -> Self {
        let success = match fields.success.map(RawValue::get) {
            Some("true") => true,
            Some("false") => false,
            _ => return Self::Bare,
        };
        let outcome = match (success, fields.error) {
            (true, None) => Ok(fields.data),
            (true, Some(_)) => return Self::Broken("reports both a success and an error"),
            (false, None) => return Self::Broken("reports a failure without an error that says why"),
            (false, Some(error)) => Err(ReportedError::read(error)),
        };
        let meta: Value = fields.meta.and_then(|meta| parse(meta.get().as_bytes()).ok()).unwrap_or_default();
        Self::Report(SkillReport {
            outcome,
            text: fields.text.and_then(text).unwrap_or_default(),
            version: meta["version"].as_str().unwrap_or_default().to_owned(),
            truncated: meta["truncated"].as_bool().unwrap_or_default(),
            artifacts: fields.artifacts,
        })
    }
}

impl<'a> ReportedError<'a> {
    /// Parses an error object. A string becomes the message.
    fn read(error: &'a RawValue) -> Self {
        // An array has no fields, although serde would read it by position.
        let object = Some(error.get()).filter(|it| it.starts_with('{'));
        let fields = object.and_then(|it| serde_json::from_str::<ReportFields<'a>>(it).ok()).unwrap_or_default();
        let message = text(error).or_else(|| fields.message.and_then(text));
        Self {
            code: fields.code.and_then(|code| parse(code.get().as_bytes()).ok()).unwrap_or_default(),
            message: message.unwrap_or_else(|| "the skill failed and gave no readable message".to_owned()),
            details: fields.details.filter(|details| details.get().starts_with('{')),
        }
    }

    /// Returns the error code, and the skill's name for it if that is not an allowed code. Interprets a number as
    /// an exit code.
    pub(super) fn code(&self) -> (ErrorCode, Option<String>) {
        match &self.code {
            Value::String(name) => match ErrorCode::from_skill(name) {
                Some(code) => (code, None),
                None => (ErrorCode::ExecutionError, Some(name.clone())),
            },
            Value::Number(number) => match number.as_i64() {
                Some(1) => (ErrorCode::InvalidArgument, None),
                Some(2) => (ErrorCode::InvalidJson, None),
                Some(3) => (ErrorCode::Internal, None),
                _ => (ErrorCode::ExecutionError, Some(number.to_string())),
            },
            _ => (ErrorCode::ExecutionError, None),
        }
    }
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// The unparsed fields of a result or an error. The caller has rejected repeated keys.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ReportFields<'a> {
    #[serde(borrow)]
    success: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "read_even_null")]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
    #[serde(borrow)]
    artifacts: Option<&'a RawValue>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    details: Option<&'a RawValue>,
}

/// Reads a field whose `null` is a value.
fn read_even_null<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// An artifact in a result: `{"name": "...", "media_type": "...", "data": "<base64>"}`.
#[derive(Deserialize)]
struct ListedArtifact<'a> {
    #[serde(default)]
    name: String,
    #[serde(default)]
    media_type: String,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

/// Returns the artifacts with the skill's labels, and a warning if some can't be parsed.
pub(super) fn read_artifacts(listed: &RawValue) -> (Vec<Artifact>, Option<String>) {
    let Ok(entries) = parse::<Vec<&RawValue>>(listed.get().as_bytes()) else {
        return (Vec::new(), Some("the result's artifacts were dropped: they are not a list, or too many".to_owned()));
    };
    let artifacts: Vec<_> = entries.iter().filter_map(|it| artifact(it)).collect();
    let malformed = entries.len() - artifacts.len();
    let warning = || format!("{malformed} artifacts of the result were dropped: each needs `data` in base64");
    (artifacts, (malformed > 0).then(warning))
}

fn artifact(entry: &RawValue) -> Option<Artifact> {
    let ListedArtifact { name, media_type, data } = serde_json::from_str(entry.get()).ok()?;
    let content = STANDARD.decode(data.as_bytes()).ok()?;
    Some(Artifact { name, media_type, content: Some(Content::Data(content.into())), ..Artifact::default() })
}
