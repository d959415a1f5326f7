//! Why a server is not installed: for the caller by a word that programs can test, for people by a sentence.

use openskill_proto::v1::{ErrorCode, SkillError};
use serde_json::{Value, json};

use super::folder::FolderError;
use super::index::IndexError;

/// Why a server is not installed. Nothing of it is served.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The index can't be used.
    #[error("{0}")]
    Index(#[from] IndexError),
    /// The index has no such server.
    #[error("the tool index has no server '{0}'")]
    Unknown(String),
    /// Its entry does not say which tools it has.
    #[error(
        "the index has no pins of its tools: an operator reviews and adds those that `openskill tools pins {0}` prints"
    )]
    NotPinned(String),
    /// It needs variables that the worker does not have.
    #[error("it needs environment variables that this worker does not have: {}", .0.join(", "))]
    NoVariables(Vec<String>),
    /// Another version of it is installed.
    #[error(
        "version {installed} of it is installed, and nothing is overwritten: run `openskill tools remove {id}` first"
    )]
    OtherVersion {
        /// The server.
        id: String,
        /// Its version.
        installed: String,
    },
    /// A name that it needs belongs to something else.
    #[error("the name '{name}' is taken by {by}")]
    NameTaken {
        /// The name.
        name: String,
        /// What has it.
        by: &'static str,
    },
    /// There is no strict jail.
    #[error("a server of the index runs in a strict jail only: {0}")]
    NoJail(String),
    /// Its entry makes no valid manifest.
    #[error("its entry in the tool index is invalid: {0}")]
    Invalid(String),
    /// Its packages are not installed.
    #[error("{0}")]
    Packages(String),
    /// A file of its packages is another one than the index says.
    #[error("a package is another one than the index says: {0}")]
    WrongHash(String),
    /// It does not start, or lists no tools.
    #[error("it was started in its jail and can't be used: {0}")]
    NotUsable(String),
    /// A tool differs from its pins.
    #[error("its tool '{tool}' is not what the index says: {} changed", fields.join(", "))]
    ChangedTool {
        /// The server's name of the tool.
        tool: String,
        /// The parts of its definition that differ.
        fields: Vec<&'static str>,
    },
    /// It has a tool that the index does not name.
    #[error("it has a tool '{0}' that the index does not name")]
    ExtraTool(String),
    /// A tool of the index is not there.
    #[error("it has no tool '{0}', which the index names")]
    MissingTool(String),
    /// A definition has characters that people don't see and models read.
    #[error("the definition of its tool '{0}' has invisible characters")]
    HiddenText(String),
    /// Somebody else installs or removes, for too long.
    #[error("another installation or removal is running: try again")]
    Busy,
    /// The folder of installed tools.
    #[error("{0}")]
    Folder(String),
    /// The worker ends.
    #[error("the worker is shutting down")]
    Closing,
}

impl Refusal {
    /// The reason in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Index(_) => "invalid_index",
            Self::Unknown(_) => "unknown_server",
            Self::NotPinned(_) => "not_pinned",
            Self::NoVariables(_) => "missing_variables",
            Self::OtherVersion { .. } => "other_version",
            Self::NameTaken { .. } => "name_taken",
            Self::NoJail(_) => "no_jail",
            Self::Invalid(_) => "invalid_entry",
            Self::Packages(_) => "packages",
            Self::WrongHash(_) => "wrong_hash",
            Self::NotUsable(_) => "not_usable",
            Self::ChangedTool { .. } => "changed_tool",
            Self::ExtraTool(_) => "extra_tool",
            Self::MissingTool(_) => "missing_tool",
            Self::HiddenText(_) => "hidden_text",
            Self::Busy => "busy",
            Self::Folder(_) => "folder",
            Self::Closing => "closing",
        }
    }

    /// The error of a call. It was refused, not failed: the skill's circuit breakers do not count it.
    pub(crate) fn error(&self, server: &str) -> SkillError {
        let code = match self {
            Self::Unknown(_) => ErrorCode::NotFound,
            Self::Busy => return SkillError::overloaded(self.to_string()),
            _ => ErrorCode::PermissionDenied,
        };
        let mut details = json!({"reason": self.word(), "server": server});
        match self {
            Self::ChangedTool { tool, fields } => {
                details["tool"] = json!(tool);
                details["fields"] = json!(fields);
            }
            Self::ExtraTool(tool) | Self::MissingTool(tool) | Self::HiddenText(tool) => details["tool"] = json!(tool),
            Self::NameTaken { name, .. } => details["name"] = json!(name),
            Self::NoVariables(names) => details["variables"] = json!(names),
            _ => {}
        }
        let message = format!("'{server}' was not installed: {self}");
        SkillError::new(code, message).with_details(Value::to_string(&details))
    }
}

impl From<FolderError> for Refusal {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Taken(name) => Self::NameTaken { name, by: "something in the folder of installed tools" },
            other => Self::Folder(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_tool_and_the_fields() {
        let refusal = Refusal::ChangedTool { tool: "now".to_owned(), fields: vec!["description"] };
        let error = refusal.error("clock");
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        assert_eq!(
            error.message,
            "'clock' was not installed: its tool 'now' is not what the index says: description changed"
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
