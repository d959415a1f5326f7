//! What a skill's process may reach.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::Fault;

/// What a skill's process may reach. For runners that start processes here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jail {
    /// What happens where the kernel can't give all of it.
    pub level: Level,
    /// Which network it may use.
    pub network: Network,
    /// What it may read and run besides: absolute paths.
    pub readable: Vec<PathBuf>,
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// No network, nor any socket to the outside.
    #[default]
    None,
    /// TCP connections to these ports, and to port 53, for names.
    Connect(Vec<u16>),
    /// Whatever the worker may use.
    Full,
}

/// The most paths a manifest may name.
const MAX_READABLE: usize = 32;

/// Checks what was written.
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
