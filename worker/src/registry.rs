//! The skills of a worker: read from its folders and reloaded when they change.
//!
//! Readers take a snapshot; a change on disk makes a new one. A call only uses [`Registry::get`], a lookup in the snapshot.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use openskill_metrics::{SkillSeries, Skills, Snapshot as Metrics};
use openskill_proto::limits::{MAX_OFFERINGS, MAX_SKILLS};
use openskill_proto::v1::{self, ErrorCode, SkillError};
use tokio::sync::watch;

use crate::manifest::{Affinity, How, Manifest, ManifestError};
use crate::roster::{Names, Roster};
use crate::runners::{Admitted, Runners};
use crate::schedule::{Skill, SkillLimit};
use crate::shelf;
use crate::untrusted_json::off_shard;

mod held;
mod look;
mod scan;

use look::Folders;

/// How much the prompts and resources of all manifests and servers take in the worker's state, in bytes.
const MAX_SHELF_BYTES: usize = 8 * 1024 * 1024;

/// A skill and its runner.
pub(crate) struct Entry {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) runner: Admitted,
    /// What the scheduler knows of the skill.
    pub(crate) skill: Arc<Skill>,
    /// The skill's own concurrency limit.
    pub(crate) limit: Option<SkillLimit>,
    /// What is counted of its calls.
    pub(crate) series: Arc<SkillSeries>,
}

/// Skills by id.
pub(crate) type Snapshot = HashMap<String, Arc<Entry>>;

/// The state of the folders at the last scan.
#[derive(Default)]
struct Memory {
    files: scan::Memory,
    manifests: Vec<Arc<Manifest>>,
    offers: u64,
}

/// The registry. Shared by all shards.
pub(crate) struct Registry {
    folders: Vec<PathBuf>,
    allowed_root: PathBuf,
    runners: Runners,
    /// Where the names of its skills are told.
    roster: Arc<Roster>,
    /// How many calls may wait for a skill's own limit.
    queue: usize,
    series: Arc<Skills>,
    current: ArcSwap<Snapshot>,
    /// The manifests that offer something beside skills, by id.
    shelves: ArcSwap<HashMap<String, Arc<Manifest>>>,
    memory: Mutex<Memory>,
    changes: watch::Sender<u64>,
    /// Counts the changes to what runners offer, such as the tools of a server.
    offers: watch::Receiver<u64>,
}

impl Registry {
    /// Scans the folders for the first time. `offers` counts the changes to what runners offer; `queue` calls may wait for
    /// the limit of each skill that has one. `series` is what is counted of each skill.
    pub(crate) fn load(
        (folders, allowed_root): (Vec<PathBuf>, PathBuf),
        (runners, roster): (Runners, Arc<Roster>),
        offers: watch::Receiver<u64>,
        queue: usize,
        series: Arc<Skills>,
    ) -> Self {
        let registry = Self {
            folders,
            allowed_root,
            runners,
            roster,
            queue,
            series,
            current: ArcSwap::default(),
            shelves: ArcSwap::default(),
            memory: Mutex::default(),
            changes: watch::Sender::new(0),
            offers,
        };
        registry.reload();
        registry
    }

