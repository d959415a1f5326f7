//! The arguments of a `list_code_definitions` call.

use openskill_proto::v1::SkillError;
use serde::Deserialize;

use crate::call::{invalid_argument, read_arguments};

/// The maximum number of definitions in an answer.
const MOST_DEFINITIONS: usize = 10_000;

/// The arguments as JSON. The manifest uses the same names, defaults and limits.
#[derive(Debug, Deserialize)]
pub(super) struct DefinitionArguments {
    #[serde(default)]
    file_path: String,
    #[serde(default)]
    directory_path: String,
    #[serde(default)]
    pub(super) glob: String,
    #[serde(default = "default_definitions")]
    pub(super) max_definitions: usize,
}

fn default_definitions() -> usize {
    1000
}

impl DefinitionArguments {
    /// # Errors
    /// The arguments are invalid.
    pub(super) fn read(input: &[u8]) -> Result<Self, SkillError> {
        let read: Self = read_arguments(input)?;
        if !(1..=MOST_DEFINITIONS).contains(&read.max_definitions) {
            return Err(invalid_argument(format!("max_definitions: must be 1 to {MOST_DEFINITIONS}")));
        }
        Ok(read)
    }

    /// Returns the path to list, and the name of the argument that contains it. An empty path means the whole
    /// allowed root.
    ///
    /// # Errors
    /// Both paths are given.
    pub(super) fn target(&self) -> Result<(&'static str, &str), SkillError> {
        match (self.file_path.as_str(), self.directory_path.as_str()) {
            (file, "") if !file.is_empty() => Ok(("file_path", file)),
            ("", folder) => Ok(("directory_path", folder)),
            _ => Err(invalid_argument("give file_path or directory_path, not both")),
        }
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::ErrorCode;

    use super::*;

    #[test]
    fn one_path_is_meant_or_the_whole_root() {
        let target = |text: &str| {
            let arguments = DefinitionArguments::read(text.as_bytes()).unwrap();
            arguments.target().map(|(field, path)| (field, path.to_owned())).map_err(|it| it.code())
        };
        assert_eq!(target(r#"{"file_path": "a.py"}"#), Ok(("file_path", "a.py".to_owned())));
        assert_eq!(target(r#"{"directory_path": "src"}"#), Ok(("directory_path", "src".to_owned())));
        assert_eq!(target("{}"), Ok(("directory_path", String::new())));
        assert_eq!(target(r#"{"directory_path": "src", "file_path": "a"}"#), Err(ErrorCode::InvalidArgument));
        assert!(DefinitionArguments::read(br#"{"max_definitions": 0}"#).is_err());
    }
}
