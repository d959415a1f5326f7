//! What a skill's process sees: a clean environment with what openskill sets and what the manifest names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use openskill_proto::metadata::{ENV_ALLOWED_ROOT, ENV_TRACE_ID, ENV_TRACEPARENT, ENV_TRACESTATE};

use crate::config::Config;
use crate::manifest::Manifest;
use crate::runner::Invocation;

/// What all skills of a worker have in common.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    allowed_root: PathBuf,
    /// The folder that has the Python library, for scripts of other folders.
    library: Option<PathBuf>,
}

impl Surroundings {
    pub(crate) fn new(config: &Config) -> Self {
        let library = config.skill_dirs.iter().find(|folder| folder.join("openskill_sdk/__init__.py").is_file());
        Self { allowed_root: config.allowed_root.clone(), library: library.cloned() }
    }

    /// The folder a skill may touch.
    pub(crate) fn root<'a>(&'a self, manifest: &'a Manifest) -> &'a Path {
        manifest.allowed_root.as_deref().unwrap_or(&self.allowed_root)
    }

    /// Where a skill's process starts: the folder that holds the worker's root, so that `data/docs` means the same to
    /// callers and skills.
    pub(crate) fn start_folder(&self) -> &Path {
        self.allowed_root.parent().unwrap_or(&self.allowed_root)
    }

    /// The folder that has the Python library, if one of the skill folders does.
    pub(crate) fn library(&self) -> Option<&Path> {
        self.library.as_deref()
    }

    /// What is the same for every call of a skill.
    pub(crate) fn of_skill(&self, manifest: &Manifest) -> BTreeMap<String, String> {
        let own = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            (ENV_ALLOWED_ROOT, path_text(self.root(manifest))),
            ("OPENSKILL_SKILL_ID", manifest.id.clone()),
        ];
        let named = manifest.env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
        let library = self.library.as_ref().map(|folder| ("PYTHONPATH", path_text(folder)));
        named.chain(own.into_iter().chain(library).map(|(name, value)| (name.to_owned(), value))).collect()
    }

    /// The whole environment of a process that serves this one call.
    pub(crate) fn of(&self, invocation: &Invocation) -> BTreeMap<String, String> {
        let mut all = self.of_skill(&invocation.manifest);
        all.extend(of_call(invocation).map(|(name, value)| (name.to_owned(), value)));
        all
    }
}

/// The names of what one call adds to it, in the order of [`of_call`]. The last is not in every call.
pub(crate) const OF_CALL: [&str; 6] = [
    ENV_TRACE_ID,
    ENV_TRACEPARENT,
    "OPENSKILL_CALL_ID",
    "OPENSKILL_SESSION_ID",
    "OPENSKILL_TIMEOUT_MS",
    ENV_TRACESTATE,
];

/// What one call adds to it.
pub(crate) fn of_call(invocation: &Invocation) -> impl Iterator<Item = (&'static str, String)> {
    let left_ms = invocation.deadline.saturating_duration_since(Instant::now()).as_millis();
    let state = (!invocation.tracestate.is_empty()).then(|| (ENV_TRACESTATE, invocation.tracestate.clone()));
    let own = [
        (ENV_TRACE_ID, invocation.trace_id.clone()),
        (ENV_TRACEPARENT, invocation.traceparent.clone()),
        ("OPENSKILL_CALL_ID", invocation.call_id.clone()),
        ("OPENSKILL_SESSION_ID", invocation.session_id.clone()),
        ("OPENSKILL_TIMEOUT_MS", left_ms.to_string()),
    ];
    own.into_iter().chain(state)
}

/// A path as text. Bytes that are no UTF-8 are replaced: such a path can't be used by a skill.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