    /// The skill of this id.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Entry>> {
        self.current.load().get(id).cloned()
    }

    /// All skills as callers see them, sorted by id.
    pub(crate) fn describe(&self) -> Vec<v1::Skill> {
        let mut skills: Vec<_> = self.current.load().values().map(|entry| entry.describe()).collect();
        skills.sort_by(|one, other| one.id.cmp(&other.id));
        skills
    }

    /// What MCP clients find beside skills, sorted, and which resources have changed.
    pub(crate) fn shelf(&self) -> (Vec<v1::Offering>, Vec<v1::ResourceUpdate>) {
        let (mut offerings, mut updates) = (Vec::new(), Vec::new());
        for manifest in self.shelves.load().values() {
            offerings.extend(shelf::offerings(manifest));
            updates.extend(shelf::updates(manifest));
            let (more, changed) = self.runners.shelf(manifest);
            offerings.extend(more);
            updates.extend(changed);
        }
        offerings.sort_by(|one, other| (one.kind, &one.owner, &one.key).cmp(&(other.kind, &other.owner, &other.key)));
        updates.sort_by(|one, other| (&one.owner, &one.uri).cmp(&(&other.owner, &other.uri)));
        offerings.truncate(MAX_OFFERINGS);
        let mut bytes = 0;
        let mut fits = |it: &v1::Offering| {
            bytes += it.key.len() + it.definition_json.len() + 64;
            bytes <= MAX_SHELF_BYTES
        };
        let fitting = offerings.iter().take_while(|it| fits(it)).count();
        offerings.truncate(fitting);
        updates.truncate(MAX_OFFERINGS);
        (offerings, updates)
    }

    /// The content of something that a manifest, or its server, offers MCP clients.
    ///
    /// # Errors
    /// `NOT_FOUND`, `INVALID_ARGUMENT`, or why its server gives none.
    pub(crate) async fn consult(&self, request: v1::ConsultRequest) -> Result<String, SkillError> {
        let manifest = self.shelves.load().get(&request.owner).cloned();
        let manifest = manifest.ok_or_else(|| SkillError::new(ErrorCode::NotFound, "this worker does not offer it"))?;
        if let (How::Mcp(_), Some(runner)) = (&manifest.how, self.runners.of(&manifest)) {
            return runner.consult(request).await;
        }
        // It reads files, and its answer may be large.
        off_shard(true, move || shelf::consult(&manifest, &request)).await
    }

    /// Changes with each new snapshot.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Scans the folders again and applies what changed. Blocks on files: call it on a blocking thread.
    pub(crate) fn reload(&self) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let offers = *self.offers.borrow();
        let read = self.read_changes(&mut memory.files);
        if let Some(manifests) = read {
            memory.manifests = manifests.into_values().map(Arc::new).collect();
        } else if memory.offers == offers {
            return self.runners.tend(&memory.manifests);
        }
        memory.offers = offers;
        self.runners.tend(&memory.manifests);
        let snapshot = self.take_over(&memory.manifests);
        let names = names(&memory.manifests, &snapshot);
        self.current.store(Arc::new(snapshot));
        self.shelves.store(Arc::new(shelves(&memory.manifests)));
        self.roster.publish(names);
        self.changes.send_modify(|change| *change += 1);
    }

    /// The manifests, if anything changed on disk.
    fn read_changes(&self, memory: &mut scan::Memory) -> Option<BTreeMap<String, Manifest>> {
        let folders = Folders::open(&self.folders);
        let now = folders.look(&memory.named, &memory.seen);
        if !memory.held.is_due() && memory.seen == now {
            return None;
        }
        let (manifests, errors) = scan::read(&folders, &now, &self.allowed_root, memory);
        report(&errors);
        memory.named = scan::named(&manifests, &self.folders);
        memory.seen = folders.look(&memory.named, &memory.seen);
        let at_top = |it: &&(PathBuf, _)| look::is_read(&it.0, &self.folders);
        if memory.seen.iter().filter(at_top).ne(now.iter().filter(at_top)) {
            // A change may have been read halfway: the next scan reads again.
            memory.seen.clear();
        }
        Some(manifests)
    }

    fn take_over(&self, manifests: &[Arc<Manifest>]) -> Snapshot {
        let before = self.current.load();
        let mut snapshot = Snapshot::new();
        let offers: Vec<_> = manifests.iter().flat_map(|it| self.runners.offer(it.as_ref().clone())).collect();
        let ids: HashSet<&str> = offers.iter().map(|(manifest, _)| manifest.id.as_str()).collect();
        // First those that are gone, so that there is room for those that came.
        self.series.keep(|id| ids.contains(id));
        for (manifest, runner) in offers {
            let id = manifest.id.clone();
            if snapshot.contains_key(&id) || snapshot.len() >= MAX_SKILLS {
                tracing::error!(skill_id = id, "the skill is ignored: its id is taken, or there are too many skills");
                continue;
            }
            // An unchanged limit keeps its count of running calls.
            let kept = before.get(&id).filter(|entry| entry.manifest.concurrency == manifest.concurrency);
            let (skill, limit) = match kept {
                Some(entry) => (Arc::clone(&entry.skill), entry.limit.clone()),
                None => (Arc::default(), manifest.concurrency.map(|limit| SkillLimit::new(limit, self.queue))),
            };
            let series = self.series.get(&id, &manifest.runner);
            snapshot.insert(id, Arc::new(Entry { manifest: Arc::new(manifest), runner, skill, limit, series }));
        }
        snapshot
    }

    /// Waits until somebody wants the folders looked at before it is due. Safe to drop and call again.
    pub(crate) async fn hurried(&self) {
        self.roster.hurried().await;
    }

    /// Whether everything the runners start by themselves was tried at least once.
    pub(crate) fn settled(&self) -> bool {
        self.runners.settled()
    }

    /// The last lines that the server of a manifest wrote to stderr.
    pub(crate) fn last_lines(&self, manifest: &Manifest) -> Vec<String> {
        self.runners.last_lines(manifest)
    }

    /// The skills of a server's tools, sorted by id.
    pub(crate) fn of_server(&self, server: &str) -> Vec<Arc<Entry>> {
        let is_its = |entry: &Entry| matches!(&entry.manifest.how, How::McpTool(tool) if tool.server == server);
        let mut found: Vec<_> = self.current.load().values().filter(|entry| is_its(entry)).cloned().collect();
        found.sort_by(|one, other| one.manifest.id.cmp(&other.manifest.id));
        found
    }

    /// How many skills can run here, and how many can't.
    pub(crate) fn count(&self) -> [usize; 2] {
        let skills = self.current.load();
        let available = skills.values().filter(|entry| entry.runner.is_ok()).count();
        [available, skills.len() - available]
    }

    /// Adds the metrics of the runners.
    pub(crate) fn measure(&self, metrics: &mut Metrics) {
        self.runners.measure(metrics);
    }

    /// Releases what the runners keep between runs.
    pub(crate) async fn close(&self) {
        self.runners.close().await;
    }
}

