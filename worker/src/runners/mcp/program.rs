//! The process of an `mcp:stdio` server: supervised, with its stderr in the log.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use openskill_log::admits;
use rustix::fs::{Access, access};
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::host::Host;
use super::last_lines::LastLines;
use super::said::Said;
use crate::allowed_root::RunRoot;
use crate::environment::path_text;
use crate::manifest::mcp::{Mcp, Program, Reach};
use crate::manifest::{Limits, Manifest};
use crate::plain_file;
use crate::process::given_secrets::GivenSecrets;
use crate::process::jail::plan::Plan;
use crate::process::launch::{LaunchError, Pipes, Running};
use crate::process::protocol::Command;
use crate::process::protocol::Exit;
use crate::process::protocol::ProcessLimits;
use crate::process::protocol::Report;
use crate::runners::once::unusable;
use crate::runners::python::interpreter::Interpreter;
use crate::runners::python::variables;

/// How much of a line of stderr is looked through for the log.
const MAX_READ_BYTES: usize = 16 * 1024;

/// The longest line of stderr that is logged.
const MAX_LINE_BYTES: usize = 2048;

/// How long the exit status of a process may take after it closed its output.
const PATIENCE: Duration = Duration::from_millis(500);

/// A server's process. Dropping it ends its whole process tree.
pub(super) struct Started {
    running: Running<()>,
    /// How much it wrote to stderr.
    said_bytes: Arc<AtomicUsize>,
    /// All that it wrote to stderr was read.
    read: CancellationToken,
    _log: AbortOnDropHandle<()>,
}

/// Starts a server. `given_secrets`: what its calls note.
///
/// # Errors
/// The reason, for people.
pub(super) fn start(
    manifest: &Manifest,
    mcp: &Mcp,
    host: &Host,
    given_secrets: GivenSecrets,
) -> Result<(Started, pipe::Sender, pipe::Receiver), String> {
    let Reach::Stdio { program, args } = &mcp.reach else { return Err("it is no program".to_owned()) };
    let interpreter = host.interpreter.as_deref();
    let (program, script) = find(program, interpreter)?;
    plain_file::check_start(&program).map_err(|reason| unusable("program", &program, reason))?;
    let mut limits = ProcessLimits::of(&manifest.limits);
    if manifest.limits.cpu_seconds == Limits::default().cpu_seconds {
        // The default is for one call; a server lives as long as the worker.
        limits.cpu_seconds = u64::MAX;
    }
    let readable: Vec<_> = [&program].into_iter().chain(&script).flat_map(|file| needed(file)).collect();
    let readable = [readable, interpreter.map_or_else(Vec::new, |it| it.prefixes.clone())].concat();
    let Seen { jail, mut env, cwd, root } = seen(manifest, mcp, host, &readable)?;
    if let Some(interpreter) = interpreter {
        variables::complete(&mut env, interpreter.environment.as_deref());
    }
    let args = script.iter().map(|it| path_text(it)).chain(args.iter().cloned()).collect();
    let command = Command { program, args, env, cwd, limits, nice: 0, forks: false, jail, root };
    let (running, pipes) = host.launcher.launch(&command, ()).map_err(|error| {
        if admits("an MCP server was not started") {
            tracing::warn!(server = manifest.id, %error, "an MCP server was not started");
        }
        match error {
            LaunchError::Root(reason) => reason.to_string(),
            _ => "its process could not be started".to_owned(),
        }
    })?;
    let Pipes { stdin, stdout, stderr, .. } = pipes;
    let (said_bytes, read) = (Arc::<AtomicUsize>::default(), CancellationToken::new());
    let (counted, last_lines, done) =
        (Arc::clone(&said_bytes), Arc::clone(&host.last_lines), read.clone().drop_guard());
    let (server, said) = (manifest.id.clone(), Said::new(&host.redactor));
    let log = tokio::spawn(async move {
        log(server, said, stderr, &counted, &last_lines, &given_secrets).await;
        drop(done);
    });
    Ok((Started { running, said_bytes, read, _log: AbortOnDropHandle::new(log) }, stdin, stdout))
}

