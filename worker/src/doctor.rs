//! `openskill doctor`: checks what this machine can isolate, and finds skills that require more.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use openskill_builtins::config::browser::Browser;
use openskill_builtins::config::research::NO_PROVIDER;
use openskill_sandbox::jail::probe::{Namespaces, SystemSupport};

use crate::check;
use crate::config::{Builds, Config};
use crate::registry::{Entry, SkillSources};
use crate::runners::python::environments;
use crate::runners::python::interpreter::{Interpreter, PythonError, find};
use crate::worker::Worker;

/// The timeout of each step of a ping of the container engine: connect, send, receive.
const PATIENCE: Duration = Duration::from_secs(1);

/// The maximum part of an engine's answer that is read, in bytes.
const MAX_ANSWER: u64 = 4096;

/// The folders in which systems install fonts, and the maximum depth of the search for them.
const FONTS: [&str; 2] = ["/usr/share/fonts", "/usr/local/share/fonts"];
const MOST_LEVELS: usize = 5;

/// How much of a feature is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// All of it is available.
    Ok,
    /// Only a part of it or a substitute is available.
    Part,
    /// It is unavailable.
    No,
}

impl Status {
    /// Returns `ok`, `part` or `no`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Part => "part",
            Self::No => "no",
        }
    }
}

/// The state of one feature, or of one skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The feature in one or two words, or the skill's id.
    pub topic: String,
    /// How much of the feature is available.
    pub status: Status,
    /// What was found, and what it means for skills.
    pub text: String,
}

/// How much of a feature is available, what was found, and what it means for skills.
type Assessment = (Status, String);

/// The findings about the machine and about all skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// The findings about the machine, in a fixed order.
    pub machine: Vec<Finding>,
    /// The findings about skills, by id. Excludes skills that the manifest or the operator has switched off.
    pub skills: Vec<Finding>,
    /// The number of skills that can be called, counted as `openskill skills` does.
    pub available: usize,
    /// The number of skills that can't be called, including those that are switched off.
    pub unavailable: usize,
}

impl Examination {
    /// Returns whether all skills can run as their manifests require.
    pub fn is_good(&self) -> bool {
        self.skills.iter().all(|it| it.status != Status::No)
    }
}

/// Examines the machine and all skills. Takes a few seconds, or longer if MCP servers start slowly.
///
/// # Errors
/// Fails if the system can't run skill processes at all.
pub async fn examine(mut config: Config) -> std::io::Result<Examination> {
    // Only examine the machine. Change nothing.
    config.packages.builds = Builds::None;
    let engine = config.docker_host.clone();
    let python = find(config.python.as_deref());
    let (manifests, unreadable) = crate::registry::read_folders(&SkillSources::for_command(&config));
    let worker = check::build_worker(config)?;
    let facts = worker.jailer.machine().facts();
    let containers = tokio::task::spawn_blocking(move || containers(&engine)).await;
    let no_answer = |_| (Status::No, "the request to the engine failed".to_owned());
    let machine = [
        ("kernel", kernel()),
        ("user", user(&worker, facts, python.as_ref().ok())),
        ("files", files(facts)),
        ("system calls", calls(facts)),
        ("network", tcp(facts)),
        ("signals", signals(facts)),
        ("namespaces", namespaces(facts)),
        ("bounds", bounds(&worker)),
        ("process tree", children()),
        ("python", interpreter(&python, worker.config.python.as_deref())),
        ("packages", packages(&worker.config, python.as_ref().ok())),
        ("containers", containers.unwrap_or_else(no_answer)),
        ("research", research(&worker.config)),
        ("browser", browser(&worker.config.browser, facts)),
    ];
    let machine = machine.into_iter().map(|(topic, (status, text))| finding(topic, status, text)).collect();
    check::settle(&worker, check::slowest_start(&manifests)).await;
    for entry in entries(&worker) {
        if let Ok(runner) = &entry.runner {
            Arc::clone(runner).warm_up(Arc::clone(&entry.manifest)).await;
        }
    }
    let mut skills = skill_findings(&worker);
    let [available, unavailable] = worker.registry.count();
    skills.extend(unreadable.iter().map(|error| finding("a manifest", Status::No, error.to_string())));
    worker.close().await;
    Ok(Examination { machine, skills, available, unavailable })
}

fn finding(topic: &str, status: Status, text: String) -> Finding {
    Finding { topic: topic.to_owned(), status, text }
}

fn kernel() -> Assessment {
    let name = rustix::system::uname();
    (Status::Ok, format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy()))
}

