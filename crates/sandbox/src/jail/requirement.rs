//! The requirements on a jail, by an operator or a skill.

use serde::{Deserialize, Serialize};

/// A level of isolation. A skill is unavailable if the worker can't provide the required level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No jail. For programs that are trusted as much as the worker.
    Off,
    /// The isolation that this machine provides.
    #[default]
    Auto,
    /// Restricted access to files, system calls, the network and signals.
    #[serde(alias = "required")]
    Standard,
    /// Like `standard`, in its own namespaces: the process does not see other processes, mounts and users.
    Strict,
}

impl Level {
    /// Returns the name in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Standard => "standard",
            Self::Strict => "strict",
        }
    }
}

/// The text is not a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not auto, standard or strict")]
pub struct NoLevel;

impl std::str::FromStr for Level {
    type Err = NoLevel;

    /// Parses a worker's minimum level. Rejects `off`, which would require nothing.
    fn from_str(text: &str) -> Result<Self, NoLevel> {
        [Self::Auto, Self::Standard, Self::Strict].into_iter().find(|it| it.as_str() == text).ok_or(NoLevel)
    }
}

/// The network that a process may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// No network access.
    #[default]
    None,
    /// TCP connections to these ports, and to port 53 for name resolution.
    Connect(Vec<u16>),
    /// The network of the worker, without restrictions.
    Full,
}
