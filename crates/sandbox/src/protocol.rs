//! Defines the messages between the worker, the supervisor, the fork server and a call's process.
//!
//! A message is one JSON object in one packet of a `SOCK_SEQPACKET` socket ([`packet`](super::packet)), of at most
//! 64 KiB. Descriptors are attached to the packet. `runners/python/fork/protocol.py` implements the same in
//! Python. No other file depends on the encoding.
//!
//! | from | to | over | message | in [`Phase`] |
//! |---|---|---|---|---|
//! | worker | supervisor | control socket | [`Command`] with four or five descriptors: first, once | `Starting` |
//! | worker | supervisor of a fork server | control socket | [`Order`] | any |
//! | supervisor | worker | control socket | [`Notice::Ended`] for [`ONLY_CALL`]: last, once | any |
//! | supervisor of a fork server | worker | control socket | [`Notice::Ready`], once | ends `Starting` |
//! | | | | [`Notice::Ended`] for each call | `Serving`, `Orphaned` |
//! | | | | [`Notice::Interrupted`] for each [`Order::Interrupt`] | `Serving`, `Orphaned` |
//! | | | | [`Notice::ServerEnded`], at most once | begins `Orphaned` |
//! | fork server | its supervisor | status socket | [`Status::Ready`], once | ends `Starting` |
//! | | | | [`Status::Exited`] for each child | `Serving` |
//! | child of a fork server | its supervisor | status socket | [`Status::Started`], before the script runs | `Serving` |
//! | worker | any idle child | calls socket | [`Call`] with four descriptors | `Starting`, `Serving` |
//! | the process of a call | worker | events descriptor | lines of JSON, of the skill | |
//! | child of a fork server | worker | events descriptor | the exit message ([`parse_exit_message`]), once | `Serving`, `Orphaned` |
//! | worker | the process of a call | events descriptor | lines of JSON, answers to its questions | |
//!
//! The four descriptors are stdin, stdout, stderr and events, in this order. A fork server gets its calls socket
//! as the fourth. If the jail has walls, the allowed root is the fifth. Closing either end of the control socket
//! ends the conversation, and the supervisor then kills and reaps the whole process tree. A message that the table
//! does not allow is an error between worker and supervisor. On the status socket it is ignored, because an import
//! of the script may have had access to that socket.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::jail::plan::{Plan, Walls};
use crate::allowed_root::RunRoot;
use crate::limits::Limits;

const MIB: u64 = 1024 * 1024;

/// The argument that makes the openskill binary a supervisor.
pub const ARGUMENT: &str = "supervise";

/// The call number in a process that serves only one call. Fork servers number their calls from one.
pub(super) const ONLY_CALL: u64 = 0;

/// The first byte of an exit message (end of transmission). JSON never contains it.
const END_OF_TRANSMISSION: u8 = 0x04;

/// The phases of a supervised process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The program is starting. A fork server loads the script's imports.
    Starting,
    /// Calls run, and a fork server accepts more.
    Serving,
    /// The fork server has ended. Started calls run to their ends, and no other starts.
    Orphaned,
    /// The whole process tree has ended.
    Over,
}

/// The program that a supervisor runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Command {
    /// The absolute path of the program's file.
    pub program: PathBuf,
    /// The program's arguments, without its name.
    pub args: Vec<String>,
    /// The whole environment, except the variable with the number of the events descriptor.
    pub env: BTreeMap<String, String>,
    /// The program's working directory.
    pub cwd: PathBuf,
    /// The limits on each of its processes.
    pub limits: ProcessLimits,
    /// The nice value of its processes, in addition to the value that all skills have.
    #[serde(default)]
    pub nice: u8,
    /// Whether it is a fork server; see [`super::forkserver`].
    #[serde(default)]
    pub forks: bool,
    /// What it may access. `None` allows what the worker may access, without a private temporary directory.
    pub jail: Option<Plan>,
    /// The allowed root, which the worker opens at each start. Passed as a descriptor, not as text.
    #[serde(skip)]
    pub root: Option<RunRoot>,
}

impl Command {
    /// Returns the walls of its jail.
    pub(super) fn walls(&self) -> Option<&Walls> {
        self.jail.as_ref()?.walls.as_ref()
    }
}

/// The resource limits (setrlimit(2)) of each of the skill's processes, in the system's units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// `RLIMIT_AS`: the maximum size of the address space.
    pub address_space_bytes: u64,
    /// `RLIMIT_CPU`: the maximum CPU time. The process gets SIGXCPU when it is used up.
    pub cpu_seconds: u64,
    /// `RLIMIT_NOFILE`: the maximum number of open files.
    pub open_files: u64,
    /// `RLIMIT_FSIZE`: the maximum size of a file that it writes.
    pub file_size_bytes: u64,
    /// The number of the user's processes and threads, in addition to those that it already has.
    pub processes: u64,
}

impl ProcessLimits {
    /// Converts a skill's limits to the system's units.
    pub fn from_limits(limits: &Limits) -> Self {
        Self {
            address_space_bytes: limits.memory_mb.saturating_mul(MIB),
            cpu_seconds: limits.cpu_seconds,
            open_files: limits.open_files,
            file_size_bytes: limits.file_size_mb.saturating_mul(MIB),
            processes: limits.processes,
        }
    }
}

/// An order from the worker to a fork server's supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Kill this call, whether or not it has started.
    Kill(u64),
    /// Send SIGINT to this call's process, if it runs.
    Interrupt(u64),
}