fn user(worker: &Worker, facts: SystemSupport, python: Option<&Interpreter>) -> Assessment {
    let own = rustix::process::geteuid().as_raw();
    let skills = worker.jailer.machine().user();
    let skills = format!("{}:{}", skills.uid, skills.gid);
    if !facts.root {
        let text = format!(
            "the worker's user is {own}, not root: skills run as the same user, which should own only the data of skills"
        );
        return (Status::Part, text);
    }
    if !facts.own_user {
        return (Status::No, "root can't change users here: skills run as root without capabilities".to_owned());
    }
    if worker.jailer.machine().gives_own_users() {
        return (Status::Ok, "each run has its own user, without capabilities".to_owned());
    }
    let python = python.into_iter().flat_map(|it| it.prefixes.iter().chain([&it.path]));
    let (read, write) = (python.chain(&worker.config.skill_dirs), [&worker.config.allowed_root]);
    let hidden = worker.jailer.machine().out_of_reach(read, write.into_iter());
    let Some(path) = hidden.first() else {
        return (Status::Ok, format!("skills run as {skills} without capabilities"));
    };
    let path = path.display();
    if facts.landlock >= SystemSupport::ALL_OF_FILES {
        let text = format!(
            "skills run as {skills} and bypass file permissions, as that user can't reach {path}; Landlock restricts \
             them. To avoid this, let the user reach it"
        );
        return (Status::Part, text);
    }
    (Status::No, format!("{skills} can't reach {path}: skills run as root without capabilities"))
}

fn files(facts: SystemSupport) -> Assessment {
    match facts.landlock {
        0 => (Status::No, "no Landlock: skills can read and write whatever their user can".to_owned()),
        abi @ 1..SystemSupport::ALL_OF_FILES => {
            (Status::Part, format!("Landlock ABI {abi}: a jail can deny other files"))
        }
        abi => {
            (Status::Ok, format!("Landlock ABI {abi}: skills can reach only their own files and the system's programs"))
        }
    }
}

fn calls(facts: SystemSupport) -> Assessment {
    match facts.calls {
        true => (Status::Ok, "seccomp: no network, mounts, namespaces or tracing by default".into()),
        false => (Status::No, "no seccomp: skills can use the network and every system call".into()),
    }
}

fn tcp(facts: SystemSupport) -> Assessment {
    match (facts.tcp, facts.calls) {
        (true, true) => (Status::Ok, "a manifest's list of ports is enforced".into()),
        (true, false) => (Status::Part, "TCP is limited to a manifest's ports; other protocols are not".into()),
        (false, true) => (Status::Part, "no Landlock ABI 4: skills with a list of ports get no network".into()),
        (false, false) => {
            (Status::No, "neither Landlock ABI 4 nor seccomp: nothing keeps skills from the network".into())
        }
    }
}

fn signals(facts: SystemSupport) -> Assessment {
    match (facts.signals, facts.own_user) {
        (true, _) => (Status::Ok, "skills can't signal any other process".into()),
        (false, true) => (Status::Part, "no Landlock ABI 6: skills can signal one another, not the worker".into()),
        (false, false) => (Status::No, "no Landlock ABI 6 and no separate users: skills can kill the worker".into()),
    }
}

fn namespaces(facts: SystemSupport) -> Assessment {
    match facts.namespaces {
        Namespaces::Given => {
            (Status::Ok, "skills see their own processes, mounts and users: jail: strict is available".into())
        }
        other => (Status::Part, format!("{other}: jail: standard is the strictest one available")),
    }
}

/// Reports how the memory, CPU time and processes of skills are counted.
fn bounds(worker: &Worker) -> Assessment {
    let text = worker.jailer.machine().describe_counting();
    (Status::Ok, format!("limits on memory, CPU time and number of a skill's processes: {text}"))
}

/// Reports whether the children of a long-lived skill host can be listed without reading all of `/proc`.
fn children() -> Assessment {
    let pid = std::process::id();
    match Path::new(&format!("/proc/{pid}/task/{pid}/children")).exists() {
        true => (Status::Ok, "the kernel lists a process's children".into()),
        false => (Status::Part, "the kernel lists no children: all of /proc is read instead".into()),
    }
}

fn interpreter(found: &Result<Interpreter, PythonError>, wanted: Option<&Path>) -> Assessment {
    match found {
        Ok(Interpreter { path, version: (major, minor), .. }) => {
            let wanted = wanted.unwrap_or(Path::new("python3"));
            let started = in_path(wanted).and_then(|it| it.canonicalize().ok());
            let shim = started.filter(|it| path.canonicalize().is_ok_and(|path| path != *it));
            let shim = shim.map(|it| format!(", behind {}", it.display())).unwrap_or_default();
            (Status::Ok, format!("{major}.{minor} at {}{shim}", path.display()))
        }
        Err(error) => (Status::No, format!("no cli:python skills: {error}")),
    }
}

/// Reports which program installs Python skills' packages, and where.
fn packages(config: &Config, python: Option<&Interpreter>) -> Assessment {
    match environments::describe(&config.packages, python) {
        Ok(text) => (Status::Ok, text),
        Err(reason) => (Status::Part, format!("no Python skills with their own packages: {reason}")),
    }
}

