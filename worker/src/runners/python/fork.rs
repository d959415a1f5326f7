//! Assembles a fork server: its program, and the command that starts it.

use openskill_sandbox::forkserver::MOST_CALLS;
use openskill_sandbox::jail::plan::Plan;
use openskill_sandbox::protocol::{Command, ProcessLimits};
use serde_json::{Value, json};

use super::settings::program_arguments;
use crate::environment::path_text;

/// The minimum number of idle children that wait for a call.
pub(crate) const LEAST_IDLE: usize = 2;

/// The maximum length of a call id. The program has the same limit.
const CALL_ID_BYTES: usize = 128;

/// The program except its last line, which names the class that preloads and runs calls.
const SERVER: &str = concat!(
    include_str!("script.py"),
    include_str!("fork/protocol.py"),
    include_str!("fork/call.py"),
    include_str!("fork/preloading.py"),
    include_str!("fork/apart.py"),
    include_str!("fork/namespaces.py"),
    include_str!("fork/server.py"),
);

/// Returns the program of a fork server for scripts.
pub(super) fn scripts_program() -> String {
    format!("{SERVER}\nmain(Preloading)\n")
}

/// Returns the program of a fork server whose processes run `host`, which must define the class `Hosting`.
pub(crate) fn host_program(host: &str) -> String {
    format!("{SERVER}\n{host}\nmain(Hosting)\n")
}

/// Returns the command that starts a fork server. `fresh`: the command of a process without a fork server, with the
/// parts that all calls share. `most_idle`: the number of idle children under load. `jailed`: calls can't send
/// signals to their fork server, if the kernel supports this. `own`: the settings of the class that runs calls.
pub(crate) fn server_command<const N: usize>(
    fresh: Command,
    most_idle: usize,
    jailed: bool,
    own: [(&str, Value); N],
) -> Command {
    let args = program_arguments();
    let argv: Vec<_> = std::iter::once(path_text(&fresh.program)).chain(args.iter().cloned()).collect();
    let writable = fresh.jail.as_ref().and_then(Plan::writable);
    let mut settings = json!({
        "argv": argv,
        "skip": [],
        "least_idle": LEAST_IDLE,
        "most_idle": most_idle,
        "most": MOST_CALLS + most_idle,
        "cpu_seconds": fresh.limits.cpu_seconds,
        "jailed": jailed,
        "writable": writable.map(|paths| paths.map(|path| path_text(path)).collect::<Vec<_>>()),
    });
    for (name, value) in own {
        settings[name] = value;
    }
    let mut env = fresh.env;
    // Reserve space for a child's call id, so that system tools show which call a process runs.
    env.insert("OPENSKILL_CALL_ID".to_owned(), "-".repeat(CALL_ID_BYTES));
    env.insert("OPENSKILL_FORKSERVER".to_owned(), settings.to_string());
    // Each call's process sets its own limits. The fork server's CPU time and child processes include those of all
    // calls.
    let limits = ProcessLimits { cpu_seconds: u64::MAX, processes: u64::MAX, ..fresh.limits };
    Command { args, env, limits, forks: true, ..fresh }
}
