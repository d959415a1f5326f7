//! Downloads the wheels of a package and its dependencies with pip, in a jail whose only writable folder is the
//! download folder.
//!
//! pip resolves which versions are compatible with each other and the interpreter, and checks the hashes in the
//! index. It runs no package's code, because packages without a wheel are not built. A dependency that is a URL is
//! refused, because pip would download it from anywhere and build it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use openskill_sandbox::protocol::Exit;
use openskill_sandbox::run::Finished;
use serde_json::Value;

use super::bounds::{MAX_DOWNLOAD_BYTES, MAX_WHEEL_BYTES, storage, unable};
use super::jailed::{JailedInterpreter, JailedStep, Jails};
use super::source::PackageSource;
use super::wanted::PackageRequest;
use super::watch::within;
use super::work::Work;
use crate::config::NO_WHEEL_FOLDER;
use crate::environment::path_text;
use crate::runners::python::environments::reason::reason;

/// The source of the program that runs pip.
const PIP: &str = include_str!("pip.py");

/// Printed when pip can't reach an index.
const UNREACHABLE: &str = "was not reached";

/// A download of a request's wheels.
pub(super) struct Fetch<'a> {
    pub(super) request: &'a PackageRequest,
    pub(super) source: &'a PackageSource,
    /// The content of a constraints file.
    pub(super) constraints: String,
    /// The interpreter that runs pip.
    pub(super) python: JailedInterpreter<'a>,
}

impl Fetch<'_> {
    /// Downloads the wheels, and returns their paths. Dropping the future stops pip.
    ///
    /// # Errors
    /// Fails if the package or version does not exist, no wheel is compatible, or the index is unreachable.
    pub(super) async fn run(&self, jails: &Jails, work: &Arc<Work>) -> Result<Vec<PathBuf>, SkillError> {
        if self.source.folder().is_some_and(|it| !it.is_dir()) {
            return Err(unable(NO_WHEEL_FOLDER));
        }
        let make = |name: &str| work.make(name).map_err(|error| storage(&error));
        let (folder, temp, wheels) = (make("download")?, make("download/tmp")?, make("download/wheels")?);
        let constraints = folder.join("constraints.txt");
        std::fs::write(&constraints, &self.constraints).map_err(|error| storage(&error))?;
        let worker = |name: &str| self.source.variables.get(name).filter(|it| !it.is_empty());
        let step = JailedStep {
            python: self.python,
            program: PIP,
            args: self.args(&temp, &wheels, &constraints),
            input: Value::Null,
            env: self.source.env(worker),
            readable: self.source.readable(worker),
            writable: Some(folder.clone()),
            network: self.source.network(worker),
            most_file_bytes: MAX_WHEEL_BYTES,
        };
        let running = jails.run(step, vec![Arc::clone(work)]);
        let finished = within(&folder, MAX_DOWNLOAD_BYTES, running).await?;
        if finished.exit != Exit::Code(0) {
            return Err(self.fault(&finished, &[&path_text(&folder), &path_text(&self.python.interpreter.path)]));
        }
        found(&wheels).map_err(|error| storage(&error))
    }

    fn args(&self, temp: &Path, wheels: &Path, constraints: &Path) -> Vec<String> {
        let PackageRequest { name, version } = self.request;
        let wanted = version.as_ref().map_or_else(|| name.clone(), |version| format!("{name}=={version}"));
        let mut args = vec![path_text(temp)];
        let options = "download --no-input --disable-pip-version-check --no-color --no-cache-dir --retries 1 \
                       --timeout 15 --only-binary :all: --progress-bar off";
        args.extend(options.split_whitespace().map(str::to_owned));
        args.extend(["--dest".to_owned(), path_text(wheels), "--constraint".to_owned(), path_text(constraints)]);
        args.extend(self.source.args());
        args.push(wanted);
        args
    }

    /// Explains why pip failed.
    fn fault(&self, finished: &Finished, hidden: &[&str]) -> SkillError {
        let Finished { stdout, stderr, .. } = finished;
        let output = [stdout, stderr].map(|it| String::from_utf8_lossy(it).into_owned()).join("\n");
        tracing::debug!(output, "the packages of a session were not downloaded");
        let PackageRequest { name, version } = self.request;
        let what = version.as_ref().map_or_else(|| name.clone(), |version| format!("{name} {version}"));
        let mut hidden = hidden.to_vec();
        let folder = self.source.folder().map(path_text).unwrap_or_default();
        hidden.push(&folder);
        hidden.extend(self.source.urls());
        let said = reason("pip", &output, &hidden);
        let said = said.strip_prefix("pip could not install its packages: ").unwrap_or(&said);
        let has = |text: &str| output.contains(text);
        if has("No module named 'pip'") {
            return unable("this worker's Python has no pip, which downloads packages");
        }
        let (code, message) = if has("a URL in place of a version") {
            let reason = "it, or a package that it needs, requires a URL in place of a version";
            (ErrorCode::ExecutionError, format!("{what} is not installed: {reason}"))
        } else if has("File too large") || has("Errno 27") {
            let most = MAX_WHEEL_BYTES;
            (ErrorCode::ExecutionError, format!("a wheel of {what} or of what it needs has more than {most} bytes"))
        } else if has("(constraint)") {
            let reason = "the operator allows no version of it that fits (OPENSKILL_SESSION_PACKAGES)";
            (ErrorCode::PermissionDenied, format!("{what} is not installed: {reason}: {said}"))
        } else if said.contains(UNREACHABLE) {
            (ErrorCode::NetworkError, format!("{what} is not installed: {said}"))
        } else if has("No matching distribution found") {
            let (major, minor) = self.python.interpreter.version;
            let rule = "packages are never built from source";
            (ErrorCode::NotFound, format!("there is no wheel of {what} for Python {major}.{minor}, and {rule}: {said}"))
        } else {
            (ErrorCode::ExecutionError, format!("{what} is not installed: {said}"))
        };
        let error = SkillError::new(code, message);
        // Other packages may work, so the skill is not to blame.
        if code == ErrorCode::ExecutionError { error.with_blame(Blame::Caller) } else { error }
    }
}

/// Finds the files that pip downloaded. They may belong to another user.
fn found(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut all = std::fs::read_dir(folder)?.map(|it| Ok(it?.path())).collect::<std::io::Result<Vec<_>>>()?;
    all.sort();
    Ok(all)
}
