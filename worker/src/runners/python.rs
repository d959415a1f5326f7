//! `cli:python`: a Python script, a fresh interpreter for each call.
//!
//! The script reads `{"input": {...}}` from stdin and prints one JSON value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command as StdCommand;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::metadata::{ENV_ALLOWED_ROOT, ENV_TRACE_ID, ENV_TRACEPARENT, ENV_TRACESTATE};
use openskill_proto::v1::{ErrorCode, SkillError};

use crate::config::Config;
use crate::manifest::{Entry, Limits, Manifest};
use crate::process::{self, Command, LaunchError, Launcher, ProcessLimits, RunError};
use crate::runner::{Invocation, RawOutput, Runner};

/// The oldest Python whose standard library the SDK and the shipped skills use.
const OLDEST: (u32, u32) = (3, 9);

const MIB: u64 = 1024 * 1024;

/// A Python interpreter that was found and asked for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The interpreter itself: what a shim or a wrapper would start.
    pub path: PathBuf,
    /// Major and minor version.
    pub version: (u32, u32),
}

/// Why there is no Python.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// It could not be started.
    #[error("'{0}' can't be started ({1}): install Python 3 (Debian: apt-get install python3) or set OPENSKILL_PYTHON")]
    NotFound(PathBuf, std::io::ErrorKind),
    /// It gave no version.
    #[error("'{0}' is no Python: it did not tell its version")]
    NotPython(PathBuf),
    /// It is too old.
    #[error("'{0}' is Python {1}.{2}; 3.9 or newer is needed")]
    TooOld(PathBuf, u32, u32),
}

/// Finds Python once, at start: through a shim each call would pay for the shim as well.
///
/// # Errors
/// There is none, or none that is new enough.
pub fn find(wanted: Option<&Path>) -> Result<Interpreter, PythonError> {
    let wanted = wanted.unwrap_or(Path::new("python3"));
    let program = "import sys; print(sys.executable); print(*sys.version_info[:2])";
    let output = StdCommand::new(wanted)
        .args(["-I", "-c", program])
        .output()
        .map_err(|error| PythonError::NotFound(wanted.to_owned(), error.kind()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let (path, version) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let version = version.split_once(' ').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match version {
        Some(version) if version >= OLDEST => Ok(Interpreter { path: PathBuf::from(path), version }),
        Some((major, minor)) => Err(PythonError::TooOld(wanted.to_owned(), major, minor)),
        None => Err(PythonError::NotPython(wanted.to_owned())),
    }
}

/// The runner.
pub(crate) struct Python {
    interpreter: Result<Interpreter, ()>,
    launcher: Launcher,
    allowed_root: PathBuf,
    /// The folder that has the Python library, for scripts of other folders.
    library: Option<PathBuf>,
}

impl Python {
    pub(crate) fn new(interpreter: Result<Interpreter, ()>, launcher: Launcher, config: &Config) -> Self {
        let library = config.skill_dirs.iter().find(|folder| folder.join("openskill_sdk/__init__.py").is_file());
        Self { interpreter, launcher, allowed_root: config.allowed_root.clone(), library: library.cloned() }
    }

    fn command(&self, interpreter: &Interpreter, script: &Path, invocation: &Invocation) -> Command {
        Command {
            program: interpreter.path.clone(),
            // No user site-packages, UTF-8 whatever the locale, nothing written beside the script.
            args: ["-s", "-B", "-X", "utf8"].map(str::to_owned).into_iter().chain([path_text(script)]).collect(),
            env: self.environment(invocation),
            cwd: self.allowed_root.parent().unwrap_or(&self.allowed_root).to_owned(),
            limits: limits(&invocation.manifest.limits),
        }
    }

    /// All that a skill sees: what openskill sets, and what the manifest names.
    fn environment(&self, invocation: &Invocation) -> BTreeMap<String, String> {
        let manifest = &invocation.manifest;
        let root = manifest.allowed_root.as_ref().unwrap_or(&self.allowed_root);
        let left_ms = invocation.deadline.saturating_duration_since(Instant::now()).as_millis();
        let own = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            (ENV_ALLOWED_ROOT, path_text(root)),
            (ENV_TRACE_ID, invocation.trace_id.clone()),
            (ENV_TRACEPARENT, invocation.traceparent.clone()),
            ("OPENSKILL_SKILL_ID", manifest.id.clone()),
            ("OPENSKILL_CALL_ID", invocation.call_id.clone()),
            ("OPENSKILL_SESSION_ID", invocation.session_id.clone()),
            ("OPENSKILL_TIMEOUT_MS", left_ms.to_string()),
        ];
        let named = manifest.env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
        let library = self.library.as_ref().map(|folder| ("PYTHONPATH", path_text(folder)));
        let state = (!invocation.tracestate.is_empty()).then(|| (ENV_TRACESTATE, invocation.tracestate.clone()));
        named.chain(own.into_iter().chain(state).chain(library).map(|(name, value)| (name.to_owned(), value))).collect()
    }
}

impl Runner for Python {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        self.interpreter
            .as_ref()
            .map_err(|()| "there is no usable Python on this worker; its log says why (OPENSKILL_PYTHON)")?;
        match &manifest.entry {
            Entry::File(script) if script.is_file() => Ok(()),
            Entry::File(script) => {
                let name = script.file_name().unwrap_or_default().to_string_lossy();
                Err(format!("its script '{name}' is not there"))
            }
            Entry::Name(name) => Err(format!("'{name}' is no file")),
            Entry::None => Err("it names no script".to_owned()),
        }
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move {
            let (Ok(interpreter), Entry::File(script)) = (&self.interpreter, &invocation.manifest.entry) else {
                return RawOutput::Failed(SkillError::new(
                    ErrorCode::Unavailable,
                    "the skill can't run on this worker",
                ));
            };
            let command = self.command(interpreter, script, &invocation);
            let Invocation { input, events, slot, .. } = invocation;
            let parts: [&[u8]; 3] = [b"{\"input\": ", &input, b"}\n"];
            match process::run(&self.launcher, &command, &parts, &events, slot).await {
                Ok(it) => {
                    RawOutput::Process { stdout: it.stdout, stderr: it.stderr, exit: it.exit, leftovers: it.leftovers }
                }
                Err(error) => RawOutput::Failed(failure(&error)),
            }
        }
        .boxed()
    }
}

fn failure(error: &RunError) -> SkillError {
    match error {
        RunError::OutputTooLarge => SkillError::new(ErrorCode::OutputTooLarge, format!("the skill {error}")),
        RunError::StillOpen => SkillError::new(ErrorCode::ExecutionError, format!("the skill {error}")),
        RunError::NotStarted { .. } => SkillError::new(ErrorCode::ToolInvocationError, format!("the skill {error}")),
        // Somebody killed it, and nobody but the skill was near.
        RunError::Launch(LaunchError::Lost) => {
            tracing::warn!("a skill's supervisor was killed");
            SkillError::new(ErrorCode::ExecutionError, "the skill's process could not be supervised to its end")
        }
        RunError::Launch(reason) => {
            tracing::warn!(%reason, "a skill process was not started");
            SkillError::new(ErrorCode::ToolInvocationError, "the skill's process could not be started")
        }
    }
}

fn limits(limits: &Limits) -> ProcessLimits {
    ProcessLimits {
        address_space_bytes: limits.memory_mb.saturating_mul(MIB),
        cpu_seconds: limits.cpu_seconds,
        open_files: limits.open_files,
        file_size_bytes: limits.file_size_mb.saturating_mul(MIB),
    }
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
