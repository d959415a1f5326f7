//! Reads the files in skill folders and finds the skills that they declare.
//!
//! A subfolder with a `toolset.yaml` is a toolset, and its manifests are the toolset's skills. Scripts without a
//! manifest become skills only if they are directly in a skill folder.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use openskill_proto::limits::{MAX_SKILLS, MAX_STATE_BYTES};
use openskill_sandbox::plain_file::NotPlain;

use super::look::{FileStamps, Folders, is_lock, is_manifest, is_script, is_toolset, matters};
use crate::manifest::{MAX_MANIFEST_BYTES, Manifest, ManifestError, Manifests, Rules, Toolset};

/// The maximum wait between retries, in scans.
const MOST_SCANS: u32 = 64;

/// What the registry remembers between scans.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) seen: FileStamps,
    /// Files that manifests name, and folders with them, outside the top level.
    pub(super) named: Vec<PathBuf>,
    /// Each file's last valid manifest, because a file is briefly invalid while it is written.
    good: HashMap<PathBuf, Manifest>,
    /// The last valid toolsets, by folder.
    toolsets: HashMap<PathBuf, Toolset>,
    /// The file that declares each skill, by id. It keeps the id when another file declares the same one.
    declared: HashMap<String, PathBuf>,
    /// Decides when to read again files that another process locked.
    pub(super) reread: RereadBackoff,
}

