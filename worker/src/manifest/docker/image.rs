//! Parses image references.

use std::fmt;

/// The maximum length of a reference, in bytes.
const MAX_BYTES: usize = 512;

/// A reference to an image, by id, digest or tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Image {
    /// `sha256:...`: a local image, by the engine's id.
    Id(String),
    /// `name@sha256:...`: a registry's image, by digest.
    Digest(String),
    /// `name:tag`: the image that has this tag at present.
    Tag(String),
}

impl Image {
    /// Formats the reference as the engine expects it.
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

/// Parses the manifest's `entry`.
pub(super) fn read(text: &str) -> Result<Image, String> {
    let bad = || {
        format!(
            "'{}' is not an image: name@sha256:<64 hex digits>, or sha256:<64 hex digits>",
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

/// Matches `host:port/path/name:tag`. Each part begins with a letter or digit, so it is never an option or a host
/// path.
fn is_name(text: &str) -> bool {
    let known = |it: u8| it.is_ascii_alphanumeric() || b"_.-".contains(&it);
    let word = |it: &str| {
        it.starts_with(|first: char| first.is_ascii_alphanumeric()) && it.bytes().all(known) && !it.contains("..")
    };
    let mut parts = text.split('/');
    let last = parts.next_back().unwrap_or_default();
    let tagged = |it: &str| it.split_once(':').map_or_else(|| word(it), |(name, tag)| word(name) && word(tag));
    // Only the first and last parts may contain a colon: a port and a tag.
    tagged(last) && parts.enumerate().all(|(index, it)| if index == 0 { tagged(it) } else { word(it) })
}
