//! `toolset.yaml`: the settings that all manifests of a folder share.

use std::path::Path;

use serde::Deserialize;

use super::bounds::MAX_TEXT_BYTES;
use super::error::ManifestError;
use super::raw;

/// A group of skills in a folder of their own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolset {
    /// The toolset's name.
    pub toolset: String,
    /// The purpose of its skills.
    #[serde(default)]
    pub description: String,
    /// Why all its skills are unavailable, if they are.
    pub unavailable: Option<String>,
}

impl Toolset {
    /// Reads the text of a `toolset.yaml`.
    ///
    /// # Errors
    /// The fault, with its line.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ManifestError> {
        let fail = |line, reason| ManifestError { file: file.to_owned(), line, reason };
        let toolset: Self = raw::read(text).map_err(|(line, reason)| fail(line, reason))?;
        let texts = [Some(&toolset.toolset), Some(&toolset.description), toolset.unavailable.as_ref()];
        let unfit = |it: &String| it.len() > MAX_TEXT_BYTES || it.chars().any(char::is_control);
        if toolset.toolset.is_empty() || texts.into_iter().flatten().any(unfit) {
            let rule = format!("texts are at most {MAX_TEXT_BYTES} bytes without control characters");
            return Err(fail(1, format!("toolset must have a name; {rule}")));
        }
        Ok(toolset)
    }
}
