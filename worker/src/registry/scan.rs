//! Reads the files of skill folders: which skills they declare.
//!
//! A subfolder with a `toolset.yaml` is a toolset: its manifests are the toolset's skills. Scripts without a manifest are
//! served from the skill folders themselves only.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use openskill_proto::limits::{MAX_SKILLS, MAX_STATE_BYTES};

use super::held::Held;
use super::look::{Folders, Seen, Stamp, is_lock, is_manifest, is_script, is_toolset, matters};
use crate::manifest::{MAX_MANIFEST_BYTES, Manifest, ManifestError, Manifests, Rules, Toolset};
use crate::plain_file::NotPlain;

/// What the registry keeps from one scan to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) seen: Seen,
    /// Files and folders outside the top level that manifests name.
    pub(super) named: Vec<PathBuf>,
    /// The last valid manifest of each file: a file that is being written is invalid for a moment.
    good: HashMap<PathBuf, Manifest>,
    /// The same for toolsets, by folder.
    toolsets: HashMap<PathBuf, Toolset>,
    /// Files that another process held at the last read.
    pub(super) held: Held,
}

/// Reads the scanned files: manifests first, then scripts that no manifest names.
pub(super) fn read(
    folders: &Folders,
    seen: &Seen,
    allowed_root: &Path,
    memory: &mut Memory,
) -> (Manifests, Vec<ManifestError>) {
    let mut reading = Reading::of(folders);
    let toolsets = reading.toolsets(seen, &memory.toolsets);
    let mut good = HashMap::new();
    let declared: HashSet<&Path> =
        seen.iter().filter(|(file, _)| is_toolset(file)).filter_map(|(file, _)| file.parent()).collect();
    let unread = |folder: &Path| declared.contains(folder) && !toolsets.contains_key(folder);
    for (file, _) in seen.iter().filter(|(file, _)| is_manifest(file) && !is_toolset(file)) {
        // An unreadable toolset may say that its skills must not run.
        if file.parent().is_some_and(unread) {
            continue;
        }
        let toolset = file.parent().and_then(|folder| toolsets.get(folder));
        match reading.read_one(file, Rules { allowed_root, toolset }) {
            Ok(manifest) => {
                good.insert(file.clone(), manifest.clone());
                reading.insert(file, manifest);
            }
            Err((error, text)) => {
                reading.errors.push(error);
                match memory.good.remove(file) {
                    Some(last) => {
                        good.insert(file.clone(), last.clone());
                        reading.insert(file, last);
                    }
                    None => reading.claim_scripts(file, &text),
                }
            }
        }
    }
    for (script, stamp) in seen.iter().filter(|(file, _)| is_script(file)) {
        let folder = script.parent().unwrap_or(Path::new("."));
        if reading.claimed.contains(script) || reading.claimed.contains(folder) || memory.named.contains(script) {
            continue;
        }
        let plain = stamp.as_ref().map_or(Ok(()), Stamp::plain).map_err(|it| fault(script, it.to_string()));
        match plain.and_then(|()| Manifest::for_bare_script(script)) {
            Ok(manifest) => reading.insert(script, manifest),
            Err(error) => reading.errors.push(error),
        }
    }
    memory.good = good;
    memory.toolsets = toolsets;
    // Runners read pins later.
    let is_held = reading.held || seen.iter().any(|(file, _)| is_lock(file) && folders.is_held(file));
    memory.held.note(is_held);
    (reading.manifests, reading.errors)
}

/// The files that manifests name and that are not watched for their own sake: programs, and files outside the top level of a
/// skill folder.
pub(super) fn named(manifests: &Manifests, folders: &[PathBuf]) -> Vec<PathBuf> {
    let elsewhere = |file: &PathBuf| !matters(file) || !folders.iter().any(|folder| file.parent() == Some(folder));
    let files = manifests.values().flat_map(|it| [it.how.files(), it.shelf.files()].concat());
    files.filter(elsewhere).collect()
}

