//! Installs a server from the index. First runs all checks, then publishes the server atomically.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::{Progress, execute_event::Event};
use tokio::time::{sleep, timeout};

use super::audit::{self, Actor};
use super::check;
use super::entry::Entry;
use super::folder::{Lock, Record, ToolsFolder};
use super::index::{Index, IndexError};
use super::refusal::InstallRefusal;
use crate::config::{Config, InstallPolicy, ToolsConfig};
use crate::events::EventSink;
use crate::manifest::{Manifest, Rules, Toolset};
use crate::runners::mcp::trial::{ServerTools, Trial, ids};
use crate::runners::python::environments::Environments;
use crate::runners::python::interpreter::Interpreter;
use crate::skill_names::SkillNames;

/// The maximum wait for another installation, and the interval between checks.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(200);

/// The maximum time until published tools are callable.
const CALLABLE_WITHIN: Duration = Duration::from_secs(2);

/// The interval between scans of the skill folders during this time.
const LOOK: Duration = Duration::from_millis(25);

/// Installs servers on a worker. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Installer(Arc<Parts>);

struct Parts {
    tools: ToolsConfig,
    allowed_root: PathBuf,
    trial: Trial,
    environments: Environments,
    skill_names: Arc<SkillNames>,
}

/// The result of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) record: Record,
    /// Whether the server was already installed.
    pub(crate) before: bool,
}

impl Installer {
    pub(crate) fn new(config: &Config, trial: Trial, environments: Environments, skill_names: Arc<SkillNames>) -> Self {
        let (tools, allowed_root) = (config.tools.clone(), config.allowed_root.clone());
        Self(Arc::new(Parts { tools, allowed_root, trial, environments, skill_names }))
    }

    /// Returns whether calls may install.
    pub(crate) fn policy(&self) -> InstallPolicy {
        self.0.tools.policy
    }

    /// Reads the current index.
    ///
    /// # Errors
    /// Fails if the index can't be used.
    pub(crate) async fn index(&self) -> Result<Index, IndexError> {
        let file = self.0.tools.index.clone();
        let read = tokio::task::spawn_blocking(move || Index::read(file.as_deref())).await;
        read.unwrap_or_else(|error| Err(IndexError::Unreadable(error.to_string())))
    }

    /// Returns a server's record, if it is installed.
    pub(crate) fn record(&self, id: &str) -> Option<Record> {
        ToolsFolder::at(&self.0.tools.folder).record(id)
    }

    /// Removes the remains of killed processes, unless an installation is running. Blocks on the disk.
    pub(crate) fn sweep(&self) {
        let folder = ToolsFolder::at(&self.0.tools.folder);
        if self.0.tools.folder.is_dir()
            && let Err(error) = folder.make().and_then(|()| folder.lock())
        {
            tracing::warn!(%error, "the folder of installed tools (OPENSKILL_TOOLS_DIR) can't be cleaned up");
        }
    }

    /// Installs a server, unless it is already installed. Reports each step. Dropping the future stops the
    /// installation, which publishes either the whole server or nothing.
    ///
    /// # Errors
    /// Fails if the installation is refused. Then nothing is published. Both outcomes are logged for audits.
    pub(crate) async fn install(
        &self,
        entry: &Entry,
        actor: &Actor,
        events: &EventSink,
    ) -> Result<Installed, InstallRefusal> {
        let ended = self.check_and_publish(entry, actor, events).await;
        if let Err(refusal) = &ended {
            audit::log_refusal(actor, &entry.id, &entry.version, refusal);
        }
        ended
    }

    async fn check_and_publish(
        &self,
        entry: &Entry,
        actor: &Actor,
        events: &EventSink,
    ) -> Result<Installed, InstallRefusal> {
        let Parts { tools, trial, .. } = self.0.as_ref();
        let folder = ToolsFolder::at(&tools.folder);
        folder.make().map_err(|error| InstallRefusal::from(super::folder::FolderError::System(error)))?;
        let lock = lock(&folder).await?;
        if let Some(record) = folder.record(&entry.id) {
            let same = record.version == entry.version;
            let other = || InstallRefusal::OtherVersion { id: entry.id.clone(), installed: record.version.clone() };
            return same.then_some(Installed { record: record.clone(), before: true }).ok_or_else(other);
        }
        if folder.has(&entry.id) {
            let by = "an entry in the folder of installed tools";
            return Err(InstallRefusal::NameTaken { name: entry.id.clone(), by });
        }
        if entry.pins().is_empty() {
            return Err(InstallRefusal::NotPinned(entry.id.clone()));
        }
        let missing: Vec<_> = entry.missing_variables().into_iter().map(str::to_owned).collect();
        if !missing.is_empty() {
            return Err(InstallRefusal::NoVariables(missing));
        }
        let ids = ids(&entry.id, entry.pins().keys());
        check::names(&entry.id, ids.values(), &self.0.skill_names.names())?;
        let manifest = self.manifest(entry)?;
        trial.admits(&manifest).map_err(InstallRefusal::NoJail)?;
        audit::log_begin(actor, &entry.id, &entry.version);
        let listed = self.try_out(&manifest, events).await?;
        check::tools(entry, &listed)?;
        tell(events, 0.9, "publishing the server").await;
        // Other names may have been added meanwhile.
        check::names(&entry.id, ids.values(), &self.0.skill_names.names())?;
        let record = Record {
            id: entry.id.clone(),
            version: entry.version.clone(),
            tools: ids.into_values().collect(),
            by: actor.name.clone(),
            at: Timestamp::now().to_string(),
            trace_id: actor.trace_id.clone(),
        };
        self.publish(folder, lock, entry, actor, record).await
    }

