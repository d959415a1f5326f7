//! Probes what this machine can isolate, and which skills require more: `openskill doctor`.

use std::path::Path;
use std::sync::Arc;

use crate::check;
use crate::config::browser::NO_BROWSER;
use crate::config::research::NO_PROVIDER;
use crate::config::{Builds, Config};
use crate::process::jail::probe::{Facts, Namespaces};
use crate::process::strays::Strays;
use crate::registry::Entry;
use crate::runners::in_process::Functions;
use crate::runners::python::environments;
use crate::runners::python::interpreter::Interpreter;
use crate::runners::python::interpreter::PythonError;
use crate::runners::python::interpreter::find;
use crate::sessions::allowed::NONE_ALLOWED;
use crate::worker::Worker;

mod browser;
mod engine;
mod finding;

use finding::finding;
pub use finding::{Finding, Status};

/// All findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// The machine, in a fixed order.
    pub machine: Vec<Finding>,
    /// The skills, by id, without those that are not meant to run here: by their manifest, or by the operator.
    pub skills: Vec<Finding>,
    /// How many of them can be called, as `openskill skills` counts them.
    pub available: usize,
    /// How many cannot, those included that are not meant to.
    pub unavailable: usize,
}

impl Examination {
    /// Whether every skill can run as its manifest requires.
    pub fn is_good(&self) -> bool {
        self.skills.iter().all(|it| it.status != Status::No)
    }
}

/// Examines the machine and all skills. Takes a few seconds, or as long as MCP servers may take to start.
///
/// # Errors
/// The system cannot run skill processes at all.
pub async fn examine(mut config: Config) -> std::io::Result<Examination> {
    // It looks, and leaves the machine as it is.
    config.packages.builds = Builds::None;
    let engine = config.docker_host.clone();
    let python = find(config.python.as_deref());
    let (manifests, unreadable) = crate::registry::read_folders(&config.skill_dirs, &config.allowed_root);
    let strays = Strays::adopt()?;
    let worker = crate::build(config, Functions::default(), Arc::new(strays))?;
    let facts = worker.jailer.facts();
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
        containers.unwrap_or_else(|_| finding("containers", Status::No, "the engine could not be asked")),
        research(&worker.config),
        browser::look(&worker.config.browser),
    ];
    check::settle(&worker, check::slowest_start(&manifests)).await;
    for entry in entries(&worker) {
        if let Ok(runner) = &entry.runner {
            Arc::clone(runner).warm_up(Arc::clone(&entry.manifest)).await;
        }
    }
    let mut skills = of_skills(&worker);
    let [available, unavailable] = worker.registry.count();
    skills.extend(unreadable.iter().map(|error| finding("a manifest", Status::No, error.to_string())));
    worker.registry.close().await;
    worker.launcher.finished().await;
    Ok(Examination { machine, skills, available, unavailable })
}

fn kernel() -> Finding {
    let name = rustix::system::uname();
    let text = format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy());
    finding("kernel", Status::Ok, text)
}

fn user(worker: &Worker, facts: Facts, python: Option<&Interpreter>) -> Finding {
    let own = rustix::process::geteuid().as_raw();
    let skills = worker.jailer.user();
    let skills = format!("{}:{}", skills.uid, skills.gid);
    let say = |status, text| finding("user", status, text);
    if !facts.root {
        return say(
            Status::Part,
            format!("the worker's user is {own}, no root: skills run under it. It should own nothing but their data"),
        );
    }
    if !facts.own_user {
        return say(Status::No, "root may not change users here: skills run as root without capabilities".to_owned());
    }
    if worker.jailer.gives_own_users() {
        return say(Status::Ok, "each run has a user of its own, without capabilities".to_owned());
    }
    let hidden = worker.jailer.out_of_reach(&worker.config, python);
    let Some(path) = hidden.first() else {
        return say(Status::Ok, format!("skills run as {skills} without capabilities"));
    };
    let path = path.display();
    if facts.landlock >= Facts::ALL_OF_FILES {
        let text = format!(
            "skills run as {skills} and pass file permissions, as that user does not reach {path}; Landlock bounds \
             them. To do without: let the user reach it"
        );
        return say(Status::Part, text);
    }
    say(Status::No, format!("{skills} does not reach {path}: skills run as root without capabilities"))
}

