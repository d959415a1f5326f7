//! The settings of a `docker` skill: an image, its command, and the limits of its container.
//!
//! A call can't affect these settings: command lines are literal, and the manifest sets paths and mounts.

use std::fmt;

use openskill_sandbox::Limits;
use serde::Deserialize;

use super::checks::ManifestFault;

/// The maximum length of an image reference, in bytes.
const MAX_IMAGE_BYTES: usize = 512;

/// The maximum number of command-line elements, and their maximum total size in bytes.
const MAX_ELEMENTS: usize = 64;
const MAX_COMMAND_BYTES: usize = 16 * 1024;

/// The maximum number of writable folders, and the maximum size of each in MiB.
const MAX_WRITABLE: usize = 16;
const MAX_WRITABLE_MB: u64 = 4096;

/// The minimum memory that engines allow for a container, in MiB.
const MIN_MEMORY_MB: u64 = 6;

/// The mount point of the skill's allowed root.
pub(crate) const DATA_FOLDER: &str = "/data";

/// The settings of the containers of a skill.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Docker {
    /// The image from which containers are created: the manifest's `entry`.
    #[serde(skip)]
    pub image: Image,
    /// Overrides the image's entry point.
    pub entrypoint: Option<Vec<String>>,
    /// Overrides the image's command.
    pub command: Option<Vec<String>>,
    /// The network that the container may use.
    pub network: Network,
    /// The numeric user and group of the container's processes: `user:group`.
    pub user: String,
    /// Whether the user or the group may be root.
    allow_root: bool,
    /// The absolute paths of writable folders in memory. They are empty when a call starts.
    pub writable: Vec<String>,
    /// The size of each writable folder, in MiB.
    pub writable_mb: u64,
    /// Whether and how the skill's allowed root is mounted at [`DATA_FOLDER`].
    pub mount_root: MountRoot,
    /// The number of CPUs that the container may use.
    pub cpus: f64,
    /// The manifest's `pull`. The default depends on the image.
    #[serde(rename = "pull")]
    written_pull: Option<Pull>,
    /// Whether the image may have no digest.
    unpinned: bool,
    /// When the image is pulled.
    #[serde(skip)]
    pub pull: Pull,
}

impl Default for Docker {
    fn default() -> Self {
        Self {
            image: Image::Tag(String::new()),
            entrypoint: None,
            command: None,
            network: Network::None,
            user: "65534:65534".to_owned(),
            allow_root: false,
            writable: vec!["/tmp".to_owned()],
            writable_mb: 64,
            mount_root: MountRoot::None,
            cpus: 1.0,
            written_pull: None,
            unpinned: false,
            pull: Pull::Never,
        }
    }
}

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

/// The network that a container may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Only the container's loopback interface.
    #[default]
    None,
    /// The engine's bridge, which reaches everything that the host reaches.
    Bridge,
}

/// Whether and how the allowed root is mounted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MountRoot {
    /// Not mounted. No host files are visible.
    #[default]
    None,
    /// Mounted read-only.
    Ro,
    /// Mounted with write access.
    Rw,
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pull {
    /// Pull a missing image once, when the skill is loaded.
    Missing,
    /// Never pull. The engine must already have the image.
    Never,
}

impl Docker {
    /// Validates the settings of a container from the image that `entry` names.
    pub(super) fn resolve(mut self, entry: &str, limits: &Limits) -> Result<Self, ManifestFault> {
        self.image = read_image(entry).map_err(|reason| ManifestFault::new("entry", reason))?;
        self.check(limits).map_err(|reason| ManifestFault::new("docker", reason))?;
        let default = if matches!(self.image, Image::Digest(_)) { Pull::Missing } else { Pull::Never };
        self.pull = self.written_pull.unwrap_or(default);
        Ok(self)
    }

