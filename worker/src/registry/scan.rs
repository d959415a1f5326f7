//! Reads the files in skill folders and finds the skills that they declare.
//!
//! A subfolder with a `toolset.yaml` is a toolset, and its manifests and functions are the toolset's skills. Scripts
//! without a manifest become skills only if they are directly in a skill folder.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use openskill_proto::limits::{MAX_SKILLS, MAX_STATE_BYTES};
use openskill_sandbox::plain_file::NotPlain;
use openskill_skill::versions::{MAX_VERSIONS, compare};
use sha2::{Digest as _, Sha256};

use super::functions::{FileFunctions, FunctionManifest, MAX_SCRIPT_BYTES, may_have_functions};
use super::look::{FileStamps, Folders, is_lock, is_manifest, is_script, is_toolset, matters};
use super::reread::RereadBackoff;
use super::sources::SkillSources;
use crate::manifest::{MAX_MANIFEST_BYTES, Manifest, ManifestError, Rules, Toolset};

/// The maximum number of Python files with functions, and the maximum time that one scan takes to parse them.
const MAX_FUNCTION_FILES: usize = 256;
const MAX_PARSE_TIME: Duration = Duration::from_secs(30);

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
    /// The files that declare each skill, by id: one for each version. They keep the id when another file declares it.
    declared: HashMap<String, Vec<PathBuf>>,
    /// The shipped skills that others with the same ids hide.
    hidden: Vec<String>,
    /// Python files that may have functions, so that an unchanged one is not parsed again.
    functions: HashMap<PathBuf, FunctionFile>,
    /// Decides when to read again files that another process locked.
    pub(super) reread: RereadBackoff,
}

/// The functions of a Python file, as of its last valid version.
#[derive(Debug, Default)]
struct FunctionFile {
    /// The SHA-256 hash of the text with these functions.
    digest: [u8; 32],
    functions: FileFunctions,
    manifests: Vec<FunctionManifest>,
    /// The hash of a later text without functions, which may be half written.
    unconfirmed: Option<[u8; 32]>,
}

/// Reads the scanned files: manifests first, then scripts that no manifest names. Returns the manifests by id, the newest
/// version first.
pub(super) fn read(
    folders: &Folders,
    seen: &FileStamps,
    sources: &SkillSources,
    memory: &mut Memory,
) -> (Vec<Manifest>, Vec<ManifestError>) {
    let allowed_root = sources.allowed_root.as_path();
    let mut reading = Reading::new(folders, sources.shipped.as_deref());
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
                reading.claim(file, 1, manifest);
            }
            Err((error, text)) => {
                reading.errors.push(error);
                match memory.good.remove(file) {
                    Some(last) => {
                        good.insert(file.clone(), last.clone());
                        reading.claim(file, 1, last);
                    }
                    None => reading.claim_scripts(file, &text),
                }
            }
        }
    }
    let (mut functions, mut bare, mut modules) = (HashMap::new(), Vec::new(), HashSet::new());
    for (script, stamp) in seen.iter().filter(|(file, _)| is_script(file)) {
        let folder = script.parent().unwrap_or(Path::new("."));
        if reading.claimed.contains(script) || unread(folder) || memory.named.contains(script) {
            continue;
        }
        let toolset = toolsets.get(folder);
        let rules = Rules { allowed_root, toolset };
        let plain =
            stamp.as_ref().map_or(Ok(()), |it| it.plain).map_err(|it| ManifestError::new(script, 1, it.to_string()));
        if let Err(error) = plain {
            reading.errors.push(error);
            continue;
        }
        if let Some(file) = reading.functions(script, sources, rules, memory.functions.remove(script), functions.len())
        {
            let is_script = file.functions.is_empty() && file.manifests.is_empty() && file.digest != [0; 32];
            file.manifests.iter().for_each(|it| reading.claim(script, it.line, it.manifest.clone()));
            if !is_script {
                modules.extend(file.functions.modules().map(|it| folder.join(it).with_extension("py")));
                if file.functions.modules().next().is_none() {
                    // It can't be parsed yet, and may import any script beside it.
                    reading.claimed.insert(folder.to_owned());
                }
            }
            functions.insert(script.clone(), file);
            if !is_script {
                continue;
            }
        }
        if toolset.is_none() && !is_private_module(script) {
            bare.push(script);
        }
    }
    // Last, because only now are all imports known. An invalid manifest may have settings for any script beside it.
    for script in bare {
        let folder = script.parent().unwrap_or(Path::new("."));
        if modules.contains(script) || reading.claimed.contains(script) || reading.claimed.contains(folder) {
            continue;
        }
        match Manifest::for_bare_script(script) {
            Ok(manifest) => reading.claim(script, 1, manifest),
            Err(error) => reading.errors.push(error),
        }
    }
    reading.insert_all(&memory.declared);
    if reading.hidden != memory.hidden {
        tracing::info!(skills = reading.hidden.join(", "), "shipped skills that the project's own skills replace");
    }
    memory.hidden = reading.hidden;
    memory.declared = reading.declared;
    memory.functions = functions;
    memory.good = good;
    memory.toolsets = toolsets;
    // Runners read lock files later.
    let is_held =
        reading.retry || seen.iter().any(|(file, _)| is_lock(file) && folders.read(file, 0) == Err(NotPlain::Held));
    memory.reread.note(is_held);
    let mut manifests = Vec::with_capacity(reading.count);
    for mut versions in reading.manifests.into_values() {
        versions.sort_by(|one, other| compare(&other.version, &one.version));
        manifests.extend(versions);
    }
    (manifests, reading.errors)
}

