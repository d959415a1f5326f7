//! The reasons why a server was not installed, as a word for programs and a sentence for people.

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Serialize;
use serde_json::{Value, json};

use super::folder::FolderError;
use super::index::IndexError;

/// The words for refusals that are not `PERMISSION_DENIED`.
const UNKNOWN_SERVER: &str = "unknown_server";
const BUSY: &str = "busy";

/// Why a server was not installed. Nothing of it is served.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct InstallRefusal {
    word: &'static str,
    reason: String,
    /// The names that the reason contains, for programs.
    names: Vec<(&'static str, Value)>,
}

impl InstallRefusal {
    pub(crate) fn new(word: &'static str, reason: impl Into<String>) -> Self {
        Self { word, reason: reason.into(), names: Vec::new() }
    }

    /// The index does not contain the server.
    pub(super) fn unknown_server(id: &str) -> Self {
        Self::new(UNKNOWN_SERVER, format!("the tool index has no server '{id}'"))
    }

    /// A name that the server needs is in use, by this kind of object.
    pub(super) fn name_taken(name: &str, by: &str) -> Self {
        Self::new("name_taken", format!("the name '{name}' is taken by {by}")).with("name", name)
    }

    /// Another process was installing or removing for too long.
    pub(super) fn busy() -> Self {
        Self::new(BUSY, "another installation or removal is running: try again")
    }

    /// Adds a name that the reason contains.
    pub(super) fn with(mut self, field: &'static str, name: impl Serialize) -> Self {
        self.names.push((field, json!(name)));
        self
    }

    /// Returns the reason as one word.
    pub(super) fn word(&self) -> &'static str {
        self.word
    }

    /// Returns the error of the call. It was refused and did not fail, so the skill's circuit breakers do not
    /// count it.
    pub(crate) fn error(self, server: &str) -> SkillError {
        let code = match self.word {
            UNKNOWN_SERVER => ErrorCode::NotFound,
            BUSY => return SkillError::overloaded(self.reason),
            _ => ErrorCode::PermissionDenied,
        };
        let mut details = json!({"reason": self.word, "server": server});
        for (field, name) in self.names {
            details[field] = name;
        }
        let message = format!("'{server}' was not installed: {}", self.reason);
        SkillError::new(code, message).with_details(details.to_string())
    }
}

impl From<IndexError> for InstallRefusal {
    fn from(error: IndexError) -> Self {
        Self::new("invalid_index", error.to_string())
    }
}

impl From<FolderError> for InstallRefusal {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Taken(name) => Self::name_taken(&name, "an entry in the folder of installed tools"),
            other => Self::new("folder", other.to_string()),
        }
    }
}

impl From<std::io::Error> for InstallRefusal {
    fn from(error: std::io::Error) -> Self {
        FolderError::System(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_tool_and_the_fields() {
        let reason = "its tool 'now' differs from the index: description changed";
        let refusal = InstallRefusal::new("changed_tool", reason).with("tool", "now").with("fields", ["description"]);
        let error = refusal.error("clock");
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        assert_eq!(
            error.message,
            "'clock' was not installed: its tool 'now' differs from the index: description changed"
        );
        let Some(openskill_proto::v1::skill_error::More::DetailsJson(details)) = error.more else {
            panic!("no details")
        };
        let details: Value = serde_json::from_str(&details).unwrap();
        assert_eq!(
            details,
            json!({"reason": "changed_tool", "server": "clock", "tool": "now", "fields": ["description"]})
        );
    }
}
