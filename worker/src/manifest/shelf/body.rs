//! The content of a prompt or a resource, and the places in it for arguments: `{name}`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::{Component, Path, PathBuf};

/// Why something can't be used: the key, and the reason.
pub(crate) type Fault = (&'static str, String);

/// Where a content is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// In the manifest.
    Text(String),
    /// In this file, relative to the manifest's folder and beneath it.
    File(PathBuf),
}

impl Body {
    /// The file, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Text(_) => None,
            Self::File(file) => Some(file),
        }
    }

    pub(super) fn of_file(field: &'static str, file: &str) -> Result<Self, (&'static str, String)> {
        let path = Path::new(file);
        let is_beneath = path.components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir));
        if file.is_empty() || !is_beneath {
            return Err((field, format!("'{file}' must be a file beside the manifest or below it, without '..'")));
        }
        Ok(Self::File(path.to_owned()))
    }
}

/// Values for the places of a text, by name.
pub(crate) type Values = BTreeMap<String, String>;

/// A text with values in its places, of at most `most` bytes: a text may have many places for one value. What is in braces and
/// has no value stays as it is. In JSON, a value is escaped as a part of a string. None: the text would be longer.
pub(crate) fn fill(text: &str, values: &Values, is_json: bool, most: usize) -> Option<String> {
    if values.is_empty() {
        return Some(text.to_owned()).filter(|it| it.len() <= most);
    }
    let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after.split_once('}').and_then(|(name, after)| Some((values.get(name)?, after))) {
            Some((value, after)) => {
                let value = if is_json { escaped(value) } else { Cow::Borrowed(value.as_str()) };
                if filled.len() + value.len() > most {
                    return None;
                }
                filled.push_str(&value);
                rest = after;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    Some(filled).filter(|it| it.len() <= most)
}

fn escaped(value: &str) -> Cow<'_, str> {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or_default();
    Cow::Owned(inner.to_owned())
}

/// Whether a place or an argument may have this name.
pub(super) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
}

/// Whether content of this media type is JSON.
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}

/// The media type of a file, by the end of its name. Empty if it is unknown.
pub(super) fn media_type_of(file: &Path) -> &'static str {
    let extension = file.extension().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "html" | "htm" => "text/html",
        "csv" => "text/csv",
        "css" => "text/css",
        "py" => "text/x-python",
        "yaml" | "yml" => "application/yaml",
        "json" => "application/json",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "wav" => "audio/wav",
        "mp3" => "audio/mpeg",
        "ogg" => "audio/ogg",
        _ => "",
    }
}

/// Checks that no name is there twice.
pub(super) fn unique<'a>(field: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), Fault> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err((field, format!("'{name}' is declared twice"))),
        None => Ok(()),
    }
}