/// Returns files that manifests name and that are not watched otherwise: programs, and files outside skill folders and
/// toolsets.
pub(super) fn named_files(manifests: &[Manifest], folders: &[PathBuf], memory: &Memory) -> Vec<PathBuf> {
    let is_listed = |folder: &Path| memory.toolsets.contains_key(folder) || folders.iter().any(|it| it == folder);
    let elsewhere = |file: &PathBuf| !matters(file) || !file.parent().is_some_and(is_listed);
    let files = manifests.iter().flat_map(|it| [it.how.files(), it.offerings.files()].concat());
    files.filter(elsewhere).collect()
}

/// Returns whether the text after `entry:` is certainly a path, and not other YAML.
fn is_plain_path(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"._-/".contains(&it))
}

/// Returns whether a script's name begins with `_`, as those of modules do that only other files import.
fn is_private_module(script: &Path) -> bool {
    script.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"_"))
}

/// A skill that a line of a file declares.
struct DeclaredSkill {
    file: PathBuf,
    line: usize,
    manifest: Manifest,
}

struct Reading<'a> {
    folders: &'a Folders,
    shipped: Option<&'a Path>,
    /// All valid skills in the order of their files, with those of scripts without a manifest.
    found: Vec<DeclaredSkill>,
    /// The versions of each skill, by id.
    manifests: BTreeMap<String, Vec<Manifest>>,
    count: usize,
    /// The file of each of `manifests`.
    declared: HashMap<String, Vec<PathBuf>>,
    /// The ids of shipped skills that are not served, because others have them.
    hidden: Vec<String>,
    errors: Vec<ManifestError>,
    /// Scripts that manifests name, and folders with a manifest whose script is unknown.
    claimed: HashSet<PathBuf>,
    size: usize,
    /// Whether one of the files could not be read now, but perhaps later: another process locked it, for example.
    retry: bool,
    begun: Instant,
}

impl<'a> Reading<'a> {
    fn new(folders: &'a Folders, shipped: Option<&'a Path>) -> Self {
        Self {
            folders,
            shipped,
            found: Vec::new(),
            manifests: BTreeMap::new(),
            count: 0,
            declared: HashMap::new(),
            hidden: Vec::new(),
            errors: Vec::new(),
            claimed: HashSet::new(),
            size: 0,
            retry: false,
            begun: Instant::now(),
        }
    }

    /// Adds a skill that `line` of a file declares. Its scripts are then not served on their own.
    fn claim(&mut self, file: &Path, line: usize, manifest: Manifest) {
        self.claimed.extend(manifest.how.files());
        self.claimed.insert(file.with_extension("py"));
        self.found.push(DeclaredSkill { file: file.to_owned(), line, manifest });
    }

    /// Inserts all manifests: first those of skills that are served already, so that no new file takes an id over, except
    /// that of a shipped skill. `before`: the files of each skill until now.
    fn insert_all(&mut self, before: &HashMap<String, Vec<PathBuf>>) {
        let mut found = std::mem::take(&mut self.found);
        let is_new = |it: &DeclaredSkill| !before.get(&it.manifest.id).is_some_and(|files| files.contains(&it.file));
        found.sort_by_key(|it| self.is_shipped(&it.file) || is_new(it));
        found.into_iter().for_each(|it| self.insert(it));
    }

