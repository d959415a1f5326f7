//! Runs the process of an `mcp:stdio` server under supervision, and logs its stderr.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use openskill_redact::Redactor;
use openskill_sandbox::given_secrets::GivenSecrets;
use openskill_sandbox::launch::{LaunchError, Pipes, SupervisedRun};
use openskill_sandbox::protocol::{Command, Exit, ProcessLimits, RunReport};
use openskill_sandbox::{Limits, plain_file};
use openskill_telemetry::log::admits;
use rustix::fs::{Access, access};
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio_util::task::AbortOnDropHandle;

use super::texts::{LastLines, RedactedLines};
use crate::environment::path_text;
use crate::manifest::Manifest;
use crate::manifest::mcp::{Mcp, Program, Reach};
use crate::runners::once::unusable;
use crate::runners::python::interpreter::Interpreter;
use crate::runners::python::variables;
use crate::runners::services::Services;

/// The maximum part of a stderr line that is scanned for the log, in bytes.
const MAX_READ_BYTES: usize = 16 * 1024;

/// The maximum length of a stderr line in the log, in bytes.
const MAX_LINE_BYTES: usize = 2048;

/// The timeout for a process to exit after it closed its output.
const PATIENCE: Duration = Duration::from_secs(2);

/// The parts of the worker that a server's connections need.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) services: Services,
    /// The interpreter of the server's environment, if it has one.
    pub(super) interpreter: Option<Arc<Interpreter>>,
    /// Redacts the servers' texts before they are logged.
    pub(super) redactor: Redactor,
    /// The last lines that the server's processes wrote to stderr.
    pub(super) last_lines: Arc<LastLines>,
}

impl Host {
    pub(super) fn new(services: &Services, redactor: Redactor) -> Self {
        Self { services: services.clone(), interpreter: None, redactor, last_lines: Arc::default() }
    }
}

/// A server's process. Dropping it ends its process tree.
pub(super) struct ServerProcess {
    running: SupervisedRun<()>,
    /// How many bytes it wrote to stderr.
    said_bytes: Arc<AtomicUsize>,
    /// Ends when its stderr was read to the end.
    log: AbortOnDropHandle<()>,
}

/// Starts a server. `given_secrets` records whether its calls had secrets.
///
/// # Errors
/// Returns the reason, for people, if the process cannot start.
pub(super) fn start(
    manifest: &Manifest,
    mcp: &Mcp,
    host: &Host,
    given_secrets: GivenSecrets,
) -> Result<(ServerProcess, pipe::Sender, pipe::Receiver), String> {
    let Reach::Stdio { program, args } = &mcp.reach else { return Err("it is not a program".to_owned()) };
    let interpreter = host.interpreter.as_deref();
    let (program, script) = find(program, interpreter)?;
    plain_file::check_start(&program).map_err(|reason| unusable("program", &program, reason))?;
    let mut limits = ProcessLimits::from_limits(&manifest.limits);
    if manifest.limits.cpu_seconds == Limits::default().cpu_seconds {
        // The default limit is for one call, but a server lives as long as the worker.
        limits.cpu_seconds = u64::MAX;
    }
    let readable: Vec<_> = [&program].into_iter().chain(&script).flat_map(|file| needed_folders(file)).collect();
    let readable = [readable, interpreter.map_or_else(Vec::new, |it| it.prefixes.clone())].concat();
    let Services { environment: surroundings, jailer, launcher, .. } = &host.services;
    let (jail, mut env, cwd) = if mcp.isolated {
        (jailer.isolated_plan(manifest, &readable, &[])?, surroundings.for_isolated(manifest), Path::new("/"))
    } else {
        (jailer.plan(manifest, &readable, &[])?, surroundings.for_skill(manifest), surroundings.start_folder())
    };
    let needs_root = !mcp.isolated || manifest.allowed_root.is_some();
    let root = needs_root.then(|| surroundings.run_root(manifest));
    if let Some(interpreter) = interpreter {
        variables::complete(&mut env, interpreter.environment.as_deref());
        if interpreter.has_sdk {
            surroundings.prefer_installed_sdk(&mut env);
        }
    }
    let args = script.iter().map(|it| path_text(it)).chain(args.iter().cloned()).collect();
    let cwd = cwd.to_owned();
    let command = Command { program, args, env, cwd, limits, nice: 0, forks: false, jail: Some(jail), root };
    let (running, pipes) = launcher.launch(&command, ()).map_err(|error| {
        if admits("an MCP server was not started") {
            tracing::warn!(server = manifest.id, %error, "an MCP server was not started");
        }
        match error {
            LaunchError::Root(reason) => reason.to_string(),
            _ => "its process could not be started".to_owned(),
        }
    })?;
    let Pipes { stdin, stdout, stderr, .. } = pipes;
    let said_bytes = Arc::<AtomicUsize>::default();
    let (counted, last_lines) = (Arc::clone(&said_bytes), Arc::clone(&host.last_lines));
    let (server, redacted) = (manifest.id.clone(), RedactedLines::new(&host.redactor));
    let log = tokio::spawn(async move { log(server, redacted, stderr, &counted, &last_lines, &given_secrets).await });
    Ok((ServerProcess { running, said_bytes, log: AbortOnDropHandle::new(log) }, stdin, stdout))
}

