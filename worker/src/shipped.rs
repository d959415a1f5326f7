//! The shipped skills, which are part of the program: sets that a project adds to its folder, or that a worker unpacks
//! and serves.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use crate::embedded::{self, EmbeddedFile};

/// The minimum similarity of a misspelled name.
const MIN_SIMILARITY: f64 = 0.75;

/// A set of shipped skills: a toolset with everything that its skills need, as one folder.
#[derive(Debug)]
pub struct SkillSet {
    /// The name of the set, and of its folder.
    pub name: &'static str,
    /// The name of the toolset, which finds the set too.
    pub toolset: &'static str,
    /// Other names that find the set.
    aliases: &'static [&'static str],
    /// What its skills do, in a few words.
    pub purpose: &'static str,
    /// The topics of [`crate::doctor`] that say whether its skills can run on a machine.
    pub needs: &'static [&'static str],
    /// The files in its folder.
    files: &'static [EmbeddedFile],
}

/// All sets, by name.
pub static SETS: [SkillSet; 5] = [
    SkillSet {
        name: "browser",
        toolset: "browser_use",
        aliases: &[],
        purpose: "control a web browser",
        needs: &["browser"],
        files: &include!(concat!(env!("OUT_DIR"), "/browser_use.rs")),
    },
    SkillSet {
        name: "core",
        toolset: "core",
        aliases: &["examples"],
        purpose: "echo, calculate, search files, convert logs, ask the user",
        needs: &["python"],
        files: &include!(concat!(env!("OUT_DIR"), "/core.rs")),
    },
    SkillSet {
        name: "files",
        toolset: "mcp-search-tool",
        aliases: &["code"],
        purpose: "search files and code, list definitions, find and install tools",
        needs: &[],
        files: &include!(concat!(env!("OUT_DIR"), "/mcp-search-tool.rs")),
    },
    SkillSet {
        name: "research",
        toolset: "deepsearch",
        aliases: &[],
        purpose: "research questions, and answer with quotes",
        needs: &["research"],
        files: &include!(concat!(env!("OUT_DIR"), "/deepsearch.rs")),
    },
    SkillSet {
        name: "sandbox",
        toolset: "microsandbox",
        aliases: &["python"],
        purpose: "run Python code that models write",
        needs: &["namespaces", "python"],
        files: &include!(concat!(env!("OUT_DIR"), "/microsandbox.rs")),
    },
];

/// No set has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct UnknownSet {
    name: String,
    nearest: Option<&'static str>,
}

impl fmt::Display for UnknownSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let near = self.nearest.map_or_else(String::new, |it| format!("did you mean {it}? "));
        let all = SETS.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
        write!(f, "no set of shipped skills is called '{}': {near}the sets are {all}", self.name)
    }
}

impl SkillSet {
    /// Finds a set by its name, its toolset, or an alias.
    ///
    /// # Errors
    /// There is none. The error suggests the most similar name, or the set that contains the skill with this id.
    pub fn find(name: &str) -> Result<&'static Self, UnknownSet> {
        if let Some(set) = SETS.iter().find(|set| set.names().any(|it| it == name)) {
            return Ok(set);
        }
        let similarity = |set: &Self| set.names().map(|it| strsim::jaro_winkler(it, name)).fold(0.0, f64::max);
        let similar = SETS.iter().map(|set| (similarity(set), set)).filter(|(score, _)| *score >= MIN_SIMILARITY);
        let similar = similar.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, set)| set);
        let nearest = SETS.iter().find(|set| set.skill_ids().any(|it| it == name)).or(similar);
        Err(UnknownSet { name: name.to_owned(), nearest: nearest.map(|it| it.name) })
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name, self.toolset].into_iter().chain(self.aliases.iter().copied())
    }

    /// Returns the ids of its skills. Each has a manifest with its name.
    pub fn skill_ids(&self) -> impl Iterator<Item = &'static str> {
        let manifests = self.files.iter().filter_map(|(path, _)| path.strip_suffix(".yaml"));
        manifests.filter(|id| *id != "toolset")
    }

    /// Returns its files: the path of each below its folder, and its text.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.files.iter().copied()
    }

    /// Writes its files into a folder. Replaces files, and leaves all others.
    ///
    /// # Errors
    /// A file or folder can't be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        embedded::write(self.files, folder)
    }
}

/// Sets that were unpacked. They stay as long as a process has this.
#[derive(Debug, Clone)]
pub struct UnpackedSets {
    /// The skill folder that has a folder for each set.
    pub folder: PathBuf,
    /// Keeps other processes from removing the folder.
    _lock: Arc<File>,
}