fn files(facts: Facts) -> Finding {
    let (status, text) = match facts.landlock {
        0 => (Status::No, "no Landlock: skills read and write what their user may".to_owned()),
        abi @ 1..Facts::ALL_OF_FILES => (Status::Part, format!("Landlock ABI {abi}: files outside can be cut off")),
        abi => (Status::Ok, format!("Landlock ABI {abi}: skills reach their own files and the system's programs")),
    };
    finding("files", status, text)
}

fn calls(facts: Facts) -> Finding {
    match facts.calls {
        true => finding("system calls", Status::Ok, "seccomp: no network, mounts, namespaces or tracing by default"),
        false => finding("system calls", Status::No, "no seccomp: skills may use the network and all the kernel gives"),
    }
}

fn tcp(facts: Facts) -> Finding {
    let (status, text) = match (facts.tcp, facts.calls) {
        (true, true) => (Status::Ok, "a manifest's list of ports is kept"),
        (true, false) => (Status::Part, "TCP is kept to a manifest's ports, other ways out are open"),
        (false, true) => (Status::Part, "no Landlock ABI 4: a list of ports means no network at all"),
        (false, false) => (Status::No, "neither Landlock ABI 4 nor seccomp: nothing keeps skills from the network"),
    };
    finding("network", status, text)
}

fn signals(facts: Facts) -> Finding {
    let (status, text) = match (facts.signals, facts.own_user) {
        (true, _) => (Status::Ok, "skills can signal no other process"),
        (false, true) => (Status::Part, "no Landlock ABI 6: skills can signal one another, not the worker"),
        (false, false) => (Status::No, "no Landlock ABI 6, no user of their own: skills can end the worker"),
    };
    finding("signals", status, text)
}

fn namespaces(facts: Facts) -> Finding {
    match facts.namespaces {
        Namespaces::Given => finding(
            "namespaces",
            Status::Ok,
            "skills see their own processes, mounts and users: jail: strict can be had",
        ),
        other => finding("namespaces", Status::Part, format!("{other}: jail: standard is the most that can be had")),
    }
}

/// What counts the memory, the CPU time and the processes of a skill.
fn bounds(worker: &Worker) -> Finding {
    let controller = worker.jailer.controller();
    let text = match controller.reason() {
        "" => controller.to_string(),
        reason => format!("{controller} ({reason})"),
    };
    finding("bounds", Status::Ok, format!("memory, CPU time and number of all of a skill's processes: {text}"))
}

/// How a long-lived host of skills finds its children, without reading all of `/proc`.
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

/// What installs the packages of Python skills, and where.
fn packages(config: &Config) -> Finding {
    match environments::describe(&config.packages) {
        Ok(text) => finding("packages", Status::Ok, text),
        Err(reason) => {
            finding("packages", Status::Part, format!("no Python skills with packages of their own: {reason}"))
        }
    }
}

/// Where the research tools find pages, and whether a model words their answers.
fn research(config: &Config) -> Finding {
    let Some(provider) = &config.research.provider else { return finding("research", Status::Part, NO_PROVIDER) };
    match &config.research.model {
        Some(model) => finding("research", Status::Ok, format!("{provider}; answers are worded by {}", model.name)),
        None => {
            finding("research", Status::Ok, format!("{provider}; answers are made of quotes, no model is configured"))
        }
    }
}

/// The path of the program that this name starts.
fn in_path(program: &Path) -> Option<std::path::PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|it| it.is_file())
}

/// The skills, by id, without those that are not meant to run here: by their manifest, or by the operator.
fn entries(worker: &Worker) -> Vec<Arc<Entry>> {
    let entries = worker.registry.describe().into_iter().filter_map(|skill| worker.registry.get(&skill.id));
    let is_off = |entry: &Arc<Entry>| {
        let off = [NONE_ALLOWED, NO_PROVIDER, NO_BROWSER];
        let by_operator = entry.runner.as_ref().err().is_some_and(|reason| off.contains(&reason.as_str()));
        entry.manifest.unavailable.is_some() || by_operator
    };
    entries.filter(|entry| !is_off(entry)).collect()
}

fn of_skills(worker: &Worker) -> Vec<Finding> {
    let look = |entry: Arc<Entry>| {
        let manifest = &entry.manifest;
        let lacking = if manifest.how.is_process() { worker.jailer.lacking(manifest) } else { Vec::new() };
        let (status, text) = match &entry.runner {
            // Nothing is wrong with it: a worker builds it.
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
