//! Defines what an environment is built from, and derives its key.

use std::collections::BTreeMap;
use std::sync::Arc;

use openskill_proto::trace::hex;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::requirements::RequirementSet;
use crate::config::{Index, PythonPackages};
use crate::environment::path_text;
use crate::manifest::python::Needs;
use crate::runners::python::interpreter::Interpreter;

/// Increment this when the build procedure changes, so that workers no longer use older environments.
const FORMAT: u32 = 1;

/// The inputs of a build, and the key that is derived from them.
pub(super) struct Recipe {
    /// The first skill that needed it.
    pub(super) skill: String,
    pub(super) key: String,
    pub(super) base: Arc<Interpreter>,
    pub(super) wanted: RequirementSet,
    pub(super) source_builds: bool,
    pub(super) require_hashes: bool,
}

impl Recipe {
    pub(super) fn new(
        skill: &str,
        base: Arc<Interpreter>,
        wanted: RequirementSet,
        needs: &Needs,
        settings: &PythonPackages,
    ) -> Self {
        let Needs { source_builds, require_hashes, .. } = *needs;
        let key = key(&base, &wanted, (source_builds, require_hashes), settings);
        Self { skill: skill.to_owned(), key, base, wanted, source_builds, require_hashes }
    }

    /// Returns the record that is stored with an environment, for people.
    pub(super) fn record(&self, installer: &str) -> String {
        let requirements = match &self.wanted {
            RequirementSet::Lines(lines) => json!(lines),
            RequirementSet::Lock { .. } => json!("uv.lock"),
        };
        let record: BTreeMap<_, _> = [
            ("python", json!(path_text(&self.base.path))),
            ("requirements", requirements),
            ("installer", json!(installer)),
            ("skill", json!(self.skill)),
        ]
        .into();
        json!(record).to_string()
    }
}

/// Derives the key that identifies an environment.
fn key(
    base: &Interpreter,
    wanted: &RequirementSet,
    (source_builds, require_hashes): (bool, bool),
    settings: &PythonPackages,
) -> String {
    let wanted = match wanted {
        RequirementSet::Lines(lines) => json!(lines),
        RequirementSet::Lock { project, lock } => json!({"project": project, "lock": lock}),
    };
    let index = match &settings.index {
        Index::Configured => json!(null),
        Index::None => json!(false),
        Index::Url(url) => json!(url),
    };
    let mut all = json!({
        "format": FORMAT,
        "interpreter": [path_text(&base.path), base.tag],
        "wanted": wanted,
        "source_builds": source_builds,
        "index": index,
        "find_links": settings.find_links,
    });
    if require_hashes {
        // Added only if set, so that other environments keep their keys.
        all["require_hashes"] = json!(true);
    }
    hex(&Sha256::digest(all.to_string().as_bytes())[..16])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::config::{AllowList, Builds, Installer, Variables};

    #[test]
    fn only_what_decides_on_the_packages_makes_another_environment() {
        let base = Interpreter {
            path: "/usr/bin/python3".into(),
            version: (3, 12),
            prefixes: Vec::new(),
            tag: "cpython-312".to_owned(),
            environment: None,
            has_sdk: false,
        };
        let settings = PythonPackages {
            store: None,
            installer: Installer::Auto,
            index: Index::Configured,
            find_links: None,
            for_sessions: AllowList::default(),
            build_timeout: Duration::from_secs(1),
            keep: None,
            builds: Builds::All,
            variables: Variables::default(),
            progress: |_| {},
        };
        let lines = |lines: &[&str]| RequirementSet::Lines(lines.iter().map(|it| (*it).to_owned()).collect());
        let first = key(&base, &lines(&["a==1"]), (false, false), &settings);
        let pip = PythonPackages { installer: Installer::Pip, keep: Some(Duration::ZERO), ..settings.clone() };
        assert_eq!(first, key(&base, &lines(&["a==1"]), (false, false), &pip), "the installer gives the same");
        let own = PythonPackages { index: Index::Url("https://own".to_owned()), ..settings.clone() };
        let newer = Interpreter { tag: "cpython-313".to_owned(), ..base.clone() };
        let others = [
            key(&base, &lines(&["a==2"]), (false, false), &settings),
            key(&base, &lines(&["a==1"]), (true, false), &settings),
            key(&base, &lines(&["a==1"]), (false, false), &own),
            key(&newer, &lines(&["a==1"]), (false, false), &settings),
            key(&base, &lines(&["a==1"]), (false, true), &settings),
        ];
        let all: HashSet<_> = others.iter().chain([&first]).collect();
        assert_eq!(all.len(), 6, "{all:?}");
    }
}
