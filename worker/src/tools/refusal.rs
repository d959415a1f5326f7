//! The reasons why a server was not installed, as a word for programs and a sentence for people.

use openskill_proto::v1::{ErrorCode, SkillError};
use serde_json::{Value, json};

use super::folder::FolderError;
use super::index::IndexError;

/// The reasons why a server was not installed. Nothing of it is served.
#[derive(Debug, thiserror::Error)]
pub enum InstallRefusal {
    /// The index can't be used.
    #[error("{0}")]
    Index(#[from] IndexError),
    /// The index does not contain the server.
    #[error("the tool index has no server '{0}'")]
    Unknown(String),
    /// The entry contains no pins of its tools.
    #[error(
        "the index has no pins of its tools: an operator reviews and adds those that `openskill tools pins {0}` prints"
    )]
    NotPinned(String),
    /// The worker does not have the variables that the server needs.
    #[error("it needs environment variables that this worker does not have: {}", .0.join(", "))]
    NoVariables(Vec<String>),
    /// Another version of the server is installed.
    #[error(
        "version {installed} of it is installed, and nothing is overwritten: run `openskill tools remove {id}` first"
    )]
    OtherVersion {
        /// The server's id.
        id: String,
        /// The installed version.
        installed: String,
    },
    /// A name that the server needs is in use.
    #[error("the name '{name}' is taken by {by}")]
    NameTaken {
        /// The name that is in use.
        name: String,
        /// The kind of object that uses the name.
        by: &'static str,
    },
    /// A strict jail is unavailable.
    #[error("servers of the index run only in a strict jail: {0}")]
    NoJail(String),
    /// The entry does not produce a valid manifest.
    #[error("its entry in the tool index is invalid: {0}")]
    Invalid(String),
    /// The server's packages could not be installed.
    #[error("{0}")]
    Packages(String),
    /// The hash of a package's file differs from the index.
    #[error("a package differs from the one in the index: {0}")]
    WrongHash(String),
    /// The server does not start or lists no tools.
    #[error("it was started in its jail and can't be used: {0}")]
    NotUsable(String),
    /// A tool does not match its pins.
    #[error("its tool '{tool}' differs from the index: {} changed", fields.join(", "))]
    ChangedTool {
        /// The name that the server gives the tool.
        tool: String,
        /// The parts of the definition that differ.
        fields: Vec<&'static str>,
    },
    /// The server has a tool that the index does not list.
    #[error("it has a tool '{0}' that the index does not name")]
    ExtraTool(String),
    /// The server does not have a tool that the index lists.
    #[error("it has no tool '{0}', which the index names")]
    MissingTool(String),
    /// A definition contains characters that people can't see but models read.
    #[error("the definition of its tool '{0}' has invisible characters")]
    HiddenText(String),
    /// Another process was installing or removing for too long.
    #[error("another installation or removal is running: try again")]
    Busy,
    /// The folder of installed tools can't be used.
    #[error("{0}")]
    Folder(String),
    /// The worker is shutting down.
    #[error("the worker is shutting down")]
    Closing,
}

impl InstallRefusal {
    /// Returns the reason as one word.
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

    /// Returns the error of the call. It was refused and did not fail, so the skill's circuit breakers do not
    /// count it.
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

impl From<FolderError> for InstallRefusal {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Taken(name) => Self::NameTaken { name, by: "an entry in the folder of installed tools" },
            other => Self::Folder(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_tool_and_the_fields() {
        let refusal = InstallRefusal::ChangedTool { tool: "now".to_owned(), fields: vec!["description"] };
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
