//! What an acknowledged operation survives, in words.

use std::path::Path;

use crate::engine::StoreError;

/// What is known about the durability of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durability {
    /// What the store is, and what an acknowledged operation survives.
    pub text: String,
    /// Whether it survives a crash of the gateway and of the store, as far as the settings tell.
    pub is_durable: bool,
}

/// What an operation in memory survives.
pub(crate) fn memory() -> Durability {
    let text = "in memory: an acknowledged operation is lost when the gateway ends".to_owned();
    Durability { text, is_durable: false }
}

/// What an operation in a SQLite file survives.
pub(crate) fn file(path: &Path) -> Result<Durability, StoreError> {
    let shown = path.display();
    // The gateway creates the folder.
    let existing = path.ancestors().skip(1).find(|it| it.exists());
    let system = existing.and_then(|it| rustix::fs::statfs(it).ok());
    if system.is_some_and(|it| NETWORK_FILE_SYSTEMS.contains(&(it.f_type as u32))) {
        return Err(StoreError::Unusable(format!(
            "{shown} is on a network file system, which SQLite can't lock: use a local disk"
        )));
    }
    let is_durable = system.is_none_or(|it| it.f_type as u32 != TMPFS);
    let text = if is_durable {
        format!(
            "SQLite file {shown}: an acknowledged operation survives a crash of the gateway, and a loss of power if the disk \
             honours fsync; one gateway can use it"
        )
    } else {
        format!("SQLite file {shown} is in memory (tmpfs): an acknowledged operation is lost when the machine stops")
    };
    Ok(Durability { text, is_durable })
}

/// NFS, SMB, CIFS and SMB2.
const NETWORK_FILE_SYSTEMS: [u32; 4] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42];
const TMPFS: u32 = 0x0102_1994;
