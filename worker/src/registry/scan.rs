//! Looking at skill folders: which files there are, and what they say.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use openskill_proto::limits::MAX_SKILLS;

use crate::manifest::{MAX_MANIFEST_BYTES, Manifest, ManifestError, Manifests, Rules};

/// The files that matter, in the order of their folders and then names, each with what tells a change.
pub(super) type Seen = Vec<(PathBuf, Stamp)>;

/// Time of change, size, inode: one of them differs when a file was written or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    changed_ns: i128,
    size: u64,
    inode: u64,
}

/// The manifests and scripts of the folders. A folder that can't be read is as good as empty, until it can.
pub(super) fn look(folders: &[PathBuf]) -> Seen {
    folders.iter().flat_map(|folder| look_at(folder)).collect()
}

fn look_at(folder: &Path) -> Seen {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Seen = entries
        .filter(|entry| matters(&entry.path()))
        .filter_map(|entry| {
            let metadata = std::fs::metadata(entry.path()).ok().filter(std::fs::Metadata::is_file)?;
            let changed_ns = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
            Some((entry.path(), Stamp { changed_ns, size: metadata.size(), inode: metadata.ino() }))
        })
        .collect();
    files.sort_by(|one, other| one.0.cmp(&other.0));
    files.truncate(2 * MAX_SKILLS);
    files
}

fn matters(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && (is_manifest(path) || has_extension(path, &["py"]))
}

fn is_manifest(path: &Path) -> bool {
    has_extension(path, &["yaml", "yml", "json"])
}

fn has_extension(path: &Path, wanted: &[&str]) -> bool {
    path.extension().and_then(|it| it.to_str()).is_some_and(|it| wanted.contains(&it))
}

/// Reads what was seen. Manifests come first, then scripts that no manifest speaks of.
pub(super) fn read(seen: &Seen, rules: Rules<'_>) -> (Manifests, Vec<ManifestError>) {
    let (mut manifests, mut errors) = (BTreeMap::new(), Vec::new());
    let files = || seen.iter().map(|(path, _)| path.as_path());
    for file in files().filter(|file| is_manifest(file)) {
        match read_one(file, rules) {
            Ok(manifest) => insert(&mut manifests, &mut errors, file, manifest),
            Err(error) => errors.push(error),
        }
    }
    for script in files().filter(|file| has_extension(file, &["py"])) {
        let has_manifest = |extension| seen.iter().any(|(path, _)| *path == script.with_extension(extension));
        // A script whose manifest is broken must not come back without its schema.
        if ["yaml", "yml", "json"].into_iter().any(has_manifest) || is_entry(&manifests, script) {
            continue;
        }
        match Manifest::for_bare_script(script) {
            Ok(manifest) => insert(&mut manifests, &mut errors, script, manifest),
            Err(error) => errors.push(error),
        }
    }
    (manifests, errors)
}

fn insert(manifests: &mut Manifests, errors: &mut Vec<ManifestError>, file: &Path, manifest: Manifest) {
    if manifests.len() >= MAX_SKILLS {
        let reason = format!("a worker has at most {MAX_SKILLS} skills");
        errors.push(ManifestError { file: file.to_owned(), line: 1, reason });
    } else if manifests.contains_key(&manifest.id) {
        let reason = format!("there is a skill '{}' already; this one is left out", manifest.id);
        errors.push(ManifestError { file: file.to_owned(), line: 1, reason });
    } else {
        manifests.insert(manifest.id.clone(), manifest);
    }
}

fn is_entry(manifests: &Manifests, script: &Path) -> bool {
    manifests.values().any(|it| it.entry == crate::manifest::Entry::File(script.to_owned()))
}

fn read_one(file: &Path, rules: Rules<'_>) -> Result<Manifest, ManifestError> {
    let fail = |reason| ManifestError { file: file.to_owned(), line: 1, reason };
    let size = std::fs::metadata(file).map_err(|error| fail(error.to_string()))?.len();
    if size > MAX_MANIFEST_BYTES {
        return Err(fail(format!("over {MAX_MANIFEST_BYTES} bytes")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| fail(error.to_string()))?;
    Manifest::parse(file, &text, rules)
}
