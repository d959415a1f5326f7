//! Why an action was not done, and what a caller is told.

use std::time::Duration;

use openskill_cdp::client::CallError;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use serde_json::{Value, json};

use super::wording::line;

/// Why.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Problem {
    /// The browser refuses, is late or gone.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The document that it was about is not there any more.
    #[error("the page went away meanwhile: another one was loaded")]
    Gone,
    /// The script in the page says so.
    #[error("{message}")]
    Page {
        code: String,
        message: String,
        /// What it says besides.
        more: Value,
    },
    /// The script in the page failed.
    #[error("the page could not be read: {0}")]
    Script(String),
    /// An argument names nothing, or is none.
    #[error("{0}")]
    Argument(String),
    /// No tab is open.
    #[error("no tab is open: open one with browser_open_tab or browser_navigate")]
    NoTab,
    /// The page's process has ended.
    #[error("the page has crashed: load it again with browser_navigate")]
    Crashed,
    /// The page does not answer, and what it ran was stopped.
    #[error(
        "the page did not answer within {} s: a script of it runs on and on, and was stopped; try again, or leave the page \
         with browser_navigate",
        .0.as_secs()
    )]
    Stuck(Duration),
    /// A page was not loaded.
    #[error("{0}")]
    NotLoaded(String),
    /// The page that is to be left loads others itself, in place of the one that was asked for.
    #[error("the page that was there loaded another one instead: open the address in a new tab with browser_open_tab")]
    Overtaken,
    /// The rules of egress do not allow it.
    #[error("{0}")]
    Refused(String),
    /// The search engine asks for a person.
    #[error("{0}")]
    Captcha(String),
    /// The browser has too much of something.
    #[error("{0}")]
    Exhausted(String),
    /// Something that is to be written can't be.
    #[error("{0}")]
    Files(String),
    /// The call has no time left.
    #[error("the action took longer than the call may: {0}")]
    Late(&'static str),
    /// Somebody closed the session.
    #[error("the browser session was closed meanwhile")]
    Closed,
}

impl Problem {
    /// What the script in the page answers with.
    pub(super) fn of_page(error: &Value) -> Self {
        let text = |field: &str| error.get(field).and_then(Value::as_str).unwrap_or_default();
        let mut more = error.clone();
        if let Some(more) = more.as_object_mut() {
            more.shift_remove("code");
            more.shift_remove("message");
        }
        Self::Page { code: text("code").to_owned(), message: line(text("message"), 1000), more }
    }

    /// Whether it says that something is different from what the caller has seen.
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
            Self::Call(CallError::Closed | CallError::Full | CallError::Unreadable) => ErrorCode::ExecutionError,
            Self::Files(_) => ErrorCode::ForbiddenPath,
            Self::Gone
            | Self::Script(_)
            | Self::Crashed
            | Self::Overtaken
            | Self::Captcha(_)
            | Self::Exhausted(_)
            | Self::Closed
            | Self::Call(CallError::Refused(_)) => ErrorCode::ExecutionError,
        }
    }
}

impl From<Problem> for SkillError {
    fn from(problem: Problem) -> Self {
        let message = match &problem {
            Problem::Call(CallError::Closed) => {
                "the browser has ended, and with it its tabs: the next call starts a new one".to_owned()
            }
            other => line(&other.to_string(), 2000),
        };
        let error = Self::new(problem.code(), message);
        // A page that is not as its caller thinks is nothing that the tool could have done better.
        let error = match problem {
            Problem::Script(_) | Problem::Exhausted(_) | Problem::Call(_) => error,
            _ => error.with_blame(Blame::Caller),
        };
        match problem {
            Problem::Page { code, more, .. } => error.with_details(json!({"reason": code, "page": more}).to_string()),
            Problem::Captcha(_) => error.with_details(json!({"reason": "captcha"}).to_string()),
            Problem::Crashed => error.with_details(json!({"reason": "crashed"}).to_string()),
            Problem::Stuck(_) => error.with_details(json!({"reason": "stuck"}).to_string()),
            _ => error,
        }
    }
}
