//! The commands of `openskill tools` that list, add and remove servers. They work without a running gateway.
//! Running workers notice the changes.

use std::path::PathBuf;

use crate::check::{build_worker, settle, slowest_start};
use crate::config::{Builds, Config, ToolsConfig};
use crate::events::EventSink;
use crate::registry::SkillSources;
use crate::runners::mcp::pins::Pin;
use crate::tools::audit::Actor;
use crate::tools::check::has_hidden_text;
use crate::tools::folder::{Record, ToolsFolder};
use crate::tools::index::{Entry, Index, IndexError};
use crate::tools::installer::lock;
use crate::tools::refusal::InstallRefusal;
use crate::worker::Worker;

/// The reasons why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    /// The index does not contain the server.
    #[error("the tool index has no server '{0}': `openskill tools index` lists those that it has")]
    Unknown(String),
    /// The server can't be installed. Nothing was published.
    #[error("'{id}' was not installed: {refusal}")]
    Refused {
        /// The server's id.
        id: String,
        /// Why the installation was refused.
        refusal: InstallRefusal,
    },
    /// The server is not installed.
    #[error("no server '{id}' is installed in {}", folder.display())]
    NotInstalled {
        /// The server's id.
        id: String,
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// Another process is changing the folder, or the folder can't be changed.
    #[error("'{id}' was not removed: {reason}")]
    NotRemoved {
        /// The server's id.
        id: String,
        /// Why the folder was not changed.
        reason: String,
    },
    /// The index can't be used.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The system lacks what isolation requires.
    #[error("servers cannot be isolated on this machine: {0}")]
    System(#[source] std::io::Error),
}

/// A server in the index.
#[derive(Debug)]
pub struct IndexedServer {
    /// The server's entry in the index.
    pub entry: Entry,
    /// The record of the installation, if the server is installed.
    pub installed: Option<Record>,
}

/// A tool with its pin, for an index entry.
#[derive(Debug)]
pub struct Pinned {
    /// The name that the server gives the tool.
    pub tool: String,
    /// The description that the server gives the tool. It must be reviewed.
    pub description: String,
    /// The SHA-256 of each part of the definition, by part name.
    pub pin: Pin,
    /// Whether the definition contains characters that people can't see.
    pub has_hidden_text: bool,
}

/// Returns the servers in the index, in its order. Blocks on the disk.
///
/// # Errors
/// Fails if the index can't be used.
pub fn index(tools: &ToolsConfig) -> Result<Vec<IndexedServer>, IndexError> {
    let folder = ToolsFolder::at(&tools.folder);
    let servers = Index::read(tools.index.as_deref())?.servers.into_iter();
    Ok(servers.map(|entry| IndexedServer { installed: folder.record(&entry.id), entry }).collect())
}

/// Installs a server from the index. Also returns whether it was already installed. Takes as long as installing
/// its packages.
///
/// # Errors
/// Fails if the server is not in the index or was refused. A failed installation leaves nothing behind.
pub async fn add(config: Config, id: &str) -> Result<(Record, bool), ToolsError> {
    with_worker(config, id, async |worker, entry| {
        worker.installer.install(entry, &Actor::operator(), &EventSink::default()).await
    })
    .await
    .map(|installed| (installed.record, installed.before))
}

/// Lists the tools of a server in the index, so that they can be reviewed and added to its entry. Installs only
/// the server's packages.
///
/// # Errors
/// Fails if the server is not in the index or can't be started in its jail.
pub async fn pins(config: Config, id: &str) -> Result<Vec<Pinned>, ToolsError> {
    let listed = with_worker(config, id, async |worker, entry| worker.installer.list_tools(entry).await).await?;
    let pinned = listed.tools.into_iter().map(|(tool, it)| {
        let description = it.parts.get("description").and_then(|it| it.as_str()).unwrap_or_default().to_owned();
        Pinned { tool, description, has_hidden_text: has_hidden_text(&it.parts), pin: it.pin }
    });
    Ok(pinned.collect())
}

/// Removes an installed server.
///
/// # Errors
/// Fails if the server is not installed or the folder can't be changed.
pub async fn remove(tools: &ToolsConfig, id: &str) -> Result<Record, ToolsError> {
    let folder = ToolsFolder::at(&tools.folder);
    if folder.record(id).is_none() {
        return Err(ToolsError::NotInstalled { id: id.to_owned(), folder: tools.folder.clone() });
    }
    let remove = async || -> Result<Record, InstallRefusal> {
        folder.make()?;
        // Workers that serve the folder notice and log this.
        Ok(folder.remove(&lock(&folder).await?, id)?)
    };
    remove().await.map_err(|refusal| ToolsError::NotRemoved { id: id.to_owned(), reason: refusal.to_string() })
}

/// Runs `work` on a worker without listeners, for a server in the index. This worker knows all names in use.
async fn with_worker<T>(
    mut config: Config,
    id: &str,
    work: impl AsyncFnOnce(&Worker, &Entry) -> Result<T, InstallRefusal>,
) -> Result<T, ToolsError> {
    let index = Index::read(config.tools.index.as_deref())?;
    let entry = index.get(id).ok_or_else(|| ToolsError::Unknown(id.to_owned()))?;
    let (manifests, _) = crate::registry::read_folders(&SkillSources::for_command(&config));
    // Do not build other skills' environments.
    config.packages.builds = Builds::None;
    let worker = build_worker(config).map_err(ToolsError::System)?;
    settle(&worker, slowest_start(&manifests)).await;
    let done = work(&worker, entry).await;
    worker.close().await;
    done.map_err(|refusal| ToolsError::Refused { id: id.to_owned(), refusal })
}