impl UnpackedSets {
    /// Unpacks sets below `cache`, in a folder for these texts that other workers may share. Repairs the folder, which
    /// has only their files. Removes the folders that no process uses.
    ///
    /// # Errors
    /// The cache can't be written, or others can write to it.
    pub fn unpack(cache: &Path, sets: &[&SkillSet]) -> io::Result<Self> {
        embedded::make_cache(cache)?;
        // One process after another: none removes what another one is about to use.
        let turn = open_lock(&cache.join(".lock"))?;
        turn.lock()?;
        let folder = cache.join(embedded::version(sets.iter().flat_map(|it| it.files)));
        let lock = open_lock(&lock_file(&folder))?;
        lock.lock_shared()?;
        embedded::make_readable(cache, &folder)?;
        let files = sets.iter().flat_map(|set| set.files().map(|(path, _)| folder.join(set.name).join(path)));
        for other in embedded::others(&folder, &files.collect())? {
            match fs::remove_file(other) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        for set in sets {
            let own = folder.join(set.name);
            if !embedded::are_in(set.files, &own) {
                embedded::make_readable(&folder, &own)?;
                set.write(&own)?;
            }
        }
        remove_unused(cache, &folder);
        Ok(Self { folder, _lock: Arc::new(lock) })
    }
}

/// Returns the file that processes lock while they use a folder. Everybody can read, and so lock, the folder itself.
fn lock_file(folder: &Path) -> PathBuf {
    folder.with_extension("lock")
}

/// Opens a file to lock, which only its owner can open. The owner's processes hold it briefly, or share it.
fn open_lock(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// Removes the other folders of a cache that no process uses.
fn remove_unused(cache: &Path, used: &Path) {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten().map(|it| it.path());
    for folder in entries.filter(|it| it != used && it.is_dir()) {
        let lock = open_lock(&lock_file(&folder));
        if lock.is_ok_and(|it| it.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(&folder);
            let _ = fs::remove_file(lock_file(&folder));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;

    use super::*;

    fn find(name: &str) -> Result<&'static str, String> {
        SkillSet::find(name).map(|it| it.name).map_err(|it| it.to_string())
    }

    #[test]
    fn a_set_is_found_by_what_users_call_it_and_others_are_suggested() {
        assert_eq!(find("browser").as_deref(), Ok("browser"));
        assert_eq!(find("mcp-search-tool").as_deref(), Ok("files"));
        for (name, near) in
            [("brwser", "browser"), ("echo", "core"), ("deep_search", "research"), ("sandbx", "sandbox")]
        {
            assert!(find(name).unwrap_err().contains(&format!("did you mean {near}?")), "{:?}", find(name));
        }
        assert!(find("x").unwrap_err().ends_with("'x': the sets are browser, core, files, research, sandbox"));
        let names: Vec<_> = SETS.iter().flat_map(SkillSet::names).filter(|it| *it != "core").collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    }

    #[test]
    fn each_shipped_skill_is_in_one_set() {
        let skills = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
        let names = |folder: &Path| fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
        let folders = names(&skills).into_iter().filter(|it| it.is_dir()).flat_map(|it| names(&it));
        let files =
            names(&skills).into_iter().chain(folders).filter(|it| it.extension().is_some_and(|it| it == "yaml"));
        let mut shipped: Vec<_> = files.map(|it| it.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        shipped.retain(|it| it != "toolset");
        shipped.sort();
        let mut ids: Vec<_> = SETS.iter().flat_map(SkillSet::skill_ids).collect();
        ids.sort_unstable();
        assert_eq!(ids, shipped);
    }

    #[test]
    fn sets_are_unpacked_once_and_removed_when_no_process_uses_them() {
        let cache = std::env::temp_dir().join(format!("openskill-shipped-{}", std::process::id()));
        let (core, files) = (SkillSet::find("core").unwrap(), SkillSet::find("files").unwrap());
        let first = UnpackedSets::unpack(&cache, &[core]).unwrap();
        assert!(first.folder.join("core/log_formats/__init__.py").is_file());
        let damaged = first.folder.join("core/echo.py");
        fs::write(&damaged, "").unwrap();
        let strangers = ["more.yaml", "core/__pycache__/json.pyc"].map(|it| first.folder.join(it));
        fs::create_dir_all(first.folder.join("core/__pycache__")).unwrap();
        strangers.iter().for_each(|it| fs::write(it, "").unwrap());
        let (linked, target) = (first.folder.join("core/calculator.py"), cache.join("calculator.py"));
        fs::rename(&linked, &target).unwrap();
        symlink(&target, &linked).unwrap();
        // Anybody can lock a folder.
        let locked = [&cache, &first.folder].map(|it| File::open(it).unwrap());
        locked.iter().for_each(|it| it.lock().unwrap());
        let both = UnpackedSets::unpack(&cache, &[core, files]).unwrap();
        assert!(both.folder != first.folder && damaged.is_file(), "a process still uses it");
        let again = UnpackedSets::unpack(&cache, &[core]).unwrap();
        assert_eq!(again.folder, first.folder);
        assert!(embedded::are_in(core.files, &again.folder.join("core")), "it is repaired");
        assert!(fs::symlink_metadata(&linked).unwrap().is_file(), "a link is replaced");
        assert!(strangers.iter().all(|it| !it.exists()), "no other file is served or imported");
        assert!(open_lock(&lock_file(&first.folder)).unwrap().try_lock().is_err(), "a folder in use is locked");
        drop((first, again));
        let _both = UnpackedSets::unpack(&cache, &[core, files]).unwrap();
        assert!(!damaged.exists());
        fs::remove_dir_all(&cache).unwrap();
    }
}
