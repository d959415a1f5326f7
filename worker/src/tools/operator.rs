//! The commands of `openskill tools` that change or show what can be installed. No gateway has to run: workers that do notice
//! what changes.

use std::path::PathBuf;
use std::sync::Arc;

use super::audit::Who;
use super::entry::Entry;
use super::folder::{Folder, FolderError, Record};
use super::index::{Index, IndexError};
use super::installer::lock;
use super::refusal::Refusal;
use crate::check::{settle, slowest_start};
use crate::config::{Builds, Config, Tools};
use crate::events::EventSink;
use crate::process::strays::Strays;
use crate::runners::in_process::Functions;
use crate::runners::mcp::pins::Pin;
use crate::worker::Worker;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    /// The index has no such server.
    #[error("the tool index has no server '{0}': `openskill tools index` lists those that it has")]
    Unknown(String),
    /// It was refused.
    #[error("'{id}' was not installed: {refusal}")]
    Refused {
        /// The server.
        id: String,
        /// Why.
        refusal: Refusal,
    },
    /// No such server was installed.
    #[error("no server '{id}' is installed in {}", folder.display())]
    NotInstalled {
        /// The server.
        id: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// Somebody else changes the folder, or it can't be changed.
    #[error("'{id}' was not removed: {reason}")]
    NotRemoved {
        /// The server.
        id: String,
        /// Why not.
        reason: String,
    },
    /// The index.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The system lacks what isolation needs.
    #[error("servers cannot be isolated on this machine: {0}")]
    System(#[source] std::io::Error),
}

/// A server of the index.
#[derive(Debug)]
pub struct Listed {
    /// Its entry.
    pub entry: Entry,
    /// What is known of it, if it is installed.
    pub installed: Option<Record>,
}

/// A tool for an entry of an index.
#[derive(Debug)]
pub struct Pinned {
    /// The server's name of the tool.
    pub tool: String,
    /// What the server says of it: to be reviewed.
    pub description: String,
    /// The SHA-256 of each part of its definition, by the part's name.
    pub pin: Pin,
    /// It has characters that people don't see.
    pub has_hidden_text: bool,
}

/// The servers of the index, in its order. Blocks on the disk.
///
/// # Errors
/// The index can't be used.
pub fn index(tools: &Tools) -> Result<Vec<Listed>, IndexError> {
    let folder = Folder::at(&tools.folder);
    let servers = Index::read(tools.index.as_deref())?.servers.into_iter();
    Ok(servers.map(|entry| Listed { installed: folder.record(&entry.id), entry }).collect())
}

/// Installs a server of the index. Whether it was installed before. Takes as long as its packages take.
///
/// # Errors
/// It is not in the index, or refused: nothing of it is there.
pub async fn add(config: Config, id: &str) -> Result<(Record, bool), ToolsError> {
    with_worker(config, id, async |worker, entry| {
        worker.installer.install(entry, &Who::operator(), &EventSink::default()).await
    })
    .await
    .map(|installed| (installed.record, installed.before))
}

/// The tools that a server of the index has, to be reviewed and written into its entry. Installs nothing but its packages.
///
/// # Errors
/// It is not in the index, or can't be started in its jail.
pub async fn pins(config: Config, id: &str) -> Result<Vec<Pinned>, ToolsError> {
    let listed = with_worker(config, id, async |worker, entry| worker.installer.look(entry).await).await?;
    let pinned = listed.tools.into_iter().map(|(tool, it)| {
        let description = it.parts.get("description").and_then(|it| it.as_str()).unwrap_or_default().to_owned();
        Pinned { tool, description, has_hidden_text: super::check::has_hidden_text(&it.parts), pin: it.pin }
    });
    Ok(pinned.collect())
}

/// Removes a server that was installed.
///
/// # Errors
/// It was not installed, or the folder can't be changed.
pub async fn remove(tools: &Tools, id: &str) -> Result<Record, ToolsError> {
    let folder = Folder::at(&tools.folder);
    if folder.record(id).is_none() {
        return Err(ToolsError::NotInstalled { id: id.to_owned(), folder: tools.folder.clone() });
    }
    let not_removed = |reason: String| ToolsError::NotRemoved { id: id.to_owned(), reason };
    folder.make().map_err(|error| not_removed(FolderError::System(error).to_string()))?;
    let lock = lock(&folder).await.map_err(|refusal| not_removed(refusal.to_string()))?;
    // Workers that serve the folder see it, and log it.
    folder.remove(&lock, id).map_err(|error| not_removed(error.to_string()))
}

/// Has a worker that serves nobody do something with a server of the index. It knows all names that are taken.
async fn with_worker<T>(
    mut config: Config,
    id: &str,
    work: impl AsyncFnOnce(&Worker, &Entry) -> Result<T, Refusal>,
) -> Result<T, ToolsError> {
    let index = Index::read(config.tools.index.as_deref())?;
    let entry = index.get(id).ok_or_else(|| ToolsError::Unknown(id.to_owned()))?;
    let (manifests, _) = crate::registry::read_folders(&config.skill_dirs, &config.allowed_root);
    // Those of others are not built for this.
    config.packages.builds = Builds::None;
    let strays = Strays::adopt().map_err(ToolsError::System)?;
    let worker = crate::build(config, Functions::default(), Arc::new(strays)).map_err(ToolsError::System)?;
    settle(&worker, slowest_start(&manifests)).await;
    let done = work(&worker, entry).await;
    worker.registry.close().await;
    worker.launcher.finished().await;
    done.map_err(|refusal| ToolsError::Refused { id: id.to_owned(), refusal })
}