    fn is_shipped(&self, file: &Path) -> bool {
        self.shipped.is_some_and(|folder| file.starts_with(folder))
    }

    fn insert(&mut self, DeclaredSkill { file, line, manifest }: DeclaredSkill) {
        if self.is_shipped(&file) && self.declared.contains_key(&manifest.id) {
            self.hidden.push(manifest.id);
            return;
        }
        self.size += manifest.description_size();
        let versions = self.manifests.entry(manifest.id.clone()).or_default();
        let files = self.declared.entry(manifest.id.clone()).or_default();
        // A file in another folder, such as another toolset, takes no calls from this one with a newer version.
        let coexists = |other: &Manifest, by: &Path| manifest.can_coexist_with(other) && file.parent() == by.parent();
        let taken = versions.iter().zip(files.iter()).find(|(other, by)| !coexists(other, by));
        let reason = if self.count >= MAX_SKILLS {
            format!("a worker has at most {MAX_SKILLS} skills")
        } else if self.size > MAX_STATE_BYTES / 2 {
            format!("the descriptions of a worker's skills are over {} bytes", MAX_STATE_BYTES / 2)
        } else if let Some((_, other)) = taken {
            format!("the skill id '{}' is taken by {}; this file is ignored", manifest.id, other.display())
        } else if versions.len() >= MAX_VERSIONS {
            format!("a worker serves at most {MAX_VERSIONS} versions of a skill")
        } else {
            self.count += 1;
            files.push(file);
            versions.push(manifest);
            return;
        };
        self.errors.push(ManifestError::new(&file, line, reason));
    }

    /// Reads a Python file's functions, which are skills. Returns `None` if it has none. `last`: its last valid
    /// version. `files`: the number of files with functions that were read before.
    fn functions(
        &mut self,
        file: &Path,
        sources: &SkillSources,
        rules: Rules<'_>,
        last: Option<FunctionFile>,
        files: usize,
    ) -> Option<FunctionFile> {
        let text = match self.text(file, MAX_SCRIPT_BYTES) {
            Ok(text) => text,
            Err(error) => {
                // Without an earlier version, it is unknown whether it has any.
                let last = last.filter(|it| !it.manifests.is_empty())?;
                self.errors.push(error);
                return Some(last);
            }
        };
        let may_have = may_have_functions(&text);
        if !may_have && last.as_ref().is_none_or(|it| it.manifests.is_empty()) {
            return None;
        }
        let digest: [u8; 32] = Sha256::digest(&text).into();
        let mut last = last.unwrap_or_default();
        let mut functions = if last.digest == digest {
            std::mem::take(&mut last.functions)
        } else if !may_have {
            FileFunctions::default()
        } else {
            match self.parse(file, &text, sources, files) {
                Ok(functions) => functions,
                Err(error) => {
                    self.errors.push(error);
                    return Some(last);
                }
            }
        };
        if functions.is_empty() && !last.manifests.is_empty() && last.unconfirmed != Some(digest) {
            // The file may be half written. It becomes a plain script when the next scan reads the same text.
            self.retry = true;
            return Some(FunctionFile { unconfirmed: Some(digest), ..last });
        }
        functions.inherit_modules(last.functions);
        let (mut manifests, problems) = functions.resolve(file, rules);
        for problem in problems {
            self.errors.push(ManifestError::new(file, problem.line, problem.reason));
            // An invalid function keeps its last valid version. A problem without a function concerns all of them.
            for it in last.manifests.iter().filter(|it| [it.function(), ""].contains(&problem.function.as_str())) {
                if manifests.iter().all(|other| other.function() != it.function()) {
                    manifests.push(it.clone());
                }
            }
        }
        Some(FunctionFile { digest, functions, manifests, unconfirmed: None })
    }

