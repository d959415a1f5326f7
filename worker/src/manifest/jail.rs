//! What a skill's process may reach.

use serde::Deserialize;

use super::Fault;

/// What a skill's process may reach. For runners that start processes here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jail {
    /// What happens where the kernel can't give all of it.
    pub level: Level,
    /// Which network it may use.
    pub network: Network,
}

/// What happens where the kernel can't give all of the jail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The process gets what there is.
    #[default]
    Auto,
    /// The skill is unavailable.
    Required,
    /// There is no jail: for a program that is trusted as the worker itself is.
    Off,
}

/// Which network a process may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// No network, nor any socket to the outside.
    #[default]
    None,
    /// TCP connections to these ports.
    Connect(Vec<u16>),
    /// Whatever the worker may use.
    Full,
}

/// As written: `none`, `full`, or a list of ports.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum RawNetwork {
    Word(String),
    Ports(Vec<u16>),
}

/// Checks what was written.
pub(super) fn resolve(level: Option<Level>, network: Option<RawNetwork>) -> Result<Jail, Fault> {
    let network = match network {
        None => Network::None,
        Some(RawNetwork::Word(word)) if word == "none" => Network::None,
        Some(RawNetwork::Word(word)) if word == "full" => Network::Full,
        Some(RawNetwork::Ports(ports)) if !ports.is_empty() && ports.len() <= 64 && !ports.contains(&0) => {
            Network::Connect(ports)
        }
        Some(_) => return Err(("network", "must be none, full, or a list of 1 to 64 ports".to_owned()).into()),
    };
    Ok(Jail { level: level.unwrap_or_default(), network })
}
