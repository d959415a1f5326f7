//! Why an action failed, and the conversion to an error for the caller.

use std::time::Duration;

use crate::browser::cdp::client::CallError;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use serde_json::{Value, json};

use super::wording::line;

/// Why an action failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Problem {
    /// The browser rejects the call, does not answer in time, or is gone.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The document no longer exists.
    #[error("the page was replaced in the meantime by another page")]
    Gone,
    /// The script in the page reported an error.
    #[error("{message}")]
    Page {
        code: String,
        message: String,
        /// The other fields of the report.
        more: Value,
    },
    /// The script in the page threw an exception.
    #[error("the page could not be read: {0}")]
    Script(String),
    /// An argument is invalid, or refers to something that does not exist.
    #[error("{0}")]
    Argument(String),
    /// No tab is open.
    #[error("no tab is open: open one with browser_open_tab or browser_navigate")]
    NoTab,
    /// The page's process has ended.
    #[error("the page has crashed: load it again with browser_navigate")]
    Crashed,
    /// The page did not answer, and its scripts were stopped.
    #[error(
        "the page did not answer within {} s: one of its scripts did not end and was stopped; try again, or leave the page \
         with browser_navigate",
        .0.as_secs()
    )]
    Stuck(Duration),
    /// The page was not loaded.
    #[error("{0}")]
    NotLoaded(String),
    /// The current page keeps loading others in place of the requested one.
    #[error("the open page loaded another page instead: open the address in a new tab with browser_open_tab")]
    Overtaken,
    /// The egress rules do not allow the connection.
    #[error("{0}")]
    Refused(String),
    /// The search engine demands a captcha.
    #[error("{0}")]
    Captcha(String),
    /// The browser exceeded a limit.
    #[error("{0}")]
    Exhausted(String),
    /// A file can't be written.
    #[error("{0}")]
    Files(String),
    /// The call has no time left.
    #[error("the action took longer than the call allows: {0}")]
    Late(&'static str),
    /// The session was closed.
    #[error("the browser session was closed in the meantime")]
    Closed,
}

impl Problem {
    /// Parses an error reported by the script in the page.
    pub(super) fn from_page(error: &Value) -> Self {
        let text = |field: &str| error.get(field).and_then(Value::as_str).unwrap_or_default();
        let mut more = error.clone();
        if let Some(more) = more.as_object_mut() {
            more.shift_remove("code");
            more.shift_remove("message");
        }
        Self::Page { code: text("code").to_owned(), message: line(text("message"), 1000), more }
    }

    /// Returns whether the script in the page reported the code `wanted`.
    pub(super) fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Page { code, .. } if code == wanted)
    }

    fn code(&self) -> ErrorCode {
        match self {
            Self::Argument(_) => ErrorCode::InvalidArgument,
            Self::Page { code, .. } => match code.as_str() {
                "stale" | "unknown_number" | "no_match" | "no_option" => ErrorCode::NotFound,
                "bad_selector" | "bad_value" | "not_dropdown" | "not_editable" | "file" => ErrorCode::InvalidArgument,
                _ => ErrorCode::ExecutionError,
            },
            Self::NoTab => ErrorCode::NotFound,
            Self::NotLoaded(_) => ErrorCode::NetworkError,
            Self::Refused(_) => ErrorCode::PermissionDenied,
            Self::Stuck(_) | Self::Late(_) | Self::Call(CallError::Late(_)) => ErrorCode::Timeout,
            Self::Files(_) => ErrorCode::ForbiddenPath,
            _ => ErrorCode::ExecutionError,
        }
    }
}

impl From<Problem> for SkillError {
    fn from(problem: Problem) -> Self {
        let message = match &problem {
            Problem::Call(CallError::Closed) => {
                "the browser has ended, and its tabs are closed: the next call starts a new one".to_owned()
            }
            other => line(&other.to_string(), 2000),
        };
        let error = Self::new(problem.code(), message);
        // If the page or the argument caused the failure, the caller is to blame, not the tool.
        let error = match problem {
            Problem::Script(_) | Problem::Exhausted(_) | Problem::Call(_) => error,
            _ => error.with_blame(Blame::Caller),
        };
        let details = match problem {
            Problem::Page { code, more, .. } => json!({"reason": code, "page": more}),
            Problem::Captcha(_) => json!({"reason": "captcha"}),
            Problem::Crashed => json!({"reason": "crashed"}),
            Problem::Stuck(_) => json!({"reason": "stuck"}),
            _ => return error,
        };
        error.with_details(details.to_string())
    }
}
