//! A worker's skills. Reads them from its folders, and reloads them when they change.
//!
//! Readers take a snapshot. A change on disk creates a new one. A call only uses [`Registry::get`], which looks up
//! a skill in the snapshot. Manifests with one id and different versions are served side by side.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use openskill_proto::limits::{MAX_OFFERINGS, MAX_REFUSED_FILES, MAX_SKILLS};
use openskill_proto::v1::{self, ErrorCode, SkillError};
use openskill_sandbox::untrusted_json::off_shard;
use openskill_skill::versions::compare;
use openskill_telemetry::metrics::{SkillMetrics, SkillSeries};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::manifest::{Affinity, Example, Manifest, ManifestError, RunnerSpec};
use crate::offerings;
use crate::runners::{Admitted, Runners};
use crate::schedule::{Skill, SkillLimit};
use crate::skill_names::{NamesInUse, SkillNames};

pub(crate) mod functions;
mod look;
mod reread;
mod scan;
mod sources;

use look::Folders;
pub(crate) use sources::SkillSources;

/// The maximum memory for the prompts and resources of all manifests and servers in the worker's state, in bytes.
const MAX_OFFERINGS_BYTES: usize = 8 * 1024 * 1024;

/// A skill and its runner.
pub(crate) struct Entry {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) runner: Admitted,
    /// The scheduler's state for the skill.
    pub(crate) skill: Arc<Skill>,
    /// The skill's concurrency limit, if it has one.
    pub(crate) limit: Option<SkillLimit>,
    /// The metrics of the skill's calls.
    pub(crate) series: Arc<SkillSeries>,
}

/// The versions of each skill of the worker by id, at one moment. First those that can run, each group with the newest
/// first.
pub(crate) type Snapshot = HashMap<String, Vec<Arc<Entry>>>;

/// The state of the folders at the last scan.
#[derive(Default)]
struct Memory {
    files: scan::Memory,
    manifests: Vec<Arc<Manifest>>,
    offers: u64,
}

/// The skills of a worker. Shared by all shards.
pub(crate) struct Registry {
    sources: SkillSources,
    pub(crate) runners: Runners,
    /// Publishes the names of the registry's skills.
    pub(crate) skill_names: Arc<SkillNames>,
    /// The maximum number of calls that wait for one skill's limit.
    queue: usize,
    series: Arc<SkillMetrics>,
    current: ArcSwap<Snapshot>,
    /// The errors of the last scan.
    refused: ArcSwap<Vec<ManifestError>>,
    /// Manifests, by id, that declare prompts or resources, or whose server may offer some.
    offering_manifests: ArcSwap<HashMap<String, Arc<Manifest>>>,
    memory: Mutex<Memory>,
    changes: watch::Sender<u64>,
    /// Counts changes to the skills that runners offer, such as a server's tools.
    offers: watch::Receiver<u64>,
}

impl Registry {
    /// Scans the folders for the first time. `offers`: counts changes to the skills that runners offer. `queue`:
    /// how many calls may wait for each skill with a limit. `series`: each skill's metrics.
    pub(crate) fn load(
        sources: SkillSources,
        runners: Runners,
        skill_names: Arc<SkillNames>,
        offers: watch::Receiver<u64>,
        queue: usize,
        series: Arc<SkillMetrics>,
    ) -> Self {
        let registry = Self {
            sources,
            runners,
            skill_names,
            queue,
            series,
            current: ArcSwap::default(),
            refused: ArcSwap::default(),
            offering_manifests: ArcSwap::default(),
            memory: Mutex::default(),
            changes: watch::Sender::new(0),
            offers,
        };
        registry.reload();
        registry
    }

    /// Returns this version of a skill. An empty `version` means the newest one that can run.
    pub(crate) fn get(&self, id: &str, version: &str) -> Option<Arc<Entry>> {
        let current = self.current.load();
        let versions = current.get(id)?;
        versions.iter().find(|it| version.is_empty() || it.manifest.version == version).cloned()
    }

    /// Returns all skills as callers see them, sorted by id.
    pub(crate) fn describe(&self) -> Vec<v1::Skill> {
        let mut skills: Vec<_> = self.current.load().values().flatten().map(|entry| entry.describe()).collect();
        skills.sort_by(|one, other| one.id.cmp(&other.id));
        skills
    }

    /// Returns the files that are refused, wholly or in part.
    pub(crate) fn refused_files(&self) -> Vec<v1::RefusedFile> {
        self.refused.load().iter().take(MAX_REFUSED_FILES).map(ManifestError::to_refused_file).collect()
    }