impl Entry {
    fn describe(&self) -> v1::Skill {
        let manifest = &self.manifest;
        let text = |schema: &Option<serde_json::Value>| schema.as_ref().map(ToString::to_string).unwrap_or_default();
        let status = match self.runner {
            Ok(_) => v1::SkillStatus::Available,
            Err(_) => v1::SkillStatus::Unavailable,
        };
        let asks = manifest.conduct.asks(manifest.destructive);
        let approval = if asks { v1::Approval::Ask } else { v1::Approval::Never };
        v1::Skill {
            id: manifest.id.clone(),
            version: manifest.version.clone(),
            description: manifest.description.clone(),
            title: manifest.presentation.title.clone(),
            icons: manifest.presentation.icons.clone(),
            runner: manifest.runner.clone(),
            input_schema_json: text(&manifest.input_schema),
            output_schema_json: text(&manifest.output_schema),
            timeout_ms: manifest.timeout_ms.unwrap_or_default(),
            idempotent: manifest.idempotent,
            destructive: manifest.destructive,
            toolset: manifest.toolset.clone(),
            status: status.into(),
            status_reason: self.runner.as_ref().err().cloned().unwrap_or_default(),
            workers: 0,
            session_affinity: manifest.affinity != Affinity::None,
            caller_affinity: manifest.affinity == Affinity::Caller,
            argument_rules: Some(manifest.argument_rules.clone()),
            circuit_rules: manifest.circuit_rules,
            task: manifest.task,
            approval: approval.into(),
            repeatable: manifest.conduct.repeatable,
            untrusted: manifest.conduct.untrusted,
            read_only: manifest.conduct.read_only,
            example_inputs_json: manifest
                .examples
                .iter()
                .filter(|example| example.error.is_none())
                .map(|example| example.input.to_string())
                .collect(),
            agent: match &manifest.how {
                How::Agent(agent) => Some(agent.definition()),
                _ => None,
            },
            // The gateway computes it.
            definition_hash: String::new(),
        }
    }
}

/// The manifests that offer something beside skills.
fn shelves(manifests: &[Arc<Manifest>]) -> HashMap<String, Arc<Manifest>> {
    let offers = |it: &&Arc<Manifest>| !it.shelf.is_empty() || matches!(it.how, How::Mcp(_));
    let can_run = manifests.iter().filter(|it| it.unavailable.is_none()).filter(offers);
    can_run.map(|it| (it.id.clone(), Arc::clone(it))).collect()
}

/// The names that manifests and the skills of a snapshot have.
fn names(manifests: &[Arc<Manifest>], snapshot: &Snapshot) -> Names {
    let of_skills = snapshot.values().map(|entry| entry.manifest.toolset.clone());
    let toolsets = of_skills.chain(manifests.iter().map(|it| it.toolset.clone())).filter(|it| !it.is_empty()).collect();
    Names {
        skills: snapshot.iter().map(|(id, entry)| (id.clone(), entry.runner.is_ok())).collect(),
        manifests: manifests.iter().map(|it| it.id.clone()).collect(),
        toolsets,
    }
}

fn report(errors: &[ManifestError]) {
    for error in errors {
        tracing::error!(file = %error.file.display(), line = error.line, reason = error.reason, "bad manifest");
    }
}

/// Every valid manifest of these folders, and the errors of the others.
pub(crate) fn read_folders(
    folders: &[PathBuf],
    allowed_root: &Path,
) -> (BTreeMap<String, Manifest>, Vec<ManifestError>) {
    let folders = Folders::open(folders);
    scan::read(&folders, &folders.look(&[], &Vec::new()), allowed_root, &mut scan::Memory::default())
}
