//! The settings of a `docker` skill: an image, its command, and what its container may use.
//!
//! No part of a call enters these settings: command lines are literal, paths and mounts come from the manifest.

use serde::Deserialize;

use super::error::Fault;
use super::limits::Limits;

mod image;

pub(crate) use image::Image;

/// How many elements a command line may have, and how many bytes together.
const MAX_ELEMENTS: usize = 64;
const MAX_COMMAND_BYTES: usize = 16 * 1024;

/// How many writable folders there may be, and the largest size of one, in MiB.
const MAX_WRITABLE: usize = 16;
const MAX_WRITABLE_MB: u64 = 4096;

/// The least memory an engine gives a container, in MiB.
const MIN_MEMORY_MB: u64 = 6;

/// Where the skill's allowed root is mounted.
pub(crate) const DATA_FOLDER: &str = "/data";

/// As written.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {
    entrypoint: Option<Vec<String>>,
    command: Option<Vec<String>>,
    network: Network,
    user: String,
    allow_root: bool,
    writable: Vec<String>,
    writable_mb: u64,
    mount_root: MountRoot,
    cpus: f64,
    pull: Option<Pull>,
    unpinned: bool,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            entrypoint: None,
            command: None,
            network: Network::None,
            user: "65534:65534".to_owned(),
            allow_root: false,
            writable: vec!["/tmp".to_owned()],
            writable_mb: 64,
            mount_root: MountRoot::None,
            cpus: 1.0,
            pull: None,
            unpinned: false,
        }
    }
}

/// A container for each call.
#[derive(Debug, Clone, PartialEq)]
pub struct Docker {
    /// The image.
    pub image: Image,
    /// Overrides the image's entry point.
    pub entrypoint: Option<Vec<String>>,
    /// Overrides the image's command.
    pub command: Option<Vec<String>>,
    /// The container's network.
    pub network: Network,
    /// The user it runs as: two numbers, `user:group`.
    pub user: String,
    /// Writable folders in memory: absolute. Empty for each call.
    pub writable: Vec<String>,
    /// The size of each, in MiB.
    pub writable_mb: u64,
    /// Whether the skill's allowed root is mounted at [`DATA_FOLDER`].
    pub mount_root: MountRoot,
    /// How many CPUs it may use.
    pub cpus: f64,
    /// Whether a missing image is pulled.
    pub pull: Pull,
}

/// The network of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Only its own loopback.
    #[default]
    None,
    /// The engine's bridge: everything the host reaches.
    Bridge,
}

/// Whether the allowed root is mounted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MountRoot {
    /// No file of the host is visible.
    #[default]
    None,
    /// Its files are readable.
    Ro,
    /// Its files are readable and writable.
    Rw,
}

/// Whether a missing image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pull {
    /// Once, when the skill is loaded.
    Missing,
    /// Never: the image must be present.
    Never,
}

/// Checks the settings.
pub(super) fn resolve(raw: Raw, entry: &str, limits: &Limits) -> Result<Docker, Fault> {
    let image = image::read(entry).map_err(|reason| Fault::from(("entry", reason)))?;
    check(&raw, &image, limits).map_err(|reason| Fault::from(("docker", reason)))?;
    let default = if matches!(image, Image::Digest(_)) { Pull::Missing } else { Pull::Never };
    Ok(Docker {
        image,
        entrypoint: raw.entrypoint,
        command: raw.command,
        network: raw.network,
        user: raw.user,
        writable: raw.writable,
        writable_mb: raw.writable_mb,
        mount_root: raw.mount_root,
        cpus: raw.cpus,
        pull: raw.pull.unwrap_or(default),
    })
}

fn check(raw: &Raw, image: &Image, limits: &Limits) -> Result<(), String> {
    match (image, raw.unpinned, raw.pull) {
        (Image::Tag(_), true, Some(Pull::Never)) | (Image::Digest(_), false, _) => {}
        (Image::Id(_), false, None | Some(Pull::Never)) => {}
        (Image::Tag(name), ..) => {
            return Err(format!(
                "'{name}' names no fixed image: write its digest, name@sha256:..., or its id, sha256:...; \
                 'pull: never' with 'unpinned: true' takes whatever has the name here"
            ));
        }
        (Image::Id(_), false, Some(Pull::Missing)) => return Err("an image id cannot be pulled".to_owned()),
        (_, true, _) => return Err("unpinned is for images without a digest".to_owned()),
    }
    for (name, elements) in [("entrypoint", &raw.entrypoint), ("command", &raw.command)] {
        elements.as_deref().map_or(Ok(()), |it| check_command(name, it))?;
    }
    check_user(&raw.user, raw.allow_root)?;
    check_writable(raw)?;
    if !(0.01..=512.0).contains(&raw.cpus) {
        return Err("cpus must be 0.01 to 512".to_owned());
    }
    if limits.memory_mb < MIN_MEMORY_MB {
        return Err(format!("a container needs limits.memory_mb of at least {MIN_MEMORY_MB}"));
    }
    if limits.processes == 0 {
        return Err("a container needs limits.processes of at least 1".to_owned());
    }
    Ok(())
}

fn check_command(name: &str, elements: &[String]) -> Result<(), String> {
    let bytes: usize = elements.iter().map(String::len).sum();
    if elements.is_empty() || elements[0].is_empty() || elements.len() > MAX_ELEMENTS || bytes > MAX_COMMAND_BYTES {
        return Err(format!("{name} must be a list of 1 to {MAX_ELEMENTS} texts, {MAX_COMMAND_BYTES} bytes together"));
    }
    if elements.iter().any(|it| it.contains('\0')) {
        return Err(format!("{name} cannot contain NUL"));
    }
    Ok(())
}

/// Only numbers: a name would be looked up in the image, which may map it to any user.
fn check_user(user: &str, allow_root: bool) -> Result<(), String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|it| it.is_ascii_digit()));
    let numbers = user.split_once(':').and_then(|(user, group)| Some((number(user)?, number(group)?)));
    match numbers {
        None => Err(format!("user: '{user}' is not 'UID:GID' in numbers")),
        Some((0, _) | (_, 0)) if !allow_root => Err("user: root is refused unless allow_root is true".to_owned()),
        Some(_) => Ok(()),
    }
}

fn check_writable(raw: &Raw) -> Result<(), String> {
    if raw.writable.len() > MAX_WRITABLE || !(1..=MAX_WRITABLE_MB).contains(&raw.writable_mb) {
        return Err(format!("at most {MAX_WRITABLE} writable folders, writable_mb 1 to {MAX_WRITABLE_MB}"));
    }
    for (index, path) in raw.writable.iter().enumerate() {
        let below = path.strip_prefix('/').unwrap_or_default();
        let parts = || below.split('/');
        let plain = |part: &str| {
            let known = |it: u8| it.is_ascii_alphanumeric() || b"_.-".contains(&it);
            !part.is_empty() && part != "." && part != ".." && part.bytes().all(known)
        };
        let of_the_system = parts().next().is_some_and(|it| ["proc", "sys", "dev"].contains(&it));
        let in_data = raw.mount_root != MountRoot::None && parts().next() == Some("data");
        if path.len() > 256 || !parts().all(plain) || of_the_system || in_data {
            return Err(format!(
                "writable: '{path}' must be an absolute path of plain names, outside the system's folders and {DATA_FOLDER}"
            ));
        }
        if raw.writable[..index].contains(path) {
            return Err(format!("writable: '{path}' is listed twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
