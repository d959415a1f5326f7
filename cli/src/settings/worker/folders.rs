//! The directories that skills need to run, and those of installable tools, which skills must not be able to write.

use std::path::{Path, PathBuf};

use openskill_worker::config::ToolsConfig;
use openskill_worker::shipped::UnpackedSets;

use super::{WorkerSettings, packages};
use crate::settings::problem::{SettingProblem, SettingProblems};
use crate::settings::raw::{Origin, RawSettings};

impl WorkerSettings {
    /// Returns the allowed root, absolute and without symbolic links. Fails and reports each missing directory of
    /// the project.
    pub(crate) fn project_root(&self, raw: &RawSettings) -> Result<PathBuf, SettingProblems> {
        let root = self.real_root().map_err(|reason| raw.problem("OPENSKILL_ALLOWED_ROOT", reason));
        let missing = self.missing_skills(raw);
        match root {
            Ok(root) if missing.is_none() => Ok(root),
            root => Err(SettingProblems(missing.into_iter().chain(root.err()).collect())),
        }
    }

    /// Returns the allowed root, or `None` if nobody chose one and the project or its directory does not exist.
    pub(crate) fn root_outside_project(&self, raw: &RawSettings) -> Result<Option<PathBuf>, SettingProblems> {
        const NAME: &str = "OPENSKILL_ALLOWED_ROOT";
        match self.real_root() {
            Ok(root) => Ok(Some(root)),
            Err(_) if raw.origin(NAME) == Origin::Default => Ok(None),
            Err(reason) => Err(raw.problem(NAME, reason).into()),
        }
    }

    /// Resolves the allowed root to an absolute path without symbolic links.
    fn real_root(&self) -> Result<PathBuf, String> {
        let shown = self.config.allowed_root.display();
        let root = self.config.allowed_root.canonicalize();
        let root = root.map_err(|error| {
            format!(
                "'{shown}' cannot be opened: {error}; create it with: mkdir -p {shown}, or begin a project with \
                 `openskill init`"
            )
        })?;
        match root.parent() {
            Some(_) if root.is_dir() => Ok(root),
            _ => Err(format!("'{shown}' must be a directory other than '/'")),
        }
    }

    /// Unpacks the sets of shipped skills that are served, if there are any. `root` is the allowed root: skills write
    /// there, and must not change what is served.
    pub(crate) fn unpack_sets(&self, root: &Path, raw: &RawSettings) -> Result<Option<UnpackedSets>, SettingProblems> {
        if self.sets.is_empty() {
            return Ok(None);
        }
        let cache =
            packages::in_cache("skills").ok_or_else(|| "there is no cache: set XDG_CACHE_HOME or HOME".to_owned());
        let unpacked = cache.and_then(|cache| {
            if real(&cache).starts_with(root) {
                let (shown, root) = (cache.display(), root.display());
                return Err(format!(
                    "would be unpacked to '{shown}' in the allowed root, where skills may write ('{root}'): set \
                     XDG_CACHE_HOME to a directory elsewhere, or choose another allowed root"
                ));
            }
            UnpackedSets::unpack(&cache, &self.sets)
                .map_err(|error| format!("cannot be unpacked to '{}': {error}; set XDG_CACHE_HOME", cache.display()))
        });
        unpacked.map(Some).map_err(|reason| raw.problem("OPENSKILL_WITH", reason).into())
    }

    /// Returns a problem if no skill directory exists, since then nothing can be served or checked.
    fn missing_skills(&self, raw: &RawSettings) -> Option<SettingProblem> {
        if !self.sets.is_empty() || self.config.skill_dirs.iter().any(|it| it.is_dir()) {
            return None;
        }
        let shown = raw.value("OPENSKILL_CLI_DIR");
        let hint = match raw.origin("OPENSKILL_CLI_DIR") {
            Origin::Default => {
                "run `openskill init` to make a project in this directory, change to your project, or set another directory with \
                 --skills-dir"
            }
            _ => "create it, or set another directory",
        };
        Some(raw.problem("OPENSKILL_CLI_DIR", format!("there is no skill directory '{shown}': {hint}")))
    }