    /// Returns the prompts and resources for MCP clients, sorted, and the updates of resources.
    pub(crate) fn offerings(&self) -> (Vec<v1::Offering>, Vec<v1::ResourceUpdate>) {
        let (mut offerings, mut updates) = (Vec::new(), Vec::new());
        for manifest in self.offering_manifests.load().values() {
            offerings.extend(offerings::list(manifest));
            updates.extend(offerings::updates(manifest));
            let Some(servers) = self.runners.servers(manifest) else { continue };
            let (more, changed) = servers.offerings(&manifest.id);
            offerings.extend(more);
            updates.extend(changed);
        }
        offerings.sort_by(|one, other| (one.kind, &one.owner, &one.key).cmp(&(other.kind, &other.owner, &other.key)));
        updates.sort_by(|one, other| (&one.owner, &one.uri).cmp(&(&other.owner, &other.uri)));
        offerings.truncate(MAX_OFFERINGS);
        let mut bytes = 0;
        let mut fits = |it: &v1::Offering| {
            bytes += it.key.len() + it.definition_json.len() + 64;
            bytes <= MAX_OFFERINGS_BYTES
        };
        let fitting = offerings.iter().take_while(|it| fits(it)).count();
        offerings.truncate(fitting);
        updates.truncate(MAX_OFFERINGS);
        (offerings, updates)
    }

    /// Returns the content of a prompt or resource of a manifest or its server.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, `INVALID_ARGUMENT`, or the server's error.
    pub(crate) async fn consult(&self, request: v1::ConsultRequest) -> Result<String, SkillError> {
        let manifest = self.offering_manifests.load().get(&request.owner).cloned();
        let manifest = manifest.ok_or_else(|| SkillError::new(ErrorCode::NotFound, "this worker does not offer it"))?;
        if let (RunnerSpec::Mcp(_), Some(servers)) = (&manifest.how, self.runners.servers(&manifest)) {
            return servers.consult(request).await;
        }
        // This reads files, and the answer may be large.
        off_shard(true, move || offerings::consult(&manifest, &request)).await
    }

    /// Returns a counter that changes with each new snapshot.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Scans the folders again and applies all changes. Blocks on files, so call it on a blocking thread.
    pub(crate) fn reload(&self) {
        let mut memory = self.memory.lock();
        let offers = *self.offers.borrow();
        let read = self.read_changes(&mut memory.files);
        if let Some(manifests) = read {
            memory.manifests = manifests.into_iter().map(Arc::new).collect();
        } else if memory.offers == offers {
            return self.runners.maintain(&memory.manifests);
        }
        memory.offers = offers;
        self.publish(&memory.manifests);
    }

    /// Serves a skill that is in none of the folders, until a folder changes.
    pub(crate) fn serve(&self, manifest: Manifest) {
        let mut memory = self.memory.lock();
        memory.manifests = vec![Arc::new(manifest)];
        self.publish(&memory.manifests);
    }

    /// Publishes a new snapshot with the skills of these manifests.
    fn publish(&self, manifests: &[Arc<Manifest>]) {
        self.runners.maintain(manifests);
        let snapshot = self.take_over(manifests);
        let names = names(manifests, &snapshot);
        self.current.store(Arc::new(snapshot));
        self.offering_manifests.store(Arc::new(offering_manifests(manifests)));
        self.skill_names.publish(names);
        self.changes.send_modify(|change| *change += 1);
    }

    /// Returns all manifests, if anything changed on disk.
    fn read_changes(&self, memory: &mut scan::Memory) -> Option<Vec<Manifest>> {
        let folders = Folders::open(&self.sources.folders);
        let now = folders.stamp_files(&memory.named, &memory.seen);
        if !memory.reread.is_due() && memory.seen == now {
            return None;
        }
        let (manifests, errors) = scan::read(&folders, &now, &self.sources, memory);
        for error in &errors {
            tracing::error!(file = %error.file.display(), line = error.line, reason = error.reason, "invalid manifest");
        }
        self.refused.store(Arc::new(errors));
        memory.named = scan::named_files(&manifests, &self.sources.folders, memory);
        memory.seen = folders.stamp_files(&memory.named, &memory.seen);
        let at_top = |it: &&(PathBuf, _)| look::is_read(&it.0, &self.sources.folders);
        if memory.seen.iter().filter(at_top).ne(now.iter().filter(at_top)) {
            // A file may have been read while it changed, so the next scan reads it again.
            memory.seen.clear();
        }
        Some(manifests)
    }

