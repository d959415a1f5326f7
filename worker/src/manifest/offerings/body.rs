//! The content of a prompt or resource, with `{name}` as placeholders.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::{Component, Path, PathBuf};

/// A key, and the reason why its value is invalid.
pub(crate) type FieldFault = (&'static str, String);

/// The source of a prompt's or resource's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Inline text.
    Text(String),
    /// A file, relative to the manifest's folder and below it.
    File(PathBuf),
}

impl Body {
    /// Returns the file's path, unless the content is inline.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Text(_) => None,
            Self::File(file) => Some(file),
        }
    }

    pub(super) fn from_file(field: &'static str, file: &str) -> Result<Self, (&'static str, String)> {
        let path = Path::new(file);
        let is_beneath = path.components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir));
        if file.is_empty() || !is_beneath {
            return Err((field, format!("'{file}' must be a file in the manifest's folder or below it, without '..'")));
        }
        Ok(Self::File(path.to_owned()))
    }
}

/// Values for placeholders, by name.
pub(crate) type Values = BTreeMap<String, String>;

/// Replaces placeholders with values. A name in braces without a value stays unchanged. In JSON, values are
/// escaped for use inside a string. Returns `None` if the result would exceed `most` bytes, which is possible
/// because a text may repeat a placeholder many times.
pub(crate) fn fill(text: &str, values: &Values, is_json: bool, most: usize) -> Option<String> {
    if values.is_empty() {
        return Some(text.to_owned()).filter(|it| it.len() <= most);
    }
    let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after.split_once('}').and_then(|(name, after)| Some((values.get(name)?, after))) {
            Some((value, after)) => {
                let value = if is_json { escape(value) } else { Cow::Borrowed(value.as_str()) };
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

fn escape(value: &str) -> Cow<'_, str> {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or_default();
    Cow::Owned(inner.to_owned())
}

/// Returns whether this is a valid name of a placeholder or argument.
pub(super) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
}

/// Returns whether content with this media type is JSON.
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}

/// Returns a file's media type according to its extension, or an empty string if that is unknown.
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

/// Rejects repeated names.
pub(super) fn unique<'a>(field: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), FieldFault> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err((field, format!("'{name}' is declared twice"))),
        None => Ok(()),
    }
}
