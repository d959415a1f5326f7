//! The environment of a skill's process: what openskill sets and what the manifest names, and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use openskill_proto::metadata::{ENV_ALLOWED_ROOT, ENV_TRACE_ID, ENV_TRACEPARENT, ENV_TRACESTATE};
use rustix::io::Errno;

use crate::allowed_root::{AllowedRoot, RunRoot, below, open_place};
use crate::config::Config;
use crate::manifest::Manifest;
use crate::runner::Invocation;

/// What is the same for all skills of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    allowed_root: AllowedRoot,
    /// The folder that holds the Python SDK, for scripts of other folders.
    library: Option<PathBuf>,
}

impl Surroundings {
    /// Opens the allowed root.
    ///
    /// # Errors
    /// It can't be opened.
    pub(crate) fn new(config: &Config) -> std::io::Result<Self> {
        let library = config.skill_dirs.iter().find(|folder| folder.join("openskill_sdk/__init__.py").is_file());
        Ok(Self { allowed_root: AllowedRoot::open(&config.allowed_root)?, library: library.cloned() })
    }

    /// Those of a worker with this allowed root, and without a library.
    #[cfg(test)]
    pub(crate) fn with_root(root: &Path) -> std::io::Result<Self> {
        Ok(Self { allowed_root: AllowedRoot::open(root)?, library: None })
    }

    /// The path of a skill's allowed root, for what the skill is told.
    pub(crate) fn root<'a>(&'a self, manifest: &'a Manifest) -> &'a Path {
        manifest.allowed_root.as_deref().unwrap_or(self.allowed_root.path())
    }

    /// The worker's allowed root, to be opened.
    pub(crate) fn whole_root(&self) -> RunRoot {
        self.allowed_root.of_runs("", None)
    }

    /// The allowed root of a skill's runs, to be opened.
    pub(crate) fn run_root(&self, manifest: &Manifest) -> RunRoot {
        self.allowed_root.of_runs(&manifest.id, manifest.allowed_root.as_deref())
    }

    /// A path that leads below the worker's root, without links; an error if there is one below the root, which a skill may
    /// have put there, or nothing. None: it leads elsewhere.
    pub(crate) fn below_root(&self, path: &Path) -> Option<Result<PathBuf, Errno>> {
        let below = below(self.allowed_root.path(), path)?;
        Some(open_place(&below).map(|_| below))
    }

    /// The working directory of a skill's process: the parent of the worker's allowed root, so that `data/docs` means the
    /// same to callers and skills.
    pub(crate) fn start_folder(&self) -> &Path {
        let root = self.allowed_root.path();
        root.parent().unwrap_or(root)
    }

    /// The folder that holds the Python SDK, if one of the skill folders does.
    pub(crate) fn library(&self) -> Option<&Path> {
        self.library.as_deref()
    }

    /// The variables that are the same for every call of a skill.
    pub(crate) fn of_skill(&self, manifest: &Manifest) -> BTreeMap<String, String> {
        let own = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            (ENV_ALLOWED_ROOT, path_text(self.root(manifest))),
            ("OPENSKILL_SKILL_ID", manifest.id.clone()),
        ];
        let named = manifest.env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
        let library = self.library.as_ref().map(|folder| ("PYTHONPATH", path_text(folder)));
        let set = manifest.env_values.clone().into_iter();
        named.chain(set).chain(own.into_iter().chain(library).map(|(name, value)| (name.to_owned(), value))).collect()
    }

    /// The variables of a process that sees nothing of this worker except what its manifest grants.
    pub(crate) fn isolated(&self, manifest: &Manifest) -> BTreeMap<String, String> {
        let mut all = self.of_skill(manifest);
        all.remove("PYTHONPATH");
        if manifest.allowed_root.is_none() {
            all.remove(ENV_ALLOWED_ROOT);
        }
        all
    }

    /// The whole environment of a process that serves this one call.
    pub(crate) fn of(&self, invocation: &Invocation) -> BTreeMap<String, String> {
        let mut all = self.of_skill(&invocation.manifest);
        all.extend(of_call(invocation).map(|(name, value)| (name.to_owned(), value)));
        all
    }
}

/// The names of the variables that one call adds, in the order of [`of_call`]. The last two are not set for every call.
pub(crate) const OF_CALL: [&str; 7] = [
    ENV_TRACE_ID,
    ENV_TRACEPARENT,
    "OPENSKILL_CALL_ID",
    "OPENSKILL_SESSION_ID",
    "OPENSKILL_TIMEOUT_MS",
    "OPENSKILL_PRINCIPAL",
    ENV_TRACESTATE,
];

/// The variables that one call adds. Those that a call leaves out are at the end, so that a name follows from its position:
/// the principal of an anonymous caller is left out, or empty where `TRACESTATE` follows.
pub(crate) fn of_call(invocation: &Invocation) -> impl Iterator<Item = (&'static str, String)> {
    let left_ms = invocation.deadline.saturating_duration_since(Instant::now()).as_millis();
    let state = (!invocation.tracestate.is_empty()).then(|| (ENV_TRACESTATE, invocation.tracestate.clone()));
    let named = !invocation.principal.is_empty() || state.is_some();
    let principal = named.then(|| ("OPENSKILL_PRINCIPAL", invocation.principal.clone()));
    let own = [
        (ENV_TRACE_ID, invocation.trace_id.clone()),
        (ENV_TRACEPARENT, invocation.traceparent.clone()),
        ("OPENSKILL_CALL_ID", invocation.call_id.clone()),
        ("OPENSKILL_SESSION_ID", invocation.session_id.clone()),
        ("OPENSKILL_TIMEOUT_MS", left_ms.to_string()),
    ];
    own.into_iter().chain(principal).chain(state)
}

/// A path as text. Bytes that are not UTF-8 are replaced: a skill cannot use such a path.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
