//! Where and when it ran.

use std::path::Path;
use std::process::Command;

use openskill_tests::repository;

use crate::settings::Settings;

/// Lines for the head of the tables.
pub(crate) fn describe(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("date", first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]))),
        ("commit", commit()),
        ("machine", machine()),
        ("system", first_line(Command::new("uname").args(["-sr"]))),
        ("built with", first_line(Command::new("rustc").arg("--version").current_dir(repository()))),
        ("script's Python", first_line(Command::new(&settings.pythons.script).arg("--version"))),
    ];
    if let Some(hosts) = &settings.pythons.hosts {
        lines.push(("hosts in Python", packages(hosts, &["fastapi", "uvicorn", "fastmcp", "mcp"])));
    }
    if let Some(mcpo) = &settings.pythons.mcpo {
        lines.push(("mcpo", packages(&mcpo.with_file_name("python"), &["mcpo", "mcp", "fastapi", "uvicorn"])));
    }
    lines
}

fn commit() -> String {
    let git = |arguments: &[&str]| first_line(Command::new("git").args(arguments).current_dir(repository()));
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let changes = if changed.is_empty() { "" } else { ", with changes" };
    format!("{}{changes}", git(&["rev-parse", "--short", "HEAD"]))
}

fn machine() -> String {
    let file = |name: &str| std::fs::read_to_string(name).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(':').nth(1)).unwrap_or_default().trim().to_owned()
    };
    let model = field(&file("/proc/cpuinfo"), "model name");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field(&file("/proc/meminfo"), "MemTotal");
    let gib = memory.trim_end_matches(" kB").parse::<f64>().unwrap_or_default() / f64::from(1 << 20);
    let kind = if file("/proc/cpuinfo").contains("hypervisor") { "a virtual machine, " } else { "" };
    format!("{kind}{cores} cores of {model}, {gib:.0} GiB; the client has no core of its own")
}

/// The versions of some packages, and of the Python that has them.
fn packages(python: &Path, names: &[&str]) -> String {
    let program = "import importlib.metadata as m, platform, sys; print('Python ' + platform.python_version(), \
                   *(f'{name} {m.version(name)}' for name in sys.argv[1:]), sep=', ')";
    first_line(Command::new(python).args(["-c", program]).args(names))
}

fn first_line(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or_default().trim().to_owned()
}