    fn parse(
        &mut self,
        file: &Path,
        text: &str,
        sources: &SkillSources,
        files: usize,
    ) -> Result<FileFunctions, ManifestError> {
        if files >= MAX_FUNCTION_FILES {
            let reason = format!("a worker has at most {MAX_FUNCTION_FILES} Python files with functions");
            return Err(ManifestError::new(file, 1, reason));
        }
        if self.begun.elapsed() > MAX_PARSE_TIME {
            self.retry = true;
            let reason = "its functions are not read yet: parsing the other files took too long";
            return Err(ManifestError::new(file, 1, reason.to_owned()));
        }
        // An error means that the process could not be started or was too slow, which may pass.
        sources.functions.read(file, text).inspect_err(|_| self.retry = true)
    }

    /// Reads all toolsets, by folder. Reports the error of an invalid one, and keeps its last valid state if there
    /// is one.
    fn toolsets(&mut self, seen: &FileStamps, last: &HashMap<PathBuf, Toolset>) -> HashMap<PathBuf, Toolset> {
        let mut toolsets = HashMap::new();
        for (file, _) in seen.iter().filter(|(file, _)| is_toolset(file)) {
            let read = self.text(file, MAX_MANIFEST_BYTES).and_then(|text| Toolset::parse(file, &text));
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
            Some(entry) if is_plain_path(entry) => self.claimed.insert(folder.join(entry)),
            _ => self.claimed.insert(folder.to_owned()),
        };
    }

    /// Reads one manifest. The error includes the text, if it could be read.
    fn read_one(&mut self, file: &Path, rules: Rules<'_>) -> Result<Manifest, (ManifestError, String)> {
        let text = self.text(file, MAX_MANIFEST_BYTES).map_err(|error| (error, String::new()))?;
        Manifest::parse(file, &text, rules).map_err(|error| (error, text))
    }

