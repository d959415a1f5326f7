//! The directories that commands need which run skills.

use std::path::PathBuf;

use super::names;
use super::problem::{Problem, Problems};
use super::raw::{Origin, Raw};
use super::resolve::Settings;

impl Settings {
    /// The allowed root, absolute and without symbolic links, if the directories of a project are there. Says all that is
    /// missing.
    pub(crate) fn project_root(&self, raw: &Raw) -> Result<PathBuf, Problems> {
        let root = self.real_root(raw);
        let Some(missing) = self.missing_skills(raw) else { return root };
        let others = root.err().map(|it| it.0).unwrap_or_default();
        Err(Problems([vec![missing], others].concat()))
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