/// Returns the folders that a server's program needs: its own folder, or the parent if that is `bin`. Adds the
/// folders of link targets and of the interpreter in the first line.
fn needed_folders(program: &Path) -> Vec<PathBuf> {
    let interpreter = interpreter(program);
    let named = [Some(program.to_owned()), interpreter].into_iter().flatten();
    let files = named.flat_map(|file| {
        let real = file.canonicalize().ok();
        // A link may point to another link, as the Python of a virtual environment does.
        let next = file.read_link().ok().map(|link| file.with_file_name("").join(link));
        [Some(file), next, real].into_iter().flatten()
    });
    files.filter_map(|file| installed_in(&file)).collect()
}

fn installed_in(file: &Path) -> Option<PathBuf> {
    let folder = file.parent()?;
    let above = folder.parent().filter(|above| above.parent().is_some());
    let is_bin = folder.file_name().is_some_and(|name| name == "bin");
    Some(if is_bin { above.unwrap_or(folder) } else { folder }.to_owned())
}

/// Returns the interpreter that a script's first line names.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let mut start = [0; 256];
    let count = std::io::Read::read(&mut plain_file::open(program).ok()?, &mut start).ok()?;
    let line = start[..count].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let path = std::str::from_utf8(line).ok()?.split_whitespace().next()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// Finds a program's file, and the script that it runs if it is an interpreter. Looks up a bare name at each
/// start, in the server's environment if it has one, otherwise on the worker's `PATH`.
fn find(program: &Program, interpreter: Option<&Interpreter>) -> Result<(PathBuf, Option<PathBuf>), String> {
    let runs = |file: &Path| access(file, Access::EXEC_OK).is_ok() && file.is_file();
    match (program, interpreter) {
        (Program::Installed(_) | Program::Script(_), None) => Err("its environment is not built yet".to_owned()),
        (Program::Script(script), Some(interpreter)) => Ok((interpreter.path.clone(), Some(script.clone()))),
        (Program::Installed(name), Some(interpreter)) => {
            let file = interpreter.path.with_file_name(name);
            let missing = || format!("its packages have no program '{name}': entry names one of them");
            runs(&file).then(|| (file.clone(), None)).ok_or_else(missing)
        }
        (Program::File(file), _) if runs(file) => Ok((file.clone(), None)),
        (Program::File(file), _) => {
            let name = path_text(file.file_name().unwrap_or(OsStr::new("")).as_ref());
            Err(format!("its program '{name}' does not exist or is not executable"))
        }
        (Program::Name(name), _) => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
            let found = files.find(|file| file.is_absolute() && runs(file));
            found.map(|file| (file, None)).ok_or_else(|| format!("its program '{name}' is not on the worker's PATH"))
        }
    }
}

