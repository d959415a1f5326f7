//! The project: the directory with `openskill.toml`, in which relative paths of its files begin.

#[cfg(feature = "worker")]
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::problem::SettingProblem;

/// The file that makes a directory a project.
pub(crate) const FILE_NAME: &str = "openskill.toml";

/// The variable that names the file, wherever it is. It is not a setting, because it decides where settings are read.
pub(crate) const VARIABLE: &str = "OPENSKILL_CONFIG";

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Project {
    /// Its settings file, as an absolute path.
    pub(crate) file: PathBuf,
}

impl Project {
    /// Opens the project with this file, which must exist. `here`: the current directory.
    ///
    /// # Errors
    /// There is no such file.
    pub(super) fn open(file: &Path, here: &Path) -> Result<Self, SettingProblem> {
        let file: PathBuf = here.join(file).components().collect();
        match std::fs::metadata(&file) {
            Ok(found) if found.is_dir() => {
                let reason = format!("'{}' is a directory: name the file in it", file.display());
                Err(SettingProblem::new(VARIABLE, "--config or environment", reason))
            }
            Ok(_) => Ok(Self { file }),
            Err(error) => {
                let reason = format!("'{}' cannot be read: {error}", file.display());
                Err(SettingProblem::new(VARIABLE, "--config or environment", reason))
            }
        }
    }

    /// Finds the project of a directory: the nearest directory with the file, from this one upwards. The search ends
    /// at the root of a repository. `user`: the current user.
    pub(super) fn find(here: &Path, user: u32, warnings: &mut Vec<String>) -> Option<Self> {
        for folder in here.ancestors() {
            let file = folder.join(FILE_NAME);
            let exists = file.symlink_metadata().is_ok();
            if exists && (folder == here || is_trusted(&file, user, warnings)) {
                return Some(Self { file });
            }
            if folder.join(".git").symlink_metadata().is_ok() {
                break;
            }
        }
        None
    }

    /// Returns the directory in which the file is.
    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    /// Returns the project's directory below the user's state directory. Its name is that of the project and a hash of
    /// the file's path, so that no two projects share it.
    #[cfg(feature = "worker")]
    pub(crate) fn state_folder(&self, state: &Path) -> PathBuf {
        // Links in the directory are resolved, so that it is the same project by every path. The file itself may be a
        // link whose target changes at each deployment.
        let folder = self.folder().canonicalize().unwrap_or_else(|_| self.folder().to_owned());
        let path = folder.join(self.file.file_name().unwrap_or(OsStr::new(FILE_NAME)));
        let is_plain = |it: &char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
        let name: String = folder.file_name().unwrap_or_default().to_string_lossy().chars().filter(is_plain).collect();
        let name = if name.is_empty() { "project" } else { &name[..name.len().min(40)] };
        state.join("projects").join(format!("{name}-{:016x}", stable_hash(path.as_os_str().as_encoded_bytes())))
    }
}

/// Returns whether a file above the current directory does not belong to another user, who would choose programs to run.
/// Otherwise, adds a warning.
pub(super) fn is_trusted(file: &Path, user: u32, warnings: &mut Vec<String>) -> bool {
    let is_trusted = file.symlink_metadata().map_or(true, |it| [user, 0].contains(&it.uid()));
    if !is_trusted {
        let settings = file.with_file_name(FILE_NAME);
        let (file, settings) = (file.display(), settings.display());
        warnings.push(format!("file of another user ignored: {file}; `--config {settings}` uses it"));
    }
    is_trusted
}

/// FNV-1a, which is the same in every release.
#[cfg(feature = "worker")]
fn stable_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("openskill-project-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        folder.canonicalize().unwrap()
    }

    #[test]
    fn a_project_is_found_from_below_but_not_from_outside_its_repository() {
        let top = folder("found");
        std::fs::write(top.join(FILE_NAME), "").unwrap();
        let find = |below: &str, user| {
            let mut warnings = Vec::new();
            let project = Project::find(&top.join(below), user, &mut warnings);
            (project, warnings.join(""))
        };
        // For the superuser, who may read all of its own files.
        let _ = std::os::unix::fs::chown(top.join(FILE_NAME), Some(4242), None);
        let user = top.join(FILE_NAME).metadata().unwrap().uid();
        let project = find("a/b", user).0.unwrap();
        assert_eq!((project.folder(), &project.file), (top.as_path(), &top.join(FILE_NAME)));
        let (none, warning) = find("a/b", user + 1);
        assert!(none.is_none() && warning.contains("--config /"), "{warning}");
        assert_eq!(find("", user + 1), (Some(project.clone()), String::new()));
        std::fs::write(top.join("a/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(find("a/b", user), (None, String::new()));
        assert_eq!(
            Project::open(Path::new("../../openskill.toml"), &top.join("a/b")).unwrap().file.file_name(),
            project.file.file_name()
        );
        assert!(Project::open(Path::new("missing.toml"), &top).unwrap_err().reason.contains("missing.toml"));
        assert!(Project::open(Path::new("a"), &top).unwrap_err().reason.contains("directory"));
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    #[cfg(feature = "worker")]
    fn projects_have_state_of_their_own() {
        let top = folder("state");
        let state = |file: &str| Project { file: top.join(file) }.state_folder(Path::new("/state"));
        let (one, other) = (state("a/openskill.toml"), state("a/b/openskill.toml"));
        assert!(one.starts_with("/state/projects") && one != other, "{one:?} {other:?}");
        assert_ne!(one, state("a/staging.toml"));
        std::os::unix::fs::symlink(top.join("a"), top.join("link")).unwrap();
        assert_eq!(state("link/openskill.toml"), one);
        std::fs::remove_dir_all(&top).unwrap();
    }
}