struct Reading<'a> {
    folders: &'a Folders,
    manifests: BTreeMap<String, Manifest>,
    errors: Vec<ManifestError>,
    /// Scripts of manifests, and folders with a manifest whose script is unknown.
    claimed: HashSet<PathBuf>,
    size: usize,
    /// Another process held one of the files.
    held: bool,
}

impl<'a> Reading<'a> {
    fn of(folders: &'a Folders) -> Self {
        let (manifests, errors, claimed) = (BTreeMap::new(), Vec::new(), HashSet::new());
        Self { folders, manifests, errors, claimed, size: 0, held: false }
    }

    fn insert(&mut self, file: &Path, manifest: Manifest) {
        self.claimed.extend(manifest.how.files());
        if is_manifest(file) {
            self.claimed.insert(file.with_extension("py"));
        }
        self.size += manifest.description_size();
        let reason = if self.manifests.len() >= MAX_SKILLS {
            format!("a worker has at most {MAX_SKILLS} skills")
        } else if self.size > MAX_STATE_BYTES / 2 {
            format!("the descriptions of a worker's skills are over {} bytes", MAX_STATE_BYTES / 2)
        } else if self.manifests.contains_key(&manifest.id) {
            format!("the skill id '{}' is taken; this manifest is ignored", manifest.id)
        } else {
            self.manifests.insert(manifest.id.clone(), manifest);
            return;
        };
        self.errors.push(fault(file, reason));
    }

    /// The toolsets by folder. An invalid one keeps its last valid state, if it had one; the error is reported.
    fn toolsets(&mut self, seen: &Seen, last: &HashMap<PathBuf, Toolset>) -> HashMap<PathBuf, Toolset> {
        let mut toolsets = HashMap::new();
        for (file, _) in seen.iter().filter(|(file, _)| is_toolset(file)) {
            let read = self.text(file).and_then(|text| Toolset::parse(file, &text));
            match (read, file.parent()) {
                (Ok(toolset), Some(folder)) => drop(toolsets.insert(folder.to_owned(), toolset)),
                (Ok(_), None) => {}
                (Err(error), folder) => {
                    self.errors.push(error);
                    let before = folder.and_then(|folder| Some((folder.to_owned(), last.get(folder)?.clone())));
                    toolsets.extend(before);
                }
            }
        }
        toolsets
    }

    /// A script with an invalid manifest must not be served without its schema and limits. If the text does not name the
    /// script, no script of the folder is served without a manifest.
    fn claim_scripts(&mut self, file: &Path, text: &str) {
        let folder = file.parent().unwrap_or(Path::new("."));
        self.claimed.insert(file.with_extension("py"));
        let entry = text.lines().find_map(|line| {
            let line = line.trim_start().trim_start_matches('"');
            Some(line.strip_prefix("entry")?.trim_start_matches('"').trim_start().strip_prefix(':')?.trim())
        });
        match entry.map(|entry| entry.trim_matches(|it| matches!(it, '"' | '\'' | ','))) {
            Some(entry) if entry.ends_with(".py") => self.claimed.insert(folder.join(entry)),
            _ => self.claimed.insert(folder.to_owned()),
        };
    }

    /// Reads one manifest. On failure it also gives the text, as far as it could be read.
    fn read_one(&mut self, file: &Path, rules: Rules<'_>) -> Result<Manifest, (ManifestError, String)> {
        let text = self.text(file).map_err(|error| (error, String::new()))?;
        Manifest::parse(file, &text, rules).map_err(|error| (error, text))
    }

    fn text(&mut self, file: &Path) -> Result<String, ManifestError> {
        let read = self.folders.read(file, MAX_MANIFEST_BYTES);
        self.held |= read == Err(NotPlain::Held);
        read.map_err(|reason| fault(file, reason.to_string()))
    }
}

/// What is wrong with a file as a whole.
fn fault(file: &Path, reason: String) -> ManifestError {
    ManifestError { file: file.to_owned(), line: 1, reason }
}
