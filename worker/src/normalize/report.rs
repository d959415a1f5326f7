//! A normalized result as a skill prints it. Read leniently: what is not needed may be missing or wrong.

use openskill_proto::v1::ErrorCode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// An object with a boolean `success`. `skill_id` and `trace_id` in it are not looked at: the host knows them.
#[derive(Deserialize)]
pub(super) struct Report<'a> {
    pub(super) success: bool,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<ReportedError<'a>>,
    pub(super) text: Option<String>,
    meta: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct ReportedError<'a> {
    #[serde(default)]
    code: Value,
    #[serde(default)]
    pub(super) message: String,
    #[serde(borrow)]
    pub(super) details: Option<&'a RawValue>,
}

impl<'a> Report<'a> {
    /// None if the value is no report, and so is the data itself.
    pub(super) fn read(value: &'a RawValue) -> Option<Self> {
        let mut report: Self =
            value.get().starts_with('{').then(|| serde_json::from_str(value.get()).ok()).flatten()?;
        // Details are an object, by the contract.
        if let Some(error) = &mut report.error {
            error.details = error.details.filter(|details| details.get().starts_with('{'));
        }
        Some(report)
    }

    pub(super) fn truncated(&self) -> bool {
        self.meta("truncated").and_then(Value::as_bool).unwrap_or_default()
    }

    pub(super) fn version(&self) -> &str {
        self.meta("version").and_then(Value::as_str).unwrap_or_default()
    }

    fn meta(&self, key: &str) -> Option<&Value> {
        self.meta.as_ref()?.get(key)
    }
}

impl ReportedError<'_> {
    /// The code, and the name it was given by if that is none a skill may use. A number means an exit code.
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