/// Reports where the research tools find pages, and whether a model writes their answers.
fn research(config: &Config) -> Assessment {
    let Some(provider) = &config.research.provider else { return (Status::Part, NO_PROVIDER.to_owned()) };
    let answers = match &config.research.model {
        Some(model) => format!("{} writes the answers", model.model),
        None => "answers consist of quotes, as no model is configured".to_owned(),
    };
    (Status::Ok, format!("{provider}; {answers}"))
}

/// Reports which browser the browser tools would use, and whether it would have namespaces and fonts. Does not start it.
fn browser(settings: &Browser, facts: SystemSupport) -> Assessment {
    let program = match settings.found() {
        Ok(program) => program.display().to_string(),
        Err(reason) => return (Status::Part, reason),
    };
    if facts.namespaces != Namespaces::Given {
        return (Status::Part, format!("{program}; a browser runs only in its own namespaces, and there are none"));
    }
    match FONTS.iter().map(|it| fonts(Path::new(it), MOST_LEVELS)).sum::<usize>() {
        0 => {
            let advice = "install some (Debian: fonts-dejavu-core)";
            (Status::Part, format!("{program}; there are no fonts, so screenshots have no text: {advice}"))
        }
        count => (Status::Ok, format!("{program}; {count} fonts")),
    }
}

/// Counts the font files below a folder.
fn fonts(folder: &Path, levels: usize) -> usize {
    let is_font = |path: &Path| {
        let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase();
        ["ttf", "otf", "ttc", "pfb", "woff2"].contains(&extension.as_str())
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |path: PathBuf| match path.is_dir() {
        true if levels > 0 => fonts(&path, levels - 1),
        true => 0,
        false => usize::from(is_font(&path)),
    };
    entries.map(|it| count(it.path())).sum()
}

/// Pings the container engine at this address.
fn containers(address: &str) -> Assessment {
    match ask_engine(address) {
        Ok(answer) if answer.starts_with("HTTP/1.") && answer.contains(" 200 ") => {
            (Status::Ok, format!("an engine answers at {address}"))
        }
        Ok(_) => (Status::No, format!("{address} does not answer like a container engine")),
        Err(reason) => (Status::No, format!("no docker skills: {address}: {reason}")),
    }
}

fn ask_engine(address: &str) -> std::io::Result<String> {
    if let Some(path) = address.strip_prefix("unix://") {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        return ping(stream);
    }
    let unknown = || std::io::Error::other("only unix:// and tcp:// can be checked");
    let host = address.strip_prefix("tcp://").ok_or_else(unknown)?;
    let at = host.to_socket_addrs()?.next().ok_or_else(unknown)?;
    let stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    ping(stream)
}

fn ping(mut stream: impl Read + Write) -> std::io::Result<String> {
    stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")?;
    let mut answer = Vec::new();
    let read = stream.take(MAX_ANSWER).read_to_end(&mut answer);
    // An engine may answer and then keep the connection open.
    if answer.is_empty() {
        read?;
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns the path of the program with this name.
fn in_path(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|it| it.is_file())
}

/// Returns all skills, sorted by id, except those that the manifest or the operator switched off.
fn entries(worker: &Worker) -> Vec<Arc<Entry>> {
    let skills = worker.registry.describe().into_iter();
    let entries = skills.filter_map(|skill| worker.registry.get(&skill.id, &skill.version));
    let is_off = |entry: &Arc<Entry>| {
        let by_operator =
            entry.runner.as_ref().err().is_some_and(|reason| check::OFF_REASONS.contains(&reason.as_str()));
        entry.manifest.unavailable.is_some() || by_operator
    };
    entries.filter(|entry| !is_off(entry)).collect()
}

fn skill_findings(worker: &Worker) -> Vec<Finding> {
    let look = |entry: Arc<Entry>| {
        let manifest = &entry.manifest;
        let lacking = if manifest.how.is_process() { worker.jailer.lacking(manifest) } else { Vec::new() };
        let (status, text) = match &entry.runner {
            // Not a fault, because a worker will build the environment.
            Err(reason) if reason == environments::NOT_BUILT => (Status::Part, reason.clone()),
            Err(reason) => (Status::No, check::explain(worker, manifest, reason).replace('\n', "; ")),
            Ok(_) if !lacking.is_empty() => (Status::Part, lacking.join("; ")),
            Ok(runner) => match runner.not_warm(manifest).first() {
                Some(reason) => (Status::Part, format!("not warm: {reason}")),
                None => (Status::Ok, manifest.runner.clone()),
            },
        };
        finding(&manifest.id, status, text)
    };
    entries(worker).into_iter().map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_answers_a_ping() {
        let folder = std::env::temp_dir().join(format!("openskill-engine-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let address = format!("unix://{}", path.display());
        assert_eq!(containers(&address).0, Status::No);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 512];
            let length = stream.read(&mut asked).unwrap();
            assert!(asked[..length].starts_with(b"GET /_ping "));
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK").unwrap();
        });
        assert_eq!(containers(&address).0, Status::Ok);
        server.join().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(containers("ssh://host").0, Status::No);
    }
}
