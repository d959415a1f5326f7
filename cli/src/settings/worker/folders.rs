//! The directories that skills need to run.

use std::path::PathBuf;

use super::WorkerSettings;
use crate::settings::names;
use crate::settings::problem::{SettingProblem, SettingProblems};
use crate::settings::raw::{Origin, RawSettings};

impl WorkerSettings {
    /// Returns the allowed root, absolute and without symbolic links. Fails and reports each missing directory of
    /// the project.
    pub(crate) fn project_root(&self, raw: &RawSettings) -> Result<PathBuf, SettingProblems> {
        let root = self.real_root(raw);
        let Some(missing) = self.missing_skills(raw) else { return root };
        let others = root.err().map(|it| it.0).unwrap_or_default();
        Err(SettingProblems([vec![missing], others].concat()))
    }

    /// Resolves the allowed root to an absolute path without symbolic links.
    fn real_root(&self, raw: &RawSettings) -> Result<PathBuf, SettingProblems> {
        let fail = |reason: String| {
            let (name, origin) = (names::ALLOWED_ROOT.to_owned(), raw.origin(names::ALLOWED_ROOT).to_string());
            SettingProblems(vec![SettingProblem { name, origin, reason }])
        };
        let shown = self.allowed_root.display();
        let root = self.allowed_root.canonicalize();
        let root = root
            .map_err(|error| fail(format!("'{shown}' cannot be opened: {error}; create it with: mkdir -p {shown}")))?;
        match root.parent() {
            Some(_) if root.is_dir() => Ok(root),
            _ => Err(fail(format!("'{shown}' must be a directory other than '/'"))),
        }
    }

    /// Returns a problem if no skill directory exists, since then nothing can be served or checked.
    fn missing_skills(&self, raw: &RawSettings) -> Option<SettingProblem> {
        if self.skill_dirs.iter().any(|it| it.is_dir()) {
            return None;
        }
        let (name, origin) = (names::CLI_DIR, raw.origin(names::CLI_DIR));
        let shown = raw.value(name);
        let hint = match origin {
            Origin::Default => {
                "run `openskill init` to make a project in this directory, change to your project, or set another directory with \
                 --skills-dir"
            }
            _ => "create it, or set another directory",
        };
        let reason = format!("there is no skill directory '{shown}': {hint}");
        Some(SettingProblem { name: name.to_owned(), origin: origin.to_string(), reason })
    }
}
