//! `openskill doctor`: checks what this machine can isolate, and finds skills that require more.

use std::path::Path;
use std::sync::Arc;

use crate::check;
use crate::config::allowed::NONE_ALLOWED;
use crate::config::{Builds, Config};
use crate::registry::Entry;
use crate::runners::in_process::Functions;
use crate::runners::python::environments;
use crate::runners::python::interpreter::Interpreter;
use crate::runners::python::interpreter::PythonError;
use crate::runners::python::interpreter::find;
use crate::worker::Worker;

mod browser;
mod engine;
mod finding;

use finding::finding;
pub use finding::{Finding, Status};
use openskill_builtins::config::browser::NO_BROWSER;
use openskill_builtins::config::research::NO_PROVIDER;
use openskill_sandbox::jail::probe::{Namespaces, SystemSupport};
use openskill_sandbox::strays::Strays;

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
    let (manifests, unreadable) = crate::registry::read_folders(&config.skill_dirs, &config.allowed_root);
    let strays = Strays::adopt()?;
    let worker = crate::build(config, Functions::default(), Arc::new(strays))?;
    let facts = worker.jailer.machine().facts();
    let containers = tokio::task::spawn_blocking(move || engine::look(&engine)).await;
    let machine = vec![
        kernel(),
        user(&worker, facts, python.as_ref().ok()),
        files(facts),
        calls(facts),
        tcp(facts),
        signals(facts),
        namespaces(facts),
        bounds(&worker),
        children(),
        interpreter(python, worker.config.python.as_deref()),
        packages(&worker.config),
        containers.unwrap_or_else(|_| finding("containers", Status::No, "the request to the engine failed")),
        research(&worker.config),
        browser::look(&worker.config.browser),
    ];
    check::settle(&worker, check::slowest_start(&manifests)).await;
    for entry in entries(&worker) {
        if let Ok(runner) = &entry.runner {
            Arc::clone(runner).warm_up(Arc::clone(&entry.manifest)).await;
        }
    }
    let mut skills = skill_findings(&worker);
    let [available, unavailable] = worker.registry.count();
    skills.extend(unreadable.iter().map(|error| finding("a manifest", Status::No, error.to_string())));
    worker.registry.close().await;
    worker.launcher.wait_finished().await;
    Ok(Examination { machine, skills, available, unavailable })
}

fn kernel() -> Finding {
    let name = rustix::system::uname();
    let text = format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy());
    finding("kernel", Status::Ok, text)
}

fn user(worker: &Worker, facts: SystemSupport, python: Option<&Interpreter>) -> Finding {
    let own = rustix::process::geteuid().as_raw();
    let skills = worker.jailer.machine().user();
    let skills = format!("{}:{}", skills.uid, skills.gid);
    let say = |status, text| finding("user", status, text);
    if !facts.root {
        return say(
            Status::Part,
            format!(
                "the worker's user is {own}, not root: skills run as the same user, which should own only the data of skills"
            ),
        );
    }
    if !facts.own_user {
        return say(Status::No, "root can't change users here: skills run as root without capabilities".to_owned());
    }
    if worker.jailer.machine().gives_own_users() {
        return say(Status::Ok, "each run has its own user, without capabilities".to_owned());
    }
    let python = python.into_iter().flat_map(|it| it.prefixes.iter().chain([&it.path]));
    let (read, write) = (python.chain(&worker.config.skill_dirs), [&worker.config.allowed_root]);
    let hidden = worker.jailer.machine().out_of_reach(read, write.into_iter());
    let Some(path) = hidden.first() else {
        return say(Status::Ok, format!("skills run as {skills} without capabilities"));
    };
    let path = path.display();
    if facts.landlock >= SystemSupport::ALL_OF_FILES {
        let text = format!(
            "skills run as {skills} and bypass file permissions, as that user can't reach {path}; Landlock restricts \
             them. To avoid this, let the user reach it"
        );
        return say(Status::Part, text);
    }
    say(Status::No, format!("{skills} can't reach {path}: skills run as root without capabilities"))
}

fn files(facts: SystemSupport) -> Finding {
    let (status, text) = match facts.landlock {
        0 => (Status::No, "no Landlock: skills can read and write whatever their user can".to_owned()),
        abi @ 1..SystemSupport::ALL_OF_FILES => {
            (Status::Part, format!("Landlock ABI {abi}: a jail can deny other files"))
        }
        abi => {
            (Status::Ok, format!("Landlock ABI {abi}: skills can reach only their own files and the system's programs"))
        }
    };
    finding("files", status, text)
}