/// What a server's process sees of its worker.
struct Seen {
    jail: Option<Plan>,
    env: BTreeMap<String, String>,
    cwd: PathBuf,
    root: Option<RunRoot>,
}

fn seen(manifest: &Manifest, mcp: &Mcp, host: &Host, readable: &[PathBuf]) -> Result<Seen, String> {
    let root = || Some(host.surroundings.run_root(manifest));
    if mcp.isolated {
        let jail = host.jailer.isolated_plan(manifest, readable, &[])?;
        let root = manifest.allowed_root.as_ref().and_then(|_| root());
        return Ok(Seen { jail, env: host.surroundings.isolated(manifest), cwd: PathBuf::from("/"), root });
    }
    let (env, cwd) = (host.surroundings.of_skill(manifest), host.surroundings.start_folder().to_owned());
    Ok(Seen { jail: host.jailer.plan(manifest, readable, &[])?, env, cwd, root: root() })
}

/// The folders that a server's program needs: its own, or the one above if that is `bin`; the same for the interpreter that
/// its first line names, and for the targets of links.
fn needed(program: &Path) -> Vec<PathBuf> {
    let interpreter = interpreter(program);
    let named = [Some(program.to_owned()), interpreter].into_iter().flatten();
    let files = named.flat_map(|file| {
        let real = file.canonicalize().ok();
        // A link may lead through another, as the Python of a virtual environment does.
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

/// The interpreter in a script's first line.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let mut start = [0; 256];
    let count = std::io::Read::read(&mut plain_file::open(program).ok()?, &mut start).ok()?;
    let line = start[..count].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let path = std::str::from_utf8(line).ok()?.split_whitespace().next()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// The file of a program, and the script that it runs if it is an interpreter. A bare name is looked up at each start: in the
/// server's environment if it has one, otherwise on the worker's `PATH`.
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
            Err(format!("its program '{name}' is not there, or not executable"))
        }
        (Program::Name(name), _) => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
            let found = files.find(|file| file.is_absolute() && runs(file));
            found.map(|file| (file, None)).ok_or_else(|| format!("its program '{name}' is not on the worker's PATH"))
        }
    }
}

impl Started {
    /// Waits for the end of the process, and describes it.
    pub(super) async fn ended(&mut self) -> String {
        match self.running.report().await {
            Ok(Report::NotStarted { errno }) => {
                format!("its program could not be started: {}", std::io::Error::from_raw_os_error(errno).kind())
            }
            Ok(Report::Ended { exceeded: Some(reason), .. }) => format!("it was ended: {reason}"),
            Ok(Report::Ended { exit: Exit::Code(code), .. }) => format!("it ended with exit code {code}"),
            Ok(Report::Ended { exit: Exit::Signal(signal), .. }) => format!("it was ended by signal {signal}"),
            Err(_) => "its process was lost".to_owned(),
        }
    }

    /// How the process ended, if it did after it closed its output.
    pub(super) async fn why(&mut self) -> Option<String> {
        let ended = tokio::time::timeout(PATIENCE, self.ended()).await.ok();
        if ended.is_some() {
            // What it wrote last may still be in the pipe.
            let _ = tokio::time::timeout(PATIENCE, self.read.cancelled()).await;
        }
        if admits("an MCP server did not start") {
            let stderr_bytes = self.said_bytes.load(Ordering::Relaxed);
            tracing::warn!(ended, stderr_bytes, "an MCP server did not start");
        }
        ended
    }
}

/// Logs each line at level DEBUG, truncated to a bound, and keeps the last ones. Once a call had secrets, it logs their lengths
/// alone, and keeps none.
async fn log(
    server: String,
    mut said: Said,
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
            tell(said.lines(&text, MAX_LINE_BYTES));
            text.clear();
        }
    }
    tell(said.lines(&text, MAX_LINE_BYTES));
    tell(said.rest(MAX_LINE_BYTES));
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
        let said = Said::new(&Redactor::off());
        let log = log("s".to_owned(), said, stderr, &said_bytes, &last_lines, &given_secrets);
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
