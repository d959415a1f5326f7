//! The settings of installable tools. Skills must not be able to write to these paths.

use std::path::{Path, PathBuf};

use openskill_worker::config::ToolsConfig;

use super::WorkerSettings;
use crate::settings::names;
use crate::settings::problem::{SettingProblem, SettingProblems};
use crate::settings::raw::{Origin, RawSettings};

impl WorkerSettings {
    /// Configures the installable tools. `root` is the allowed root: skills write there, and must not decide what
    /// is installed.
    pub(crate) fn tools(&self, here: &Path, root: &Path, raw: &RawSettings) -> Result<ToolsConfig, SettingProblems> {
        let absolute = |path: &Path| here.join(path).components().collect::<PathBuf>();
        let (folder, index) = (absolute(&self.tools_dir), self.tool_index.as_deref().map(absolute));
        let given = [(names::TOOLS_DIR, Some(&folder)), (names::TOOL_INDEX, index.as_ref())];
        let within = given.into_iter().filter(|(_, path)| path.is_some_and(|it| real(it).starts_with(root)));
        let problem = |(name, path): (&str, Option<&PathBuf>)| {
            let shown = path.map(|it| it.display().to_string()).unwrap_or_default();
            let hint = match raw.origin(name) {
                // The user did not choose this directory, but may have chosen the root.
                Origin::Default => {
                    "set it to a directory elsewhere, or set an allowed root below this directory, such as \
                     --allowed-root ./data"
                }
                _ => "choose another directory",
            };
            let root = root.display();
            let reason = format!("'{shown}' is in the allowed root, where skills may write ('{root}'): {hint}");
            SettingProblem { name: name.to_owned(), origin: raw.origin(name).to_string(), reason }
        };
        let problems: Vec<_> = within.map(problem).collect();
        if problems.is_empty() {
            Ok(ToolsConfig { folder, index, policy: self.tool_install })
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
    use crate::settings::reader::Reader;

    #[test]
    fn what_is_installed_is_decided_out_of_reach_for_skills() {
        let place = std::env::temp_dir().join(format!("openskill-settings-tools-{}", std::process::id()));
        std::fs::create_dir_all(place.join("data")).unwrap();
        symlink(place.join("data"), place.join("link")).unwrap();
        let (here, root) = (place.canonicalize().unwrap(), place.join("data").canonicalize().unwrap());
        let tools = |values: &[(&'static str, &str)]| {
            let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            let raw = RawSettings::read(&flags, |_| None, Path::new("/nonexistent"));
            super::super::read(&mut Reader::new(&raw)).tools(&here, &root, &raw)
        };
        let found = tools(&[]).unwrap();
        assert_eq!((found.folder, found.index), (here.join("installed-tools"), None));
        let found = tools(&[(names::TOOL_INDEX, "index.toml")]).unwrap();
        assert_eq!(found.index, Some(here.join("index.toml")));
        for (name, value) in [
            (names::TOOLS_DIR, "data/tools"),
            (names::TOOLS_DIR, "link/tools"),
            (names::TOOL_INDEX, "./data/index.toml"),
            (names::TOOL_INDEX, "link/index.toml"),
        ] {
            let problems = tools(&[(name, value)]).unwrap_err().to_string();
            assert!(problems.contains(name) && problems.contains("where skills may write"), "{value}: {problems}");
        }
        // A root that contains everything, such as `--allowed-root .`.
        let raw = RawSettings::read(&Vec::new(), |_| None, Path::new("/nonexistent"));
        let problem = super::super::read(&mut Reader::new(&raw)).tools(&here, &here, &raw).unwrap_err().to_string();
        assert!(problem.contains(names::TOOLS_DIR) && problem.contains("--allowed-root ./data"), "{problem}");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