impl ServerProcess {
    /// Waits until the process exits, and describes how.
    pub(super) async fn wait_for_exit(&mut self) -> String {
        match self.running.report().await {
            Ok(RunReport::NotStarted { errno }) => {
                format!("its program could not be started: {}", std::io::Error::from_raw_os_error(errno).kind())
            }
            Ok(RunReport::Ended { exceeded: Some(reason), .. }) => format!("it was killed: {reason}"),
            Ok(RunReport::Ended { exit: Exit::Code(code), .. }) => format!("it exited with code {code}"),
            Ok(RunReport::Ended { exit: Exit::Signal(signal), .. }) => format!("it was killed by signal {signal}"),
            Err(_) => "its process was lost".to_owned(),
        }
    }

    /// Describes how the process ended, if it exits soon after closing its output.
    pub(super) async fn early_exit(&mut self) -> Option<String> {
        let ended = tokio::time::timeout(PATIENCE, self.wait_for_exit()).await.ok();
        if ended.is_some() && !self.log.is_finished() {
            // The last output may still be in the pipe.
            let _ = tokio::time::timeout(PATIENCE, &mut self.log).await;
        }
        if admits("an MCP server did not start") {
            let stderr_bytes = self.said_bytes.load(Ordering::Relaxed);
            tracing::warn!(ended, stderr_bytes, "an MCP server did not start");
        }
        ended
    }
}

/// Logs each line at DEBUG, truncated, and keeps the last ones. After the first call with secrets, logs only the
/// lengths of lines and keeps none.
async fn log(
    server: String,
    mut redacted: RedactedLines,
    stderr: pipe::Receiver,
    said_bytes: &AtomicUsize,
    last_lines: &LastLines,
    given_secrets: &GivenSecrets,
) {
    let mut reader = BufReader::new(stderr);
    let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
    let tell = |lines: Vec<String>| {
        for line in lines {
            if given_secrets.any() {
                tracing::debug!(server, line_bytes = line.len(), "stderr of an MCP server");
                continue;
            }
            tracing::debug!(server, line, "stderr of an MCP server");
            last_lines.push(&line);
        }
    };
    while let Ok(count @ 1..) = reader.read(&mut chunk).await {
        said_bytes.fetch_add(count, Ordering::Relaxed);
        for byte in &chunk[..count] {
            if *byte != b'\n' {
                if text.len() < MAX_READ_BYTES {
                    text.push(*byte);
                }
                continue;
            }
            tell(redacted.lines(&text, MAX_LINE_BYTES));
            text.clear();
        }
    }
    tell(redacted.lines(&text, MAX_LINE_BYTES));
    tell(redacted.rest(MAX_LINE_BYTES));
}

#[cfg(test)]
mod tests {
    use openskill_redact::Redactor;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn no_line_is_kept_once_a_call_had_secrets() {
        let (mut server, stderr) = pipe::pipe().unwrap();
        let (said_bytes, last_lines, given_secrets) =
            (AtomicUsize::new(0), LastLines::default(), GivenSecrets::default());
        let redacted = RedactedLines::new(&Redactor::off());
        let log = log("s".to_owned(), redacted, stderr, &said_bytes, &last_lines, &given_secrets);
        let writes = async {
            server.write_all(b"before\n").await.unwrap();
            while last_lines.read().is_empty() {
                tokio::task::yield_now().await;
            }
            given_secrets.note(true);
            server.write_all(b"after\n").await.unwrap();
            drop(server);
        };
        tokio::join!(log, writes);
        assert_eq!((last_lines.read(), said_bytes.into_inner()), (vec!["before".to_owned()], 13));
    }
}