    fn text(&mut self, file: &Path, most: u64) -> Result<String, ManifestError> {
        let read = self.folders.read(file, most);
        self.retry |= read == Err(NotPlain::Held);
        read.map_err(|reason| ManifestError::new(file, 1, reason.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use openskill_skill::versions::NO_VERSION;

    use super::*;
    use crate::registry::functions::FunctionReader;

    #[test]
    fn versions_stand_side_by_side_and_a_new_file_takes_no_version_that_is_served() {
        let top = std::env::temp_dir().join(format!("openskill-scan-{}", std::process::id()));
        std::fs::create_dir_all(top.join("tools")).unwrap();
        std::fs::write(top.join("tools/toolset.yaml"), "toolset: tools\n").unwrap();
        let write = |name: &str, version: &str| {
            let text = format!("id: shout\nversion: {version}\ntype: inproc\nentry: echo\n");
            std::fs::write(top.join(name), text).unwrap();
        };
        let functions = FunctionReader::new(None);
        let sources = SkillSources { folders: Vec::new(), shipped: None, allowed_root: top.clone(), functions };
        let scan = |memory: &mut Memory| {
            let folders = Folders::open(std::slice::from_ref(&top));
            let (manifests, errors) = read(&folders, &folders.stamp_files(&[], &Vec::new()), &sources, memory);
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            (manifests.into_iter().map(|it| it.version).collect::<Vec<_>>().join(" "), errors)
        };
        let taken = |file: &str, by: &str| {
            let [file, by] = [file, by].map(|it| top.join(it).display().to_string());
            format!("{file}:1: the skill id 'shout' is taken by {by}; this file is ignored")
        };
        let mut memory = Memory::default();
        write("shout.yaml", "1");
        assert_eq!(scan(&mut memory), ("1".to_owned(), vec![]));
        write("aaa.yaml", "1");
        assert_eq!(scan(&mut memory), ("1".to_owned(), vec![taken("aaa.yaml", "shout.yaml")]));
        // A worker that starts now knows of neither.
        assert_eq!(scan(&mut Memory::default()), ("1".to_owned(), vec![taken("shout.yaml", "aaa.yaml")]));
        write("aaa.yaml", "2");
        assert_eq!(scan(&mut memory), ("2 1".to_owned(), vec![]));
        // Only files of one folder are versions of a skill.
        write("tools/shout.yaml", "99");
        assert_eq!(scan(&mut memory), ("2 1".to_owned(), vec![taken("tools/shout.yaml", "aaa.yaml")]));
        std::fs::remove_file(top.join("tools/shout.yaml")).unwrap();
        // A manifest without a version shares its id with no other.
        write("zzz.yaml", NO_VERSION);
        assert_eq!(scan(&mut memory).1, [taken("zzz.yaml", "aaa.yaml")]);
        std::fs::remove_file(top.join("zzz.yaml")).unwrap();
        // A script without a manifest is served under its name, and keeps it too.
        std::fs::remove_file(top.join("shout.yaml")).unwrap();
        assert_eq!(scan(&mut memory), ("2".to_owned(), vec![]));
        std::fs::remove_file(top.join("aaa.yaml")).unwrap();
        std::fs::write(top.join("shout.py"), "").unwrap();
        std::fs::write(top.join("_texts.py"), "").unwrap();
        assert_eq!(scan(&mut memory), ("0.0.0".to_owned(), vec![]));
        write("aaa.yaml", "3");
        assert_eq!(scan(&mut memory), ("0.0.0".to_owned(), vec![taken("aaa.yaml", "shout.py")]));
        // Files with functions are served beside an invalid manifest; modules that they import are not.
        write("bad.yaml", "1");
        let text = std::fs::read_to_string(top.join("bad.yaml")).unwrap().replace("entry", "enrty");
        std::fs::write(top.join("bad.yaml"), text).unwrap();
        let text = "import helper\nfrom openskill_sdk import skill\n@skill(version='9')\ndef whisper(): pass\n";
        std::fs::write(top.join("texts.py"), text).unwrap();
        std::fs::write(top.join("helper.py"), "").unwrap();
        let shouts = |name: &str| format!("from openskill_sdk import skill\n@skill(version='8')\ndef {name}(): pass\n");
        // Files that import each other, in both orders of their names.
        std::fs::write(top.join("zebra.py"), shouts("zebra") + "import texts\n").unwrap();
        std::fs::write(top.join("aardvark.py"), shouts("aardvark") + "import texts\n").unwrap();
        let mut memory = Memory::default();
        assert_eq!(scan(&mut memory).0, "8 3 9 8");
        std::fs::remove_file(top.join("bad.yaml")).unwrap();
        assert_eq!(scan(&mut memory).0, "8 3 9 8");
        // A file with a mistake still imports what it did.
        std::fs::write(top.join("texts.py"), "from openskill_sdk import skill\nimport (").unwrap();
        assert_eq!(scan(&mut memory).0, "8 3 9 8");
        // A file that was never parsed may import any.
        assert!(!scan(&mut Memory::default()).0.contains("0.0.0"));
        // What an invalid manifest may mean by its entry is not served.
        for entry in ["helper.py # it", "&x helper.py", "{type: string}"] {
            std::fs::write(top.join("bad.yaml"), format!("id: bad\nentry: {entry}\nenrty: x\n")).unwrap();
            std::fs::write(top.join("texts.py"), "").unwrap();
            assert!(!scan(&mut Memory::default()).0.contains("0.0.0"), "{entry}");
        }
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_file_keeps_its_functions_until_two_scans_read_the_same_text_without_any() {
        let top = std::env::temp_dir().join(format!("openskill-scan-functions-{}", std::process::id()));
        std::fs::create_dir_all(&top).unwrap();
        let (head, file) = ("from openskill_sdk import skill\n", top.join("texts.py"));
        let functions = FunctionReader::new(None);
        let mut sources = SkillSources { folders: Vec::new(), shipped: None, allowed_root: top.clone(), functions };
        let mut memory = Memory::default();
        let mut scan = |timeout: Duration| {
            sources.functions.timeout = timeout;
            let folders = Folders::open(std::slice::from_ref(&top));
            let (manifests, _) = read(&folders, &folders.stamp_files(&[], &Vec::new()), &sources, &mut memory);
            let ids: Vec<_> = manifests.into_iter().map(|it| it.id).collect();
            (ids, memory.reread.left.is_some())
        };
        let shout = || vec!["shout".to_owned()];
        std::fs::write(&file, format!("{head}@skill\ndef shout(): pass\n")).unwrap();
        // The machine is too slow to parse it.
        assert_eq!(scan(Duration::ZERO), (vec![], true));
        let mut scan = || scan(Duration::from_secs(60));
        assert_eq!(scan(), (shout(), false));
        for begun in ["", "import openskill_sdk\n@print\nclass A: pass\n"] {
            std::fs::write(&file, begun).unwrap();
            assert_eq!(scan(), (shout(), true));
        }
        assert_eq!(scan(), (vec!["texts".to_owned()], false));
        std::fs::remove_dir_all(&top).unwrap();
    }
}