    fn take_over(&self, manifests: &[Arc<Manifest>]) -> Snapshot {
        let before = self.current.load();
        let mut snapshot = Snapshot::new();
        let mut offers: Vec<_> = manifests.iter().flat_map(|it| self.runners.offer(it.as_ref().clone())).collect();
        // No new skill takes an id over, such as a tool that a server adds.
        offers.sort_by_key(|(it, _)| {
            before.get(&it.id).is_none_or(|versions| versions.iter().all(|one| one.manifest.source() != it.source()))
        });
        let ids: HashSet<&str> = offers.iter().map(|(manifest, _)| manifest.id.as_str()).collect();
        // First remove skills that are gone, to make room for new ones.
        self.series.keep(|id| ids.contains(id));
        let offered: HashSet<String> = offers.iter().map(|(manifest, _)| manifest.versioned_id()).collect();
        let mut count = 0;
        for (manifest, runner) in offers {
            let id = manifest.id.clone();
            let taken =
                snapshot.get(&id).and_then(|it| it.iter().find(|one| !manifest.can_coexist_with(&one.manifest)));
            if taken.is_some() || count >= MAX_SKILLS {
                let (source, other) = (manifest.source(), taken.map(|it| it.manifest.source()));
                tracing::error!(
                    skill_id = id,
                    source,
                    other,
                    "the skill is ignored: its id is taken, or there are too many skills"
                );
                continue;
            }
            count += 1;
            // A skill with the same limit keeps its count of running calls, also when its manifest names a new version.
            let own = before.get(&id).and_then(|versions| {
                let same = versions.iter().find(|it| it.manifest.version == manifest.version);
                same.or_else(|| versions.iter().find(|it| !offered.contains(&it.manifest.versioned_id())))
            });
            let has_same_limit = |entry: &&Arc<Entry>| entry.manifest.concurrency == manifest.concurrency;
            let skill = own.filter(has_same_limit).map(|entry| Arc::clone(&entry.skill)).unwrap_or_default();
            // Versions with one limit share it.
            let mut versions = snapshot.get(&id).into_iter().chain(before.get(&id)).flatten();
            let limit = match versions.find(has_same_limit) {
                Some(entry) => entry.limit.clone(),
                None => manifest.concurrency.map(|limit| SkillLimit::new(limit, self.queue)),
            };
            let series = self.series.get(&id, &manifest.runner);
            let entry = Arc::new(Entry { manifest: Arc::new(manifest), runner, skill, limit, series });
            snapshot.entry(id).or_default().push(entry);
        }
        snapshot.values_mut().for_each(|versions| versions.sort_by(|one, other| newest_first(one, other)));
        snapshot
    }

    /// Returns the skills that are a server's tools, sorted by id.
    pub(crate) fn server_tools(&self, server: &str) -> Vec<Arc<Entry>> {
        let is_its = |entry: &Entry| matches!(&entry.manifest.how, RunnerSpec::McpTool(tool) if tool.server == server);
        let mut found: Vec<_> = self.current.load().values().flatten().filter(|it| is_its(it)).cloned().collect();
        found.sort_by(|one, other| one.manifest.id.cmp(&other.manifest.id));
        found
    }

    /// Returns the number of skills that can run here, and of skills that can't.
    pub(crate) fn count(&self) -> [usize; 2] {
        let skills = self.current.load();
        let available = skills.values().filter(|versions| can_run(versions)).count();
        [available, skills.len() - available]
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
        let asks = manifest.tool_hints.asks(manifest.destructive);
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
            retry: manifest.retry,
            approval: approval.into(),
            repeatable: manifest.tool_hints.repeatable,
            untrusted: manifest.tool_hints.untrusted,
            read_only: manifest.tool_hints.read_only,
            example_inputs_json: manifest
                .examples
                .iter()
                .filter(|example| example.error.is_none())
                .map(|example| example.input.to_string())
                .collect(),
            failing_examples: manifest.examples.iter().filter_map(Example::to_failing).collect(),
            agent: match &manifest.how {
                RunnerSpec::Agent(agent) => Some(agent.as_ref().clone()),
                _ => None,
            },
            // The gateway sets these.
            definition_hash: String::new(),
            versions: Vec::new(),
        }
    }
}

/// Orders the versions of a skill: first those that can run, and each group with the newest first.
fn newest_first(one: &Entry, other: &Entry) -> Ordering {
    let can_run = |it: &Entry| it.runner.is_ok();
    can_run(other).cmp(&can_run(one)).then_with(|| compare(&other.manifest.version, &one.manifest.version))
}

/// Whether a version of the skill can run here.
fn can_run(versions: &[Arc<Entry>]) -> bool {
    versions.iter().any(|entry| entry.runner.is_ok())
}

/// Returns manifests that declare prompts or resources, or whose server may offer some. Of several versions, the newest.
fn offering_manifests(manifests: &[Arc<Manifest>]) -> HashMap<String, Arc<Manifest>> {
    let offers = |it: &&Arc<Manifest>| !it.offerings.is_empty() || matches!(it.how, RunnerSpec::Mcp(_));
    let can_run = manifests.iter().filter(|it| it.unavailable.is_none()).filter(offers);
    // Manifests are sorted with the newest first, and the last one with an id stays.
    can_run.rev().map(|it| (it.id.clone(), Arc::clone(it))).collect()
}

/// Returns the names that manifests and a snapshot's skills use.
fn names(manifests: &[Arc<Manifest>], snapshot: &Snapshot) -> NamesInUse {
    let of_skills = snapshot.values().flatten().map(|entry| entry.manifest.toolset.clone());
    let toolsets = of_skills.chain(manifests.iter().map(|it| it.toolset.clone())).filter(|it| !it.is_empty()).collect();
    NamesInUse {
        skills: snapshot.iter().map(|(id, versions)| (id.clone(), can_run(versions))).collect(),
        manifests: manifests.iter().map(|it| it.id.clone()).collect(),
        toolsets,
    }
}

/// Returns all valid manifests in the folders by id, the newest version first, and the errors of invalid ones.
pub(crate) fn read_folders(sources: &SkillSources) -> (Vec<Manifest>, Vec<ManifestError>) {
    let folders = Folders::open(&sources.folders);
    scan::read(&folders, &folders.stamp_files(&[], &Vec::new()), sources, &mut scan::Memory::default())
}
