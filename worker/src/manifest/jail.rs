//! The jail of a skill's process: what it may reach.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::Fault;

/// What a skill's process may reach. For runners that start processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jail {
    /// How much of it there must be.
    pub level: Level,
    /// Which network it may use.
    pub network: Network,
    /// Further files it may read and run: absolute paths.
    pub readable: Vec<PathBuf>,
}

/// How much of the jail a skill must have. Where the worker cannot give it, the skill is unavailable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No jail: for a program that is trusted like the worker.
    Off,
    /// The process runs with what this machine gives.
    #[default]
    Auto,
    /// Its files, system calls, network and signals are bounded.
    #[serde(alias = "required")]
    Standard,
    /// The same, by namespaces of its own: other processes, mounts and users do not exist for it.
    Strict,
}

impl Level {
    /// As a manifest has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Standard => "standard",
            Self::Strict => "strict",
        }
    }
}

/// A text that is no level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not auto, standard or strict")]
pub struct NoLevel;

impl std::str::FromStr for Level {
    type Err = NoLevel;

    /// The least level of a worker: `off` is no demand, so it is none.
    fn from_str(text: &str) -> Result<Self, NoLevel> {
        [Self::Auto, Self::Standard, Self::Strict].into_iter().find(|it| it.as_str() == text).ok_or(NoLevel)
    }
}

/// Which network a process may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// No network at all.
    #[default]
    None,
    /// TCP connections to these ports, and to port 53 for name resolution.
    Connect(Vec<u16>),
    /// The network of the worker.
    Full,
}

/// How many paths a manifest may name.
const MAX_READABLE: usize = 32;

/// Checks the settings.
pub(super) fn resolve(level: Option<Level>, network: Option<Value>, readable: Vec<PathBuf>) -> Result<Jail, Fault> {
    let network = network.map_or(Ok(Network::None), |written| read_network(&written))?;
    if readable.len() > MAX_READABLE || readable.iter().any(|path| !path.is_absolute() || path.parent().is_none()) {
        return Err(("readable", format!("must be at most {MAX_READABLE} absolute paths, '/' not among them")).into());
    }
    Ok(Jail { level: level.unwrap_or_default(), network, readable })
}

/// `none`, `full`, or a list of ports.
fn read_network(written: &Value) -> Result<Network, Fault> {
    let ports = |list: &Vec<Value>| {
        list.iter()
            .map(|it| it.as_u64().and_then(|it| u16::try_from(it).ok()).filter(|it| *it > 0))
            .collect::<Option<Vec<u16>>>()
    };
    let read = match written {
        Value::String(word) if word == "none" => Some(Network::None),
        Value::String(word) if word == "full" => Some(Network::Full),
        Value::Array(list) if (1..=64).contains(&list.len()) => ports(list).map(Network::Connect),
        _ => None,
    };
    read.ok_or_else(|| ("network", "must be none, full, or a list of 1 to 64 ports such as [443]".to_owned()).into())
}