/// A notice from the supervisor to the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Notice {
    /// The fork server now accepts calls.
    Ready(Loaded),
    /// A call and all its processes have ended.
    Ended { call: u64, report: RunReport },
    /// The signal for this call was sent, or the call has ended. No other signal follows.
    Interrupted(u64),
    /// The fork server has ended. The calls with these numbers have started and continue.
    ServerEnded { running: Vec<u64> },
}

/// A status from a fork server or one of its children to its supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// The fork server now accepts calls.
    Ready(Loaded),
    /// This child runs this call. `first`: process 1 of its namespace, or 0 if it has no namespace of its own.
    /// `folder`: the name of its temporary directory inside the fork server's. May be empty.
    Started { call: u64, pid: i32, first: i32, folder: String },
    /// This child has exited, with this wait status. `leftovers`: the number of processes that it left running in
    /// its namespace, which were killed.
    Exited { pid: i32, status: i32, leftovers: u32 },
}

/// The files and imports that a fork server loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Loaded {
    /// The files outside Python's own library. A change to one of them changes the skill.
    pub(super) files: Vec<PathBuf>,
    /// The imports that each call repeats.
    pub(super) not_preloaded: Vec<ColdImport>,
}

/// An import that each call repeats, because it leaves traces that forks would share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdImport {
    /// The import, as the script's source spells it.
    pub import: String,
    /// The trace that it leaves, in one word, or [`ColdImport::FAILED`].
    pub leaves: String,
}

impl ColdImport {
    /// Replaces the trace if the import raised an exception.
    pub(crate) const FAILED: &str = "error";
}

/// Describes a process for a fork server to fork.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ForkRequest<'a> {
    /// The variables that are added to the fork server's environment.
    pub env: &'a BTreeMap<&'static str, String>,
    /// The limit on the number of its user's processes.
    pub processes: u64,
    /// The nice value of its processes, in addition to the fork server's.
    pub nice: u8,
}

/// A call from the worker to the first idle child of a fork server that takes it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Call<'a> {
    pub(super) call: u64,
    #[serde(flatten)]
    pub(super) request: ForkRequest<'a>,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunReport {
    /// The program could not be started.
    NotStarted {
        /// The errno of the failed start.
        errno: i32,
    },
    /// The program and all processes that it left behind have ended.
    Ended {
        /// The program's own exit status.
        exit: Exit,
        /// The number of processes that it left running, which were killed.
        leftovers: u32,
        /// A sentence that explains the limit that it exceeded, if it was ended for that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exceeded: Option<String>,
    },
}

/// A process's exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The process returned this code.
    Code(i32),
    /// This signal killed the process.
    Signal(i32),
}

impl Exit {
    /// Converts the status that waitpid(2) returns.
    pub(super) fn from_wait_status(status: i32) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let status = std::process::ExitStatus::from_raw(status);
        status.code().map_or(Self::Signal(status.signal().unwrap_or(0)), Self::Code)
    }
}

/// Parses the exit message at the end of a line from the events descriptor, which is the last message of a call's
/// process: it and all processes that it started have ended. It consists of end of transmission, the exit code and the
/// number of leftovers in decimal, and a newline. Anything before it in the line is an incomplete event, and is
/// dropped. Returns the report that the supervisor would send.
pub(super) fn parse_exit_message(line: &[u8]) -> Option<RunReport> {
    let begin = line.iter().rposition(|byte| *byte == END_OF_TRANSMISSION)?;
    let (code, leftovers) = std::str::from_utf8(&line[begin + 1..]).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let (code, leftovers) = (code.parse().ok()?, leftovers.parse().ok()?);
    (0..=255).contains(&code).then_some(RunReport::Ended { exit: Exit::Code(code), leftovers, exceeded: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_python_side_are_read() {
        let started: Status =
            serde_json::from_slice(br#"{"started": {"call": 7, "pid": 12, "first": 11, "folder": "ab"}}"#).unwrap();
        assert_eq!(started, Status::Started { call: 7, pid: 12, first: 11, folder: "ab".to_owned() });
        let exited: Status =
            serde_json::from_slice(br#"{"exited": {"pid": 12, "status": 256, "leftovers": 2}}"#).unwrap();
        assert_eq!(exited, Status::Exited { pid: 12, status: 256, leftovers: 2 });
        let ready =
            br#"{"ready": {"files": ["/a.py"], "not_preloaded": [{"import": "import x", "leaves": "thread"}]}}"#;
        let Status::Ready(Loaded { files, not_preloaded }) = serde_json::from_slice(ready).unwrap() else { panic!() };
        assert_eq!(files, [PathBuf::from("/a.py")]);
        assert_eq!(not_preloaded, [ColdImport { import: "import x".to_owned(), leaves: "thread".to_owned() }]);
    }

    #[test]
    fn a_last_word_is_the_end_of_its_line_and_an_exit_code() {
        let ended = |code, leftovers| RunReport::Ended { exit: Exit::Code(code), leftovers, exceeded: None };
        assert_eq!(parse_exit_message(b"\x040 0\n"), Some(ended(0, 0)));
        assert_eq!(parse_exit_message(b"half an event\x04255 3\n"), Some(ended(255, 3)));
        for line in [
            &b"{}\n"[..],
            b"\x04\n",
            b"\x04256 0\n",
            b"\x04-1 0\n",
            b"\x041\n",
            b"\x041 0",
            b"\x041 -1\n",
            b"\x041 0\n ",
        ] {
            assert_eq!(parse_exit_message(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_wait_status_is_a_code_or_a_signal() {
        assert_eq!(Exit::from_wait_status(3 << 8), Exit::Code(3));
        assert_eq!(Exit::from_wait_status(9), Exit::Signal(9));
    }
}
