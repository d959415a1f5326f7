//! The directories that commands need which run skills.

use std::path::PathBuf;

use super::WorkerSettings;
use crate::settings::names;
use crate::settings::problem::{Problem, Problems};
use crate::settings::raw::{Origin, Raw};

impl WorkerSettings {
    /// The allowed root, absolute and without symbolic links, if the directories of a project are there. Says all that is
    /// missing.
    pub(crate) fn project_root(&self, raw: &Raw) -> Result<PathBuf, Problems> {
        let root = self.real_root(raw);
        let Some(missing) = self.missing_skills(raw) else { return root };
        let others = root.err().map(|it| it.0).unwrap_or_default();
        Err(Problems([vec![missing], others].concat()))
    }

    /// The allowed root, absolute and without symbolic links.
    fn real_root(&self, raw: &Raw) -> Result<PathBuf, Problems> {
        let fail = |reason: String| {
            let (name, origin) = (names::ALLOWED_ROOT.to_owned(), raw.origin(names::ALLOWED_ROOT).to_string());
            Problems(vec![Problem { name, origin, reason }])
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

    /// None of the skill directories exists: nothing could be served or checked.
    fn missing_skills(&self, raw: &Raw) -> Option<Problem> {
        if self.skill_dirs.iter().any(|it| it.is_dir()) {
            return None;
        }
        let (name, origin) = (names::CLI_DIR, raw.origin(names::CLI_DIR));
        let shown = raw.value(name);
        let hint = match origin {
            Origin::Default => {
                "`openskill init` makes a project in this directory; or change to your project, or set another one with \
                 --skills-dir"
            }
            _ => "create it, or set another one",
        };
        let reason = format!("there is no skill directory '{shown}': {hint}");
        Some(Problem { name: name.to_owned(), origin: origin.to_string(), reason })
    }
}
