//! Sets the environment of a skill's process: only variables that openskill sets or the manifest names.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use openskill_proto::metadata::{ENV_ALLOWED_ROOT, ENV_TRACE_ID, ENV_TRACEPARENT, ENV_TRACESTATE};
use openskill_sandbox::allowed_root::{AllowedRoot, RunRoot};

use crate::config::{Config, Variables};
use crate::manifest::Manifest;
use crate::runner::Invocation;
use crate::sdk;

/// Where Python finds modules before its own. A manifest's folders precede that of the SDK.
const PYTHONPATH: &str = "PYTHONPATH";

/// The part of the environment that all of a worker's skills share.
#[derive(Debug, Clone)]
pub(crate) struct SkillEnvironment {
    allowed_root: AllowedRoot,
    variables: Variables,
    /// The folder that contains the Python SDK, for scripts in other folders.
    library: Option<PathBuf>,
    /// Whether it is the SDK of this program, because no skill folder has one.
    is_bundled: bool,
}

impl SkillEnvironment {
    /// Opens the allowed root for a worker's environments.
    ///
    /// # Errors
    /// Fails if the allowed root can't be opened.
    pub(crate) fn new(config: &Config) -> std::io::Result<Self> {
        let own = config.skill_dirs.iter().find(|folder| sdk::is_in(folder)).cloned();
        let is_bundled = own.is_none();
        // Not in the folder of temporary files: a jail that showed a part of it could not have one of its own.
        let library = own.or_else(|| {
            let provided = config.sdk.as_deref().map_or_else(|| Err(ErrorKind::NotFound.into()), sdk::provide);
            let warn = |error: &std::io::Error| {
                tracing::warn!(%error, "skills can't import openskill_sdk: set XDG_CACHE_HOME to a directory that the worker can write");
            };
            provided.inspect_err(warn).ok()
        });
        let (allowed_root, variables) = (AllowedRoot::open(&config.allowed_root)?, config.variables.clone());
        Ok(Self { allowed_root, variables, library, is_bundled })
    }

    /// Returns the path of a skill's allowed root, to pass to the skill.
    pub(crate) fn root<'a>(&'a self, manifest: &'a Manifest) -> &'a Path {
        manifest.allowed_root.as_deref().unwrap_or(self.allowed_root.path())
    }

    /// Returns the worker's allowed root.
    pub(crate) fn allowed_root(&self) -> &AllowedRoot {
        &self.allowed_root
    }

    /// Returns the allowed root of a skill's runs, which can then be opened.
    pub(crate) fn run_root(&self, manifest: &Manifest) -> RunRoot {
        self.allowed_root.run_root(&manifest.id, manifest.allowed_root.as_deref())
    }

    /// Returns the working directory of a skill's process: the parent of the worker's allowed root, so that
    /// `data/docs` means the same to callers and skills.
    pub(crate) fn start_folder(&self) -> &Path {
        let root = self.allowed_root.path();
        root.parent().unwrap_or(root)
    }

    /// Returns the variables that manifests may name.
    pub(crate) fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Lets Python find an SDK that its environment has, instead of that of this program. `PYTHONPATH` would precede it.
    pub(crate) fn prefer_installed_sdk(&self, env: &mut BTreeMap<String, String>) {
        let Some(library) = self.library.as_deref().filter(|_| self.is_bundled).map(path_text) else { return };
        let Some(path) = env.remove(PYTHONPATH) else { return };
        let own: Vec<_> = path.split(':').filter(|it| *it != library).collect();
        if !own.is_empty() {
            env.insert(PYTHONPATH.to_owned(), own.join(":"));
        }
    }

    /// Returns the folder that contains the Python SDK.
    pub(crate) fn library(&self) -> Option<&Path> {
        self.library.as_deref()
    }

    /// Returns the variables that all calls of a skill share.
    pub(crate) fn for_skill(&self, manifest: &Manifest) -> BTreeMap<String, String> {
        let mut all = self.without_library(manifest);
        if let Some(library) = self.library.as_deref().map(path_text) {
            let own = all.remove(PYTHONPATH).filter(|it| !it.is_empty());
            let path = own.map_or_else(|| library.clone(), |own| format!("{own}:{library}"));
            all.insert(PYTHONPATH.to_owned(), path);
        }
        all
    }

