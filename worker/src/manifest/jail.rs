//! The jail of a skill's process: what it may access.

use std::path::PathBuf;

use openskill_sandbox::jail::{Level, Network};
use serde_json::Value;

use super::error::ManifestFault;

/// What a skill's process may access. Applies only to runners that start processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jail {
    /// The required isolation level.
    pub level: Level,
    /// The network access that it has.
    pub network: Network,
    /// Additional absolute paths that it may read and run.
    pub readable: Vec<PathBuf>,
}

/// The maximum number of paths in a manifest.
const MAX_READABLE: usize = 32;

pub(super) fn resolve(
    level: Option<Level>,
    network: Option<Value>,
    readable: Vec<PathBuf>,
) -> Result<Jail, ManifestFault> {
    let network = network.map_or(Ok(Network::None), |written| read_network(&written))?;
    if readable.len() > MAX_READABLE || readable.iter().any(|path| !path.is_absolute() || path.parent().is_none()) {
        return Err(("readable", format!("must be at most {MAX_READABLE} absolute paths other than '/'")).into());
    }
    Ok(Jail { level: level.unwrap_or_default(), network, readable })
}

/// Parses `none`, `full` or a list of ports.
fn read_network(written: &Value) -> Result<Network, ManifestFault> {
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
