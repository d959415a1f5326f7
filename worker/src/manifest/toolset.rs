//! `toolset.yaml`: settings that all manifests in a folder share.

use std::path::Path;

use serde::Deserialize;

use super::bounds::MAX_TEXT_BYTES;
use super::error::ManifestError;
use super::raw;

/// A group of skills with a folder.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolset {
    /// The name that the skills share.
    pub toolset: String,
    /// The purpose of the toolset's skills.
    #[serde(default)]
    pub description: String,
    /// Why all its skills are switched off, if they are.
    pub unavailable: Option<String>,
}

impl Toolset {
    /// Parses the text of a `toolset.yaml`.
    ///
    /// # Errors
    /// Returns the error, with its line.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ManifestError> {
        let fail = |line, reason| ManifestError { file: file.to_owned(), line, reason };
        let toolset: Self = raw::read(text).map_err(|(line, reason)| fail(line, reason))?;
        let texts = [Some(&toolset.toolset), Some(&toolset.description), toolset.unavailable.as_ref()];
        let unfit = |it: &String| it.len() > MAX_TEXT_BYTES || it.chars().any(char::is_control);
        if toolset.toolset.is_empty() || texts.into_iter().flatten().any(unfit) {
            let rule =
                format!("each text must be at most {MAX_TEXT_BYTES} bytes and must not contain control characters");
            return Err(fail(1, format!("toolset must have a name; {rule}")));
        }
        Ok(toolset)
    }
}
