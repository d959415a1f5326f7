//! Parses a normalized result that a skill printed. Parses the fields that decide between success and failure
//! strictly, and the others leniently. A malformed field must never turn a failure into a success.

use std::borrow::Cow;
use std::fmt;

use openskill_proto::v1::ErrorCode;
use openskill_sandbox::untrusted_json::parse;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
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
    /// Unparsed; see [`super::artifacts`].
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
        let success = match fields.success[..] {
            [] => return Self::Bare,
            [one] => match one.get() {
                "true" => true,
                "false" => false,
                _ => return Self::Bare,
            },
            _ => return Self::Broken("says 'success' more than once"),
        };
        let error = fields.error.filter(|error| error.get() != "null");
        let outcome = match (success, error) {
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
            artifacts: fields.artifacts.filter(|it| it.get() != "null"),
        })
    }
}

impl<'a> ReportedError<'a> {
    /// Parses an error object. A string becomes the message.
    fn read(error: &'a RawValue) -> Self {
        let fields = serde_json::from_str::<ReportFields<'a>>(error.get()).unwrap_or_default();
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

/// The unparsed fields of a result or an error. The last one of repeated fields counts.
#[derive(Default)]
struct ReportFields<'a> {
    success: Vec<&'a RawValue>,
    data: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    meta: Option<&'a RawValue>,
    artifacts: Option<&'a RawValue>,
    code: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    details: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for ReportFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = ReportFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ReportFields<'de>, M::Error> {
                let mut fields = ReportFields::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    let value = map.next_value()?;
                    match key.as_ref() {
                        "success" => fields.success.push(value),
                        "data" => fields.data = Some(value),
                        "error" => fields.error = Some(value),
                        "text" => fields.text = Some(value),
                        "meta" => fields.meta = Some(value),
                        "artifacts" => fields.artifacts = Some(value),
                        "code" => fields.code = Some(value),
                        "message" => fields.message = Some(value),
                        "details" => fields.details = Some(value),
                        _ => {}
                    }
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Collect)
    }
}