    fn without_library(&self, manifest: &Manifest) -> BTreeMap<String, String> {
        let own = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            (ENV_ALLOWED_ROOT, path_text(self.root(manifest))),
            ("OPENSKILL_SKILL_ID", manifest.id.clone()),
        ];
        let named = manifest.env.iter().filter_map(|name| Some((name.clone(), self.variables.get(name)?)));
        let set = manifest.env_values.clone().into_iter();
        named.chain(set).chain(own.map(|(name, value)| (name.to_owned(), value))).collect()
    }

    /// Returns the variables of a process that sees only what its manifest grants.
    pub(crate) fn for_isolated(&self, manifest: &Manifest) -> BTreeMap<String, String> {
        let mut all = self.without_library(manifest);
        if manifest.allowed_root.is_none() {
            all.remove(ENV_ALLOWED_ROOT);
        }
        all
    }

    /// Returns the whole environment of a process that serves only this call.
    pub(crate) fn for_call(&self, invocation: &Invocation) -> BTreeMap<String, String> {
        let mut all = self.for_skill(&invocation.manifest);
        all.extend(call_variables(invocation).map(|(name, value)| (name.to_owned(), value)));
        all
    }
}

/// The names of each call's variables, in the order of [`call_variables`]. The last two are not set for all calls.
pub(crate) const CALL_VARIABLES: [&str; 7] = [
    ENV_TRACE_ID,
    ENV_TRACEPARENT,
    "OPENSKILL_CALL_ID",
    "OPENSKILL_SESSION_ID",
    "OPENSKILL_TIMEOUT_MS",
    "OPENSKILL_PRINCIPAL",
    ENV_TRACESTATE,
];

/// Returns each call's variables. Optional ones are last, so that the position determines the name. An anonymous
/// caller's principal is omitted, or empty if `TRACESTATE` follows.
pub(crate) fn call_variables(invocation: &Invocation) -> impl Iterator<Item = (&'static str, String)> {
    let left_ms = invocation.deadline.saturating_duration_since(Instant::now()).as_millis().to_string();
    let Invocation { trace_id, traceparent, call_id, session_id, principal, tracestate, .. } = invocation;
    let values = [trace_id, traceparent, call_id, session_id, &left_ms, principal, tracestate];
    let count = match (principal.is_empty(), tracestate.is_empty()) {
        (_, false) => values.len(),
        (false, true) => values.len() - 1,
        (true, true) => values.len() - 2,
    };
    CALL_VARIABLES.into_iter().zip(values.map(String::clone)).take(count)
}

/// Returns a path as text. Replaces bytes that are not UTF-8, because skills can't use such paths.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Rules;

    #[test]
    fn the_sdk_follows_the_manifests_own_modules_and_leaves_them_to_an_installed_one() {
        let root = std::env::temp_dir().canonicalize().unwrap();
        let surroundings = SkillEnvironment {
            allowed_root: AllowedRoot::open(&root).unwrap(),
            variables: Variables::default(),
            library: Some("/sdk".into()),
            is_bundled: true,
        };
        for (env, isolated, skill) in
            [("{}", None, "/sdk"), ("{PYTHONPATH: \"/own:/more\"}", Some("/own:/more"), "/own:/more:/sdk")]
        {
            let text = format!("id: f\ntype: cli\nruntime: python\nentry: f.py\nenv: {env}\n");
            let rules = Rules { allowed_root: &root, toolset: None };
            let manifest = Manifest::parse(Path::new("/skills/f.yaml"), &text, rules).unwrap();
            let mut all = surroundings.for_skill(&manifest);
            assert_eq!(all[PYTHONPATH], skill);
            surroundings.prefer_installed_sdk(&mut all);
            assert_eq!(all.get(PYTHONPATH).map(String::as_str), isolated);
            assert_eq!(surroundings.for_isolated(&manifest).get(PYTHONPATH).map(String::as_str), isolated);
        }
    }
}