    /// Publishes the server on a thread that finishes even if the caller is gone, so that the audit log is
    /// complete.
    async fn publish(
        &self,
        folder: ToolsFolder,
        lock: Lock,
        entry: &Entry,
        actor: &Actor,
        record: Record,
    ) -> Result<Installed, InstallRefusal> {
        let (entry, actor) = (entry.clone(), actor.clone());
        let published = tokio::task::spawn_blocking(move || {
            folder.publish(&lock, &entry, &record)?;
            audit::log_install(&actor, &entry.id, &entry.version);
            Ok(Installed { record, before: false })
        });
        published.await.unwrap_or(Err(InstallRefusal::Closing))
    }

    /// Creates the manifest that the server will have.
    fn manifest(&self, entry: &Entry) -> Result<Manifest, InstallRefusal> {
        let toolset = Toolset { toolset: entry.id.clone(), description: entry.title.clone(), unavailable: None };
        let rules = Rules { allowed_root: &self.0.allowed_root, toolset: Some(&toolset) };
        let file = ToolsFolder::at(&self.0.tools.folder).manifest(entry);
        Manifest::parse(&file, &entry.manifest(), rules).map_err(|error| InstallRefusal::Invalid(error.reason))
    }

    /// Installs a server's packages and lists its tools.
    ///
    /// # Errors
    /// Fails if the packages can't be installed or the server does not start in its jail.
    async fn try_out(&self, manifest: &Manifest, events: &EventSink) -> Result<ServerTools, InstallRefusal> {
        tell(events, 0.1, "installing its packages").await;
        let interpreter = self.packages(manifest).await?;
        tell(events, 0.7, "checking its tools in the jail").await;
        self.0.trial.list(manifest, interpreter).await.map_err(InstallRefusal::NotUsable)
    }

    async fn packages(&self, manifest: &Manifest) -> Result<Arc<Interpreter>, InstallRefusal> {
        let Some(needs) = manifest.how.needs() else {
            return Err(InstallRefusal::Invalid("it has no packages".to_owned()));
        };
        self.0.environments.provide(&manifest.id, needs).await.map_err(|reason| {
            // pip prints "DO NOT MATCH THE HASHES", uv prints "Hash mismatch".
            let lower = reason.to_lowercase();
            let differs = lower.contains("do not match the hashes") || lower.contains("hash mismatch");
            if differs { InstallRefusal::WrongHash(reason) } else { InstallRefusal::Packages(reason) }
        })
    }

    /// Lists a server's current tools, for its entry in an index.
    ///
    /// # Errors
    /// Returns the errors of an installation up to its check of the tools.
    pub(crate) async fn list_tools(&self, entry: &Entry) -> Result<ServerTools, InstallRefusal> {
        let manifest = self.manifest(entry)?;
        self.0.trial.admits(&manifest).map_err(InstallRefusal::NoJail)?;
        self.try_out(&manifest, &EventSink::default()).await
    }

    /// Waits at most two seconds until an installed server's tools are callable on this worker. Returns how long
    /// this took, or `None` if they are not callable yet.
    pub(crate) async fn callable(&self, record: &Record) -> Option<Duration> {
        let ids: BTreeMap<String, String> = record.tools.iter().map(|it| (it.clone(), it.clone())).collect();
        let (mut names, begun) = (self.0.skill_names.watch(), Instant::now());
        let wait = async {
            while !check::callable(&ids, &names.borrow_and_update()) {
                self.0.skill_names.request_reload();
                let _ = timeout(LOOK, names.changed()).await;
            }
        };
        timeout(CALLABLE_WITHIN, wait).await.ok().map(|()| begun.elapsed())
    }
}

/// Locks the folder, after waiting for other processes that install or remove.
pub(crate) async fn lock(folder: &ToolsFolder) -> Result<Lock, InstallRefusal> {
    let begun = Instant::now();
    loop {
        let tried = folder.lock().map_err(|error| InstallRefusal::from(super::folder::FolderError::System(error)))?;
        match tried {
            Some(lock) => return Ok(lock),
            None if begun.elapsed() > PATIENCE => return Err(InstallRefusal::Busy),
            None => sleep(STEP).await,
        }
    }
}

async fn tell(events: &EventSink, fraction: f64, message: &str) {
    events.send(Event::Progress(Progress { fraction, message: message.to_owned() })).await;
}