fn calls(facts: SystemSupport) -> Finding {
    match facts.calls {
        true => finding("system calls", Status::Ok, "seccomp: no network, mounts, namespaces or tracing by default"),
        false => finding("system calls", Status::No, "no seccomp: skills can use the network and every system call"),
    }
}

fn tcp(facts: SystemSupport) -> Finding {
    let (status, text) = match (facts.tcp, facts.calls) {
        (true, true) => (Status::Ok, "a manifest's list of ports is enforced"),
        (true, false) => (Status::Part, "TCP is limited to a manifest's ports; other protocols are not"),
        (false, true) => (Status::Part, "no Landlock ABI 4: skills with a list of ports get no network"),
        (false, false) => (Status::No, "neither Landlock ABI 4 nor seccomp: nothing keeps skills from the network"),
    };
    finding("network", status, text)
}

fn signals(facts: SystemSupport) -> Finding {
    let (status, text) = match (facts.signals, facts.own_user) {
        (true, _) => (Status::Ok, "skills can't signal any other process"),
        (false, true) => (Status::Part, "no Landlock ABI 6: skills can signal one another, not the worker"),
        (false, false) => (Status::No, "no Landlock ABI 6 and no separate users: skills can kill the worker"),
    };
    finding("signals", status, text)
}

fn namespaces(facts: SystemSupport) -> Finding {
    match facts.namespaces {
        Namespaces::Given => finding(
            "namespaces",
            Status::Ok,
            "skills see their own processes, mounts and users: jail: strict is available",
        ),
        other => finding("namespaces", Status::Part, format!("{other}: jail: standard is the strictest one available")),
    }
}

/// Reports how the memory, CPU time and processes of skills are counted.
fn bounds(worker: &Worker) -> Finding {
    let text = worker.jailer.machine().describe_counting();
    finding("bounds", Status::Ok, format!("limits on memory, CPU time and number of a skill's processes: {text}"))
}

/// Reports whether the children of a long-lived skill host can be listed without reading all of `/proc`.
fn children() -> Finding {
    let pid = std::process::id();
    match Path::new(&format!("/proc/{pid}/task/{pid}/children")).exists() {
        true => finding("process tree", Status::Ok, "the kernel lists a process's children"),
        false => finding("process tree", Status::Part, "the kernel lists no children: all of /proc is read instead"),
    }
}

fn interpreter(found: Result<Interpreter, PythonError>, wanted: Option<&Path>) -> Finding {
    match found {
        Ok(Interpreter { path, version: (major, minor), .. }) => {
            let wanted = wanted.unwrap_or(Path::new("python3"));
            let started = in_path(wanted).and_then(|it| it.canonicalize().ok());
            let shim = started.filter(|it| path.canonicalize().is_ok_and(|path| path != *it));
            let shim = shim.map(|it| format!(", behind {}", it.display())).unwrap_or_default();
            finding("python", Status::Ok, format!("{major}.{minor} at {}{shim}", path.display()))
        }
        Err(error) => finding("python", Status::No, format!("no cli:python skills: {error}")),
    }
}

/// Reports which program installs Python skills' packages, and where.
fn packages(config: &Config) -> Finding {
    match environments::describe(&config.packages) {
        Ok(text) => finding("packages", Status::Ok, text),
        Err(reason) => finding("packages", Status::Part, format!("no Python skills with their own packages: {reason}")),
    }
}

/// Reports where the research tools find pages, and whether a model writes their answers.
fn research(config: &Config) -> Finding {
    let Some(provider) = &config.research.provider else { return finding("research", Status::Part, NO_PROVIDER) };
    match &config.research.model {
        Some(model) => finding("research", Status::Ok, format!("{provider}; {} writes the answers", model.model)),
        None => {
            finding("research", Status::Ok, format!("{provider}; answers consist of quotes, as no model is configured"))
        }
    }
}

/// Returns the path of the program with this name.
fn in_path(program: &Path) -> Option<std::path::PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|it| it.is_file())
}

/// Returns all skills, sorted by id, except those that the manifest or the operator switched off.
fn entries(worker: &Worker) -> Vec<Arc<Entry>> {
    let entries = worker.registry.describe().into_iter().filter_map(|skill| worker.registry.get(&skill.id));
    let is_off = |entry: &Arc<Entry>| {
        let off = [NONE_ALLOWED, NO_PROVIDER, NO_BROWSER];
        let by_operator = entry.runner.as_ref().err().is_some_and(|reason| off.contains(&reason.as_str()));
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