    fn check(&self, limits: &Limits) -> Result<(), String> {
        match (&self.image, self.unpinned, self.written_pull) {
            (Image::Tag(_), true, Some(Pull::Never)) | (Image::Digest(_), false, _) => {}
            (Image::Id(_), false, None | Some(Pull::Never)) => {}
            (Image::Tag(name), ..) => {
                return Err(format!(
                    "'{name}' is not a fixed image: write its digest, name@sha256:..., or its id, sha256:...; \
                     'pull: never' with 'unpinned: true' uses whatever local image has the name"
                ));
            }
            (Image::Id(_), false, Some(Pull::Missing)) => return Err("an image id cannot be pulled".to_owned()),
            (_, true, _) => return Err("unpinned applies only to images without a digest".to_owned()),
        }
        for (name, elements) in [("entrypoint", &self.entrypoint), ("command", &self.command)] {
            elements.as_deref().map_or(Ok(()), |it| check_command(name, it))?;
        }
        check_user(&self.user, self.allow_root)?;
        self.check_writable()?;
        if !(0.01..=512.0).contains(&self.cpus) {
            return Err("cpus must be 0.01 to 512".to_owned());
        }
        if limits.memory_mb < MIN_MEMORY_MB {
            return Err(format!("a container requires limits.memory_mb of at least {MIN_MEMORY_MB}"));
        }
        if limits.processes == 0 {
            return Err("a container requires limits.processes of at least 1".to_owned());
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<(), String> {
        if self.writable.len() > MAX_WRITABLE || !(1..=MAX_WRITABLE_MB).contains(&self.writable_mb) {
            return Err(format!(
                "writable: at most {MAX_WRITABLE} folders; writable_mb must be between 1 and {MAX_WRITABLE_MB}"
            ));
        }
        for (index, path) in self.writable.iter().enumerate() {
            let below = path.strip_prefix('/').unwrap_or_default();
            let parts = || below.split('/');
            let plain = |part: &str| {
                let known = |it: u8| it.is_ascii_alphanumeric() || b"_.-".contains(&it);
                !part.is_empty() && part != "." && part != ".." && part.bytes().all(known)
            };
            let of_the_system = parts().next().is_some_and(|it| ["proc", "sys", "dev"].contains(&it));
            let in_data = self.mount_root != MountRoot::None && parts().next() == Some("data");
            if path.len() > 256 || !parts().all(plain) || of_the_system || in_data {
                return Err(format!(
                    "writable: '{path}' must be an absolute path of plain names, outside the system's folders and {DATA_FOLDER}"
                ));
            }
            if self.writable[..index].contains(path) {
                return Err(format!("writable: '{path}' is listed twice"));
            }
        }
        Ok(())
    }
}

fn check_command(name: &str, elements: &[String]) -> Result<(), String> {
    let bytes: usize = elements.iter().map(String::len).sum();
    if elements.is_empty() || elements[0].is_empty() || elements.len() > MAX_ELEMENTS || bytes > MAX_COMMAND_BYTES {
        return Err(format!(
            "{name} must be a list of 1 to {MAX_ELEMENTS} strings of at most {MAX_COMMAND_BYTES} bytes in total"
        ));
    }
    if elements.iter().any(|it| it.contains('\0')) {
        return Err(format!("{name} cannot contain NUL"));
    }
    Ok(())
}

/// Accepts only numbers. The engine would look up names in the image, which may map a name to any user.
fn check_user(user: &str, allow_root: bool) -> Result<(), String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|it| it.is_ascii_digit()));
    let numbers = user.split_once(':').and_then(|(user, group)| Some((number(user)?, number(group)?)));
    match numbers {
        None => Err(format!("user: '{user}' must be a numeric UID:GID")),
        Some((0, _) | (_, 0)) if !allow_root => Err("user: root is refused unless allow_root is true".to_owned()),
        Some(_) => Ok(()),
    }
}

/// Parses the manifest's `entry`.
fn read_image(text: &str) -> Result<Image, String> {
    let bad = || {
        format!(
            "'{}' is not an image: name@sha256:<64 hex digits>, or sha256:<64 hex digits>",
            text.chars().take(100).filter(|it| !it.is_control()).collect::<String>()
        )
    };
    if text.len() > MAX_IMAGE_BYTES {
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

#[cfg(test)]
mod tests;