/// Reads the scanned files: manifests first, then scripts that no manifest names.
pub(super) fn read(
    folders: &Folders,
    seen: &FileStamps,
    allowed_root: &Path,
    memory: &mut Memory,
) -> (Manifests, Vec<ManifestError>) {
    let mut reading = Reading::new(folders);
    let toolsets = reading.toolsets(seen, &memory.toolsets);
    let mut good = HashMap::new();
    let toolset_folders: HashSet<&Path> =
        seen.iter().filter(|(file, _)| is_toolset(file)).filter_map(|(file, _)| file.parent()).collect();
    let unread = |folder: &Path| toolset_folders.contains(folder) && !toolsets.contains_key(folder);
    for (file, _) in seen.iter().filter(|(file, _)| is_manifest(file) && !is_toolset(file)) {
        // An unreadable toolset might disable its skills.
        if file.parent().is_some_and(unread) {
            continue;
        }
        let toolset = file.parent().and_then(|folder| toolsets.get(folder));
        match reading.read_one(file, Rules { allowed_root, toolset }) {
            Ok(manifest) => {
                good.insert(file.clone(), manifest.clone());
                reading.claim(file, manifest);
            }
            Err((error, text)) => {
                reading.errors.push(error);
                match memory.good.remove(file) {
                    Some(last) => {
                        good.insert(file.clone(), last.clone());
                        reading.claim(file, last);
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
        let plain =
            stamp.as_ref().map_or(Ok(()), |it| it.plain).map_err(|it| ManifestError::new(script, 1, it.to_string()));
        match plain.and_then(|()| Manifest::for_bare_script(script)) {
            Ok(manifest) => reading.claim(script, manifest),
            Err(error) => reading.errors.push(error),
        }
    }
    reading.insert_all(&memory.declared);
    memory.declared = reading.declared;
    memory.good = good;
    memory.toolsets = toolsets;
    // Runners read lock files later.
    let is_held =
        reading.held || seen.iter().any(|(file, _)| is_lock(file) && folders.read(file, 0) == Err(NotPlain::Held));
    memory.reread.note(is_held);
    (reading.manifests, reading.errors)
}

/// Returns files that manifests name and that are not watched otherwise: programs, and files outside the top level
/// of a skill folder.
pub(super) fn named_files(manifests: &Manifests, folders: &[PathBuf]) -> Vec<PathBuf> {
    let elsewhere = |file: &PathBuf| !matters(file) || !folders.iter().any(|folder| file.parent() == Some(folder));
    let files = manifests.values().flat_map(|it| [it.how.files(), it.offerings.files()].concat());
    files.filter(elsewhere).collect()
}

struct Reading<'a> {
    folders: &'a Folders,
    /// All valid manifests in the order of their files, with those of scripts that have none.
    found: Vec<(PathBuf, Manifest)>,
    manifests: BTreeMap<String, Manifest>,
    /// The file of each of `manifests`.
    declared: HashMap<String, PathBuf>,
    errors: Vec<ManifestError>,
    /// Scripts that manifests name, and folders with a manifest whose script is unknown.
    claimed: HashSet<PathBuf>,
    size: usize,
    /// Whether another process locked one of the files.
    held: bool,
}

impl<'a> Reading<'a> {
    fn new(folders: &'a Folders) -> Self {
        Self {
            folders,
            found: Vec::new(),
            manifests: BTreeMap::new(),
            declared: HashMap::new(),
            errors: Vec::new(),
            claimed: HashSet::new(),
            size: 0,
            held: false,
        }
    }

    /// Adds a manifest, whose scripts are then not served on their own.
    fn claim(&mut self, file: &Path, manifest: Manifest) {
        self.claimed.extend(manifest.how.files());
        self.claimed.insert(file.with_extension("py"));
        self.found.push((file.to_owned(), manifest));
    }

    /// Inserts all manifests: first those of skills that are served already, so that no new file takes an id over.
    /// `before`: the file of each skill until now.
    fn insert_all(&mut self, before: &HashMap<String, PathBuf>) {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|(file, manifest)| before.get(&manifest.id) != Some(file));
        found.into_iter().for_each(|(file, manifest)| self.insert(file, manifest));
    }

    fn insert(&mut self, file: PathBuf, manifest: Manifest) {
        self.size += manifest.description_size();
        let reason = if self.manifests.len() >= MAX_SKILLS {
            format!("a worker has at most {MAX_SKILLS} skills")
        } else if self.size > MAX_STATE_BYTES / 2 {
            format!("the descriptions of a worker's skills are over {} bytes", MAX_STATE_BYTES / 2)
        } else if let Some(other) = self.declared.get(&manifest.id) {
            format!("the skill id '{}' is taken by {}; this file is ignored", manifest.id, other.display())
        } else {
            self.declared.insert(manifest.id.clone(), file);
            self.manifests.insert(manifest.id.clone(), manifest);
            return;
        };
        self.errors.push(ManifestError::new(&file, 1, reason));
    }

    /// Reads all toolsets, by folder. Reports the error of an invalid one, and keeps its last valid state if there
    /// is one.
    fn toolsets(&mut self, seen: &FileStamps, last: &HashMap<PathBuf, Toolset>) -> HashMap<PathBuf, Toolset> {
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

    /// Prevents the script of an invalid manifest from being served without its schema and limits. If the text
    /// does not name the script, no script in the folder is served without a manifest.
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

    /// Reads one manifest. The error includes the text, if it could be read.
    fn read_one(&mut self, file: &Path, rules: Rules<'_>) -> Result<Manifest, (ManifestError, String)> {
        let text = self.text(file).map_err(|error| (error, String::new()))?;
        Manifest::parse(file, &text, rules).map_err(|error| (error, text))
    }

    fn text(&mut self, file: &Path) -> Result<String, ManifestError> {
        let read = self.folders.read(file, MAX_MANIFEST_BYTES);
        self.held |= read == Err(NotPlain::Held);
        read.map_err(|reason| ManifestError::new(file, 1, reason.to_string()))
    }
}

/// Decides when to read again files that another process locked with a lease. A file's stamp does not change while a lease exists, so a scan sees no change when
/// the lease ends. The retries are 1, 2, 4, ... scans apart, which limits the cost of a skill that takes one lease
/// after another.
#[derive(Debug, Default)]
pub(super) struct RereadBackoff {
    /// The number of scans until the next retry. `None` if no file had a lease.
    left: Option<u32>,
    wait: u32,
}

impl RereadBackoff {
    /// Counts a scan. Returns whether to read the files even if none has changed.
    pub(super) fn is_due(&mut self) -> bool {
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.left == Some(0)
    }

    /// Records whether the last read found files with a lease.
    pub(super) fn note(&mut self, any: bool) {
        self.wait = if any { (2 * self.wait).clamp(1, MOST_SCANS) } else { 0 };
        self.left = any.then_some(self.wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_held_are_read_again_at_growing_intervals() {
        let mut held = RereadBackoff::default();
        assert!(!held.is_due());
        let mut waits = Vec::new();
        for _ in 0..9 {
            held.note(true);
            waits.push((1..).find(|_| held.is_due()).unwrap());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        held.note(false);
        assert!(!held.is_due());
        held.note(true);
        assert!(held.is_due());
    }

    #[test]
    fn a_new_file_takes_no_id_of_a_skill_that_is_served() {
        let top = std::env::temp_dir().join(format!("openskill-scan-{}", std::process::id()));
        std::fs::create_dir_all(&top).unwrap();
        let write = |name: &str, version: &str| {
            let text = format!("id: shout\nversion: {version}\ntype: inproc\nentry: echo\n");
            std::fs::write(top.join(name), text).unwrap();
        };
        let scan = |memory: &mut Memory| {
            let folders = Folders::open(std::slice::from_ref(&top));
            let (manifests, errors) = read(&folders, &folders.stamp_files(&[], &Vec::new()), &top, memory);
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            (manifests["shout"].version.clone(), errors)
        };
        let taken = |file: &str, by: &str| {
            let [file, by] = [file, by].map(|it| top.join(it).display().to_string());
            format!("{file}:1: the skill id 'shout' is taken by {by}; this file is ignored")
        };
        let mut memory = Memory::default();
        write("shout.yaml", "1");
        assert_eq!(scan(&mut memory), ("1".to_owned(), vec![]));
        write("aaa.yaml", "2");
        assert_eq!(scan(&mut memory), ("1".to_owned(), vec![taken("aaa.yaml", "shout.yaml")]));
        // A worker that starts now knows of neither.
        assert_eq!(scan(&mut Memory::default()), ("2".to_owned(), vec![taken("shout.yaml", "aaa.yaml")]));
        // A script without a manifest is served under its name, and keeps it too.
        std::fs::remove_file(top.join("shout.yaml")).unwrap();
        assert_eq!(scan(&mut memory), ("2".to_owned(), vec![]));
        std::fs::remove_file(top.join("aaa.yaml")).unwrap();
        std::fs::write(top.join("shout.py"), "").unwrap();
        assert_eq!(scan(&mut memory), ("0.0.0".to_owned(), vec![]));
        write("aaa.yaml", "3");
        assert_eq!(scan(&mut memory), ("0.0.0".to_owned(), vec![taken("aaa.yaml", "shout.py")]));
        std::fs::remove_dir_all(&top).unwrap();
    }
}
