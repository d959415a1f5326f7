//! Installs a server of the index: all checks first, then one step that publishes it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::{Progress, execute_event::Event};
use tokio::time::{sleep, timeout};

use super::audit::{self, Who};
use super::check;
use super::entry::Entry;
use super::folder::{Folder, Lock, Record};
use super::index::{Index, IndexError};
use super::refusal::Refusal;
use crate::config::{Config, InstallPolicy, Tools};
use crate::events::EventSink;
use crate::manifest::{Manifest, Rules, Toolset};
use crate::roster::Roster;
use crate::runners::mcp::trial::{Listed, Trial, ids};
use crate::runners::python::environments::Environments;
use crate::runners::python::interpreter::Interpreter;

/// How long an installation waits for another one, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(200);

/// How long published tools may take to be callable.
const CALLABLE_WITHIN: Duration = Duration::from_secs(2);

/// How often the skill folders are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(25);

/// What installs servers on a worker. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Installer(Arc<Parts>);

struct Parts {
    tools: Tools,
    allowed_root: PathBuf,
    trial: Trial,
    environments: Environments,
    roster: Arc<Roster>,
}

/// A server that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) record: Record,
    /// It was there before.
    pub(crate) before: bool,
}

impl Installer {
    pub(crate) fn new(config: &Config, trial: Trial, environments: Environments, roster: Arc<Roster>) -> Self {
        let (tools, allowed_root) = (config.tools.clone(), config.allowed_root.clone());
        Self(Arc::new(Parts { tools, allowed_root, trial, environments, roster }))
    }

    /// Who may install.
    pub(crate) fn policy(&self) -> InstallPolicy {
        self.0.tools.policy
    }

    /// The index as it is now.
    ///
    /// # Errors
    /// It can't be used.
    pub(crate) async fn index(&self) -> Result<Index, IndexError> {
        let file = self.0.tools.index.clone();
        let read = tokio::task::spawn_blocking(move || Index::read(file.as_deref())).await;
        read.unwrap_or_else(|error| Err(IndexError::Unreadable(error.to_string())))
    }

    /// What is known of a server, if it is installed.
    pub(crate) fn record(&self, id: &str) -> Option<Record> {
        Folder::at(&self.0.tools.folder).record(id)
    }

    /// Removes what killed processes left, unless somebody installs right now. Blocks on the disk.
    pub(crate) fn sweep(&self) {
        let folder = Folder::at(&self.0.tools.folder);
        if self.0.tools.folder.is_dir()
            && let Err(error) = folder.make().and_then(|()| folder.lock())
        {
            tracing::warn!(%error, "the folder of installed tools (OPENSKILL_TOOLS_DIR) can't be cleaned up");
        }
    }

    /// Installs a server, or finds that it is installed. Tells of each step. Dropping the future ends the installation: then
    /// the server is published as a whole, or nothing of it.
    ///
    /// # Errors
    /// It is refused: nothing of it is published. Both are audited.
    pub(crate) async fn install(&self, entry: &Entry, who: &Who, events: &EventSink) -> Result<Installed, Refusal> {
        let ended = self.checked(entry, who, events).await;
        if let Err(refusal) = &ended {
            audit::refused(who, &entry.id, &entry.version, refusal);
        }
        ended
    }

    async fn checked(&self, entry: &Entry, who: &Who, events: &EventSink) -> Result<Installed, Refusal> {
        let Parts { tools, trial, .. } = self.0.as_ref();
        let folder = Folder::at(&tools.folder);
        folder.make().map_err(|error| Refusal::from(super::folder::FolderError::System(error)))?;
        let lock = lock(&folder).await?;
        if let Some(record) = folder.record(&entry.id) {
            let same = record.version == entry.version;
            let other = || Refusal::OtherVersion { id: entry.id.clone(), installed: record.version.clone() };
            return same.then_some(Installed { record: record.clone(), before: true }).ok_or_else(other);
        }
        if folder.has(&entry.id) {
            let by = "something in the folder of installed tools";
            return Err(Refusal::NameTaken { name: entry.id.clone(), by });
        }
        if entry.pins().is_empty() {
            return Err(Refusal::NotPinned(entry.id.clone()));
        }
        let missing: Vec<_> = entry.missing_variables().into_iter().map(str::to_owned).collect();
        if !missing.is_empty() {
            return Err(Refusal::NoVariables(missing));
        }
        let ids = ids(&entry.id, entry.pins().keys());
        check::names(&entry.id, ids.values(), &self.0.roster.names())?;
        let manifest = self.manifest(entry)?;
        trial.admits(&manifest).map_err(Refusal::NoJail)?;
        audit::begun(who, &entry.id, &entry.version);
        let listed = self.tried(&manifest, events).await?;
        check::tools(entry, &listed)?;
        tell(events, 0.9, "publishing the server").await;
        // Others may have come meanwhile.
        check::names(&entry.id, ids.values(), &self.0.roster.names())?;
        let record = Record {
            id: entry.id.clone(),
            version: entry.version.clone(),
            tools: ids.into_values().collect(),
            by: who.name.clone(),
            at: Timestamp::now().to_string(),
            trace_id: who.trace_id.clone(),
        };
        self.publish(folder, lock, (entry, who), record).await
    }

