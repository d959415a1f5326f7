//! Image references.

use std::fmt;

/// The longest reference.
const MAX_BYTES: usize = 512;

/// A reference to an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Image {
    /// `sha256:...`: the engine's id of a local image.
    Id(String),
    /// `name@sha256:...`: the digest of an image in a registry.
    Digest(String),
    /// `name:tag`: the image that currently has this name.
    Tag(String),
}

impl Image {
    /// The reference as the engine expects it.
    pub fn reference(&self) -> &str {
        match self {
            Self::Id(text) | Self::Digest(text) | Self::Tag(text) => text,
        }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reference())
    }
}

/// Reads a manifest's `entry`.
pub(super) fn read(text: &str) -> Result<Image, String> {
    let bad = || {
        format!(
            "'{}' is no image: name@sha256:<64 hex digits>, or sha256:<64 hex digits>",
            text.chars().take(100).filter(|it| !it.is_control()).collect::<String>()
        )
    };
    if text.len() > MAX_BYTES {
        return Err(bad());
    }
    if is_digest(text) {
        return Ok(Image::Id(text.to_owned()));
    }
    match text.split_once('@') {
        Some((name, digest)) if is_name(name) && is_digest(digest) => Ok(Image::Digest(text.to_owned())),
        None if is_name(text) => Ok(Image::Tag(text.to_owned())),
        _ => Err(bad()),
    }
}

fn is_digest(text: &str) -> bool {
    let hex = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    text.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64 && digits.bytes().all(hex))
}

/// `host:port/path/name:tag`, each part beginning with a letter or digit: never a flag, never a path of the host.
fn is_name(text: &str) -> bool {
    let known = |it: u8| it.is_ascii_alphanumeric() || b"_.-".contains(&it);
    let word = |it: &str| {
        it.starts_with(|first: char| first.is_ascii_alphanumeric()) && it.bytes().all(known) && !it.contains("..")
    };
    let mut parts = text.split('/');
    let last = parts.next_back().unwrap_or_default();
    let tagged = |it: &str| it.split_once(':').map_or_else(|| word(it), |(name, tag)| word(name) && word(tag));
    // Only the first part may have a port.
    tagged(last) && parts.enumerate().all(|(index, it)| if index == 0 { tagged(it) } else { word(it) })
}