    /// Configures the installable tools. `root` is the allowed root: skills write there, and must not decide what
    /// is installed.
    pub(crate) fn tools(&self, here: &Path, root: &Path, raw: &RawSettings) -> Result<ToolsConfig, SettingProblems> {
        let absolute = |path: &Path| here.join(path).components().collect::<PathBuf>();
        let (folder, index) = (absolute(&self.config.tools.folder), self.config.tools.index.as_deref().map(absolute));
        let given = [("OPENSKILL_TOOLS_DIR", Some(&folder)), ("OPENSKILL_TOOL_INDEX", index.as_ref())];
        let given = given.into_iter().filter_map(|(name, path)| Some((name, path?)));
        let problem = |(name, path): (&str, &PathBuf)| {
            let (shown, root) = (path.display(), root.display());
            let hint = match raw.origin(name) {
                // The user did not choose this directory, but may have chosen the root.
                Origin::Default => {
                    "set it to a directory elsewhere, or set an allowed root below this directory, such as \
                     --allowed-root ./data"
                }
                _ => "choose another directory",
            };
            raw.problem(name, format!("'{shown}' is in the allowed root, where skills may write ('{root}'): {hint}"))
        };
        let problems: Vec<_> = given.filter(|(_, path)| real(path).starts_with(root)).map(problem).collect();
        if problems.is_empty() {
            Ok(ToolsConfig { folder, index, policy: self.config.tools.policy })
        } else {
            Err(SettingProblems(problems))
        }
    }
}

/// Resolves the symbolic links in the part of a path that exists.
fn real(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|it| Some((it, it.canonicalize().ok()?)));
    existing.map_or_else(|| path.to_owned(), |(it, real)| real.join(path.strip_prefix(it).unwrap_or(Path::new(""))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::settings::Settings;

    #[test]
    fn what_is_installed_is_decided_out_of_reach_for_skills() {
        let place = std::env::temp_dir().join(format!("openskill-settings-tools-{}", std::process::id()));
        std::fs::create_dir_all(place.join("data")).unwrap();
        symlink(place.join("data"), place.join("link")).unwrap();
        let (here, root) = (place.canonicalize().unwrap(), place.join("data").canonicalize().unwrap());
        let tools = |values: &[(&'static str, &str)]| {
            let raw = RawSettings::for_test(values);
            Settings::resolve(&raw).unwrap().worker.tools(&here, &root, &raw)
        };
        let found = tools(&[]).unwrap();
        assert_eq!((found.folder, found.index), (here.join("installed-tools"), None));
        let found = tools(&[("OPENSKILL_TOOL_INDEX", "index.toml")]).unwrap();
        assert_eq!(found.index, Some(here.join("index.toml")));
        for (name, value) in [
            ("OPENSKILL_TOOLS_DIR", "data/tools"),
            ("OPENSKILL_TOOLS_DIR", "link/tools"),
            ("OPENSKILL_TOOL_INDEX", "./data/index.toml"),
            ("OPENSKILL_TOOL_INDEX", "link/index.toml"),
        ] {
            let problems = tools(&[(name, value)]).unwrap_err().to_string();
            assert!(problems.contains(name) && problems.contains("where skills may write"), "{value}: {problems}");
        }
        // A root that contains everything, such as `--allowed-root .`.
        let raw = RawSettings::for_test(&[]);
        let worker = Settings::resolve(&raw).unwrap().worker;
        let problem = worker.tools(&here, &here, &raw).unwrap_err().to_string();
        assert!(problem.contains("OPENSKILL_TOOLS_DIR") && problem.contains("--allowed-root ./data"), "{problem}");
        let raw = RawSettings::for_test(&[("OPENSKILL_WITH", "core")]);
        let worker = Settings::resolve(&raw).unwrap().worker;
        let problem = worker.unpack_sets(Path::new("/"), &raw).unwrap_err().to_string();
        assert!(problem.contains("OPENSKILL_WITH") && problem.contains("where skills may write"), "{problem}");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
