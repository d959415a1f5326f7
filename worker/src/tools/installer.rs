//! Installs a server from the index. First runs all checks, then publishes the server atomically.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::{Progress, execute_event::Event};
use tokio::time::{sleep, timeout};

use super::audit::{self, Actor};
use super::check;
use super::folder::{Lock, Record, ToolsFolder};
use super::index::{Entry, Index, IndexError};
use super::refusal::InstallRefusal;
use crate::config::{Config, InstallPolicy, ToolsConfig, Variables};
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
pub(crate) struct Installer {
    tools: ToolsConfig,
    allowed_root: PathBuf,
    variables: Variables,
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
        Self { tools, allowed_root, variables: config.variables.clone(), trial, environments, skill_names }
    }

    /// Returns whether calls may install.
    pub(crate) fn policy(&self) -> InstallPolicy {
        self.tools.policy
    }

    /// Reads the current index.
    ///
    /// # Errors
    /// Fails if the index can't be used.
    pub(crate) async fn index(&self) -> Result<Index, IndexError> {
        let file = self.tools.index.clone();
        let read = tokio::task::spawn_blocking(move || Index::read(file.as_deref())).await;
        read.unwrap_or_else(|error| Err(IndexError::Unreadable(error.to_string())))
    }

    /// Returns a server's record, if it is installed.
    pub(crate) fn record(&self, id: &str) -> Option<Record> {
        ToolsFolder::at(&self.tools.folder).record(id)
    }

    /// Removes the remains of killed processes, unless an installation is running. Blocks on the disk.
    pub(crate) fn sweep(&self) {
        let folder = ToolsFolder::at(&self.tools.folder);
        if self.tools.folder.is_dir()
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
        let folder = ToolsFolder::at(&self.tools.folder);
        folder.make()?;
        let lock = lock(&folder).await?;
        let (id, version) = (entry.id.as_str(), entry.version.as_str());
        if let Some(record) = folder.record(id) {
            if record.version == version {
                return Ok(Installed { record, before: true });
            }
            let installed = record.version;
            let reason = format!(
                "version {installed} of it is installed, and nothing is overwritten: run `openskill tools remove {id}` \
                 first"
            );
            return Err(InstallRefusal::new("other_version", reason));
        }
        if folder.has(id) {
            return Err(InstallRefusal::name_taken(id, "an entry in the folder of installed tools"));
        }
        if entry.tools.is_empty() {
            let reason = format!(
                "the index has no pins of its tools: an operator reviews and adds those that `openskill tools pins {id}` \
                 prints"
            );
            return Err(InstallRefusal::new("not_pinned", reason));
        }
        let missing = entry.missing_variables(&self.variables);
        if !missing.is_empty() {
            let reason =
                format!("it needs environment variables that this worker does not have: {}", missing.join(", "));
            return Err(InstallRefusal::new("missing_variables", reason).with("variables", missing));
        }
        let ids = ids(id, entry.tools.keys());
        check::names(id, ids.values(), &self.skill_names.names())?;
        let manifest = self.jailed_manifest(entry)?;
        audit::log("installing", actor, id, version);
        let listed = self.try_out(&manifest, events).await?;
        check::tools(entry, &listed)?;
        tell(events, 0.9, "publishing the server").await;
        // Other names may have been added meanwhile.
        check::names(id, ids.values(), &self.skill_names.names())?;
        let record = Record {
            id: id.to_owned(),
            version: version.to_owned(),
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
            audit::log("installed", &actor, &entry.id, &entry.version);
            Ok(Installed { record, before: false })
        });
        published.await.unwrap_or_else(|_| Err(InstallRefusal::new("closing", "the worker is shutting down")))
    }

    /// Creates the manifest that the server will have. Fails if its jail is unavailable.
    fn jailed_manifest(&self, entry: &Entry) -> Result<Manifest, InstallRefusal> {
        let toolset = Toolset { toolset: entry.id.clone(), description: entry.title.clone(), unavailable: None };
        let rules = Rules { allowed_root: &self.allowed_root, toolset: Some(&toolset) };
        let file = ToolsFolder::at(&self.tools.folder).manifest(entry);
        let manifest =
            Manifest::parse(&file, &entry.manifest(), rules).map_err(|error| invalid_entry(&error.reason))?;
        self.trial.admits(&manifest).map_err(|reason| {
            InstallRefusal::new("no_jail", format!("servers of the index run only in a strict jail: {reason}"))
        })?;
        Ok(manifest)
    }

    /// Installs a server's packages and lists its tools.
    ///
    /// # Errors
    /// Fails if the packages can't be installed or the server does not start in its jail.
    async fn try_out(&self, manifest: &Manifest, events: &EventSink) -> Result<ServerTools, InstallRefusal> {
        tell(events, 0.1, "installing its packages").await;
        let interpreter = self.packages(manifest).await?;
        tell(events, 0.7, "checking its tools in the jail").await;
        self.trial.list(manifest, interpreter).await.map_err(|reason| {
            InstallRefusal::new("not_usable", format!("it was started in its jail and can't be used: {reason}"))
        })
    }

    async fn packages(&self, manifest: &Manifest) -> Result<Arc<Interpreter>, InstallRefusal> {
        let needs = manifest.how.needs().ok_or_else(|| invalid_entry("it has no packages"))?;
        self.environments.provide(&manifest.id, needs).await.map_err(|reason| {
            // pip prints "DO NOT MATCH THE HASHES", uv prints "Hash mismatch".
            let lower = reason.to_lowercase();
            if lower.contains("do not match the hashes") || lower.contains("hash mismatch") {
                InstallRefusal::new("wrong_hash", format!("a package differs from the one in the index: {reason}"))
            } else {
                InstallRefusal::new("packages", reason)
            }
        })
    }

    /// Lists a server's current tools, for its entry in an index.
    ///
    /// # Errors
    /// Returns the errors of an installation up to its check of the tools.
    pub(crate) async fn list_tools(&self, entry: &Entry) -> Result<ServerTools, InstallRefusal> {
        let manifest = self.jailed_manifest(entry)?;
        self.try_out(&manifest, &EventSink::default()).await
    }

    /// Waits at most two seconds until an installed server's tools are callable on this worker. Returns how long
    /// this took, or `None` if they are not callable yet.
    pub(crate) async fn callable(&self, record: &Record) -> Option<Duration> {
        let (mut names, begun) = (self.skill_names.watch(), Instant::now());
        let wait = async {
            while !check::callable(&record.tools, &names.borrow_and_update()) {
                self.skill_names.request_reload();
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
        match folder.lock()? {
            Some(lock) => return Ok(lock),
            None if begun.elapsed() > PATIENCE => return Err(InstallRefusal::busy()),
            None => sleep(STEP).await,
        }
    }
}

fn invalid_entry(reason: &str) -> InstallRefusal {
    InstallRefusal::new("invalid_entry", format!("its entry in the tool index is invalid: {reason}"))
}

async fn tell(events: &EventSink, fraction: f64, message: &str) {
    events.send(Event::Progress(Progress { fraction, message: message.to_owned() })).await;
}