    /// Publishes on a thread that ends it whether or not anybody waits: and so the line of the audit log is there.
    async fn publish(
        &self,
        folder: Folder,
        lock: Lock,
        (entry, who): (&Entry, &Who),
        record: Record,
    ) -> Result<Installed, Refusal> {
        let (entry, who) = (entry.clone(), who.clone());
        let published = tokio::task::spawn_blocking(move || {
            folder.publish(&lock, &entry, &record)?;
            audit::installed(&who, &entry.id, &entry.version);
            Ok(Installed { record, before: false })
        });
        published.await.unwrap_or(Err(Refusal::Closing))
    }

    /// The manifest that the server will have.
    fn manifest(&self, entry: &Entry) -> Result<Manifest, Refusal> {
        let toolset = Toolset { toolset: entry.id.clone(), description: entry.title.clone(), unavailable: None };
        let rules = Rules { allowed_root: &self.0.allowed_root, toolset: Some(&toolset) };
        let file = Folder::at(&self.0.tools.folder).manifest(entry);
        Manifest::parse(&file, &entry.manifest(), rules).map_err(|error| Refusal::Invalid(error.reason))
    }

    /// Installs the packages of a server and sees which tools it has.
    ///
    /// # Errors
    /// They can't be installed, or it does not start in its jail.
    async fn tried(&self, manifest: &Manifest, events: &EventSink) -> Result<Listed, Refusal> {
        tell(events, 0.1, "installing its packages").await;
        let interpreter = self.packages(manifest).await?;
        tell(events, 0.7, "checking its tools in the jail").await;
        self.0.trial.list(manifest, interpreter).await.map_err(Refusal::NotUsable)
    }

    async fn packages(&self, manifest: &Manifest) -> Result<Arc<Interpreter>, Refusal> {
        let Some(needs) = manifest.how.needs() else { return Err(Refusal::Invalid("it has no packages".to_owned())) };
        self.0.environments.provide(&manifest.id, needs).await.map_err(|reason| {
            // As pip says it, and uv: "DO NOT MATCH THE HASHES", "Hash mismatch".
            let lower = reason.to_lowercase();
            let differs = lower.contains("do not match the hashes") || lower.contains("hash mismatch");
            if differs { Refusal::WrongHash(reason) } else { Refusal::Packages(reason) }
        })
    }

    /// What the tools of a server are now, for its entry in an index.
    ///
    /// # Errors
    /// As an installation, up to the check of the tools.
    pub(crate) async fn look(&self, entry: &Entry) -> Result<Listed, Refusal> {
        let manifest = self.manifest(entry)?;
        self.0.trial.admits(&manifest).map_err(Refusal::NoJail)?;
        self.tried(&manifest, &EventSink::default()).await
    }

    /// Waits until the tools of an installed server can be called on this worker: for how long it took, at most two seconds.
    /// None: they can't be called yet.
    pub(crate) async fn callable(&self, record: &Record) -> Option<Duration> {
        let ids: BTreeMap<String, String> = record.tools.iter().map(|it| (it.clone(), it.clone())).collect();
        let (mut names, begun) = (self.0.roster.watch(), Instant::now());
        let wait = async {
            while !check::callable(&ids, &names.borrow_and_update()) {
                self.0.roster.hurry();
                let _ = timeout(LOOK, names.changed()).await;
            }
        };
        timeout(CALLABLE_WITHIN, wait).await.ok().map(|()| begun.elapsed())
    }
}

/// Waits until nobody else installs or removes.
pub(super) async fn lock(folder: &Folder) -> Result<Lock, Refusal> {
    let begun = Instant::now();
    loop {
        let tried = folder.lock().map_err(|error| Refusal::from(super::folder::FolderError::System(error)))?;
        match tried {
            Some(lock) => return Ok(lock),
            None if begun.elapsed() > PATIENCE => return Err(Refusal::Busy),
            None => sleep(STEP).await,
        }
    }
}

async fn tell(events: &EventSink, fraction: f64, message: &str) {
    events.send(Event::Progress(Progress { fraction, message: message.to_owned() })).await;
}
