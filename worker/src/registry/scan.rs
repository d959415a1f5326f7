//! Scans skill folders: which files they hold, and which skills those declare.
//!
//! A subfolder with a `toolset.yaml` is a toolset: its manifests are the toolset's skills. Scripts without a manifest are
//! served from the skill folders themselves only.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use openskill_proto::limits::{MAX_SKILLS, MAX_STATE_BYTES};

use crate::manifest::mcp::LOCK_SUFFIX;
use crate::manifest::{MAX_MANIFEST_BYTES, Manifest, ManifestError, Manifests, Rules, Toolset};

/// The relevant files, by folder and name, each with its stamp; none for a missing file that a manifest names.
pub(super) type Seen = Vec<(PathBuf, Option<Stamp>)>;

/// Change time, size and inode: one of them differs after a file was written or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    changed_ns: i128,
    size: u64,
    inode: u64,
}

/// The file that makes a folder a toolset.
const TOOLSET: &str = "toolset.yaml";

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
}

/// The manifests and scripts of the folders, and the other files that manifests name. A folder that exists and cannot be
/// read keeps what the last scan saw in it.
pub(super) fn look(folders: &[PathBuf], before: &Memory) -> Seen {
    let mut seen = Seen::new();
    for folder in folders {
        match look_at(folder) {
            Ok(files) => seen.extend(files),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "a skill folder cannot be read; its skills are kept");
                let inside = |(file, _): &&(PathBuf, _)| file.starts_with(folder);
                seen.extend(before.seen.iter().filter(inside).cloned());
            }
        }
    }
    let stamp = |path: &PathBuf| std::fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata));
    seen.extend(before.named.iter().map(|path| (path.clone(), stamp(path))));
    seen
}

fn look_at(folder: &Path) -> std::io::Result<Seen> {
    let (mut files, mut within) = (Seen::new(), Seen::new());
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        if metadata.is_file() && matters(&path) {
            files.push((path, Some(Stamp::of(&metadata))));
        } else if metadata.is_dir() && path.join(TOOLSET).is_file() {
            match look_at_toolset(&path) {
                Ok(files) => within.extend(files),
                // It was just removed, or cannot be read: other skills are not affected.
                Err(error) => tracing::warn!(folder = %path.display(), %error, "a toolset cannot be read"),
            }
        }
    }
    for seen in [&mut files, &mut within] {
        seen.sort_by(|one, other| one.0.cmp(&other.0));
        seen.truncate(2 * MAX_SKILLS);
    }
    files.extend(within);
    Ok(files)
}

/// The manifests of a toolset, and its own file.
fn look_at_toolset(folder: &Path) -> std::io::Result<Seen> {
    let mut files = Seen::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if matters(&path)
            && is_manifest(&path)
            && let Ok(metadata) = std::fs::metadata(&path)
            && metadata.is_file()
        {
            files.push((path, Some(Stamp::of(&metadata))));
        }
    }
    Ok(files)
}

/// Whether a file is looked at for its own sake, not because a manifest names it: in a skill folder or a toolset's.
pub(super) fn is_read(file: &Path, folders: &[PathBuf]) -> bool {
    let is_folder = |path: &Path| folders.iter().any(|folder| folder == path);
    file.parent().is_some_and(|parent| is_folder(parent) || parent.parent().is_some_and(is_folder))
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let changed_ns = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
        // A folder's stamp changes with its content; only its existence matters.
        let changed_ns = if metadata.is_file() { changed_ns } else { 0 };
        Self { changed_ns, size: metadata.size(), inode: metadata.ino() }
    }
}

fn matters(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && (is_manifest(path) || is_script(path) || is_lock(path))
}

fn is_manifest(path: &Path) -> bool {
    has_extension(path, &["yaml", "yml", "json"]) && !is_lock(path)
}

/// Whether this is the file of a server's pins, which lies beside its manifest.
fn is_lock(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(LOCK_SUFFIX.as_bytes()))
}

fn is_toolset(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == TOOLSET)
}

fn is_script(path: &Path) -> bool {
    has_extension(path, &["py"])
}

fn has_extension(path: &Path, wanted: &[&str]) -> bool {
    path.extension().and_then(|it| it.to_str()).is_some_and(|it| wanted.contains(&it))
}

/// Reads the scanned files: manifests first, then scripts that no manifest names.
pub(super) fn read(seen: &Seen, allowed_root: &Path, memory: &mut Memory) -> (Manifests, Vec<ManifestError>) {
    let mut reading = Reading::default();
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
        match read_one(file, Rules { allowed_root, toolset }) {
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
    for (script, _) in seen.iter().filter(|(file, _)| is_script(file)) {
        let folder = script.parent().unwrap_or(Path::new("."));
        if reading.claimed.contains(script) || reading.claimed.contains(folder) || memory.named.contains(script) {
            continue;
        }
        match Manifest::for_bare_script(script) {
            Ok(manifest) => reading.insert(script, manifest),
            Err(error) => reading.errors.push(error),
        }
    }
    memory.good = good;
    memory.toolsets = toolsets;
    (reading.manifests, reading.errors)
}

/// The files that manifests name and that are not watched for their own sake: programs, and files outside the top level of a
/// skill folder.
pub(super) fn named(manifests: &Manifests, folders: &[PathBuf]) -> Vec<PathBuf> {
    let elsewhere = |file: &&Path| !matters(file) || !folders.iter().any(|folder| file.parent() == Some(folder));
    manifests.values().filter_map(|it| it.how.file()).filter(elsewhere).map(Path::to_owned).collect()
}

#[derive(Default)]
struct Reading {
    manifests: BTreeMap<String, Manifest>,
    errors: Vec<ManifestError>,
    /// Scripts of manifests, and folders with a manifest whose script is unknown.
    claimed: HashSet<PathBuf>,
    size: usize,
}

impl Reading {
    fn insert(&mut self, file: &Path, manifest: Manifest) {
        self.claimed.extend(manifest.how.file().map(Path::to_owned));
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
        self.errors.push(ManifestError { file: file.to_owned(), line: 1, reason });
    }

    /// The toolsets by folder. An invalid one keeps its last valid state, if it had one; the error is reported.
    fn toolsets(&mut self, seen: &Seen, last: &HashMap<PathBuf, Toolset>) -> HashMap<PathBuf, Toolset> {
        let mut toolsets = HashMap::new();
        for (file, _) in seen.iter().filter(|(file, _)| is_toolset(file)) {
            let read = read_text(file).and_then(|text| Toolset::parse(file, &text));
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
}

/// Reads one manifest. On failure it also gives the text, as far as it could be read.
fn read_one(file: &Path, rules: Rules<'_>) -> Result<Manifest, (ManifestError, String)> {
    let text = read_text(file).map_err(|error| (error, String::new()))?;
    Manifest::parse(file, &text, rules).map_err(|error| (error, text))
}

fn read_text(file: &Path) -> Result<String, ManifestError> {
    let fail = |reason: String| ManifestError { file: file.to_owned(), line: 1, reason };
    let size = std::fs::metadata(file).map_err(|error| fail(error.to_string()))?.len();
    if size > MAX_MANIFEST_BYTES {
        return Err(fail(format!("over {MAX_MANIFEST_BYTES} bytes")));
    }
    std::fs::read_to_string(file).map_err(|error| fail(error.to_string()))
}
