//! The messages between worker, supervisor, fork server and the process of a call.
//!
//! One framing: a message is one JSON object in one packet of a `SOCK_SEQPACKET` socket ([`packet`](super::packet)), of at
//! most 64 KiB. Descriptors travel with the packet. `runners/python/fork/protocol.py` is the same for Python; no other
//! file knows how a message is written.
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
//! | child of a fork server | worker | events descriptor | the last word ([`last_word`]), once | `Serving`, `Orphaned` |
//! | worker | the process of a call | events descriptor | lines of JSON, answers to its questions | |
//!
//! The four descriptors are stdin, stdout, stderr and events, in this order; a fork server gets the socket of its calls as
//! the fourth. If the jail has walls, the allowed root's is the fifth. Whoever closes its end of the control socket ends the conversation: the supervisor then kills and reaps the
//! whole process tree. A message that the table does not allow is an error between worker and supervisor. On the status
//! socket it is ignored: an import of the script may have had that socket in its hands.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::jail::plan::Plan;
use crate::allowed_root::RunRoot;
use crate::manifest::Limits;

const MIB: u64 = 1024 * 1024;

/// The one argument that makes the openskill binary a supervisor.
pub const ARGUMENT: &str = "supervise";

/// The number of the call of a process that serves no other. Fork servers count theirs from one.
pub(super) const ONLY_CALL: u64 = 0;

/// What a last word begins with (end of transmission). No JSON holds it.
const END_OF_TRANSMISSION: u8 = 0x04;

/// How far a supervised process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The program is being started; a fork server loads the script's imports.
    Starting,
    /// Calls run, and a fork server takes more.
    Serving,
    /// The fork server has ended. Calls that were started run to their ends; no other starts.
    Orphaned,
    /// Nothing of the process tree is left.
    Over,
}

/// What a supervisor is to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Command {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// The whole environment, except the number of the events descriptor.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    pub(crate) limits: ProcessLimits,
    /// The nice value of its processes, on top of what every skill has.
    #[serde(default)]
    pub(crate) nice: u8,
    /// It is a fork server: see [`super::forkserver`].
    #[serde(default)]
    pub(crate) forks: bool,
    /// What it may reach. None: whatever the worker may, and no temporary directory of its own.
    pub(crate) jail: Option<Plan>,
    /// The allowed root, opened at each start: the worker's own, not sent as text.
    #[serde(skip)]
    pub(crate) root: Option<RunRoot>,
}

/// Resource limits (setrlimit(2)) of each process of the skill, in the units of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessLimits {
    pub(crate) address_space_bytes: u64,
    pub(crate) cpu_seconds: u64,
    pub(crate) open_files: u64,
    pub(crate) file_size_bytes: u64,
    /// Processes and threads of the user, beyond those it had already.
    pub(crate) processes: u64,
}

impl ProcessLimits {
    /// A manifest's limits, in the system's units.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            address_space_bytes: limits.memory_mb.saturating_mul(MIB),
            cpu_seconds: limits.cpu_seconds,
            open_files: limits.open_files,
            file_size_bytes: limits.file_size_mb.saturating_mul(MIB),
            processes: limits.processes,
        }
    }
}

/// Worker to the supervisor of a fork server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// End this call, whether it was started or not.
    Kill(u64),
    /// Send SIGINT to the process of this call, if it runs.
    Interrupt(u64),
}

/// Supervisor to worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Notice {
    /// The fork server takes calls from now on.
    Ready(Loaded),
    /// A call is over, and nothing of it is left.
    Ended { call: u64, report: Report },
    /// The signal for this call was sent, or the call is gone. No further signal follows.
    Interrupted(u64),
    /// The fork server has ended. The calls with these numbers were started and go on.
    ServerEnded { running: Vec<u64> },
}

/// Fork server, or one of its children, to its supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// Calls are served from now on.
    Ready(Loaded),
    /// This child has this call. `first` is process 1 of its namespace, 0 if it has none of its own. `folder` names its
    /// temporary directory, within the fork server's; may be empty.
    Started { call: u64, pid: i32, first: i32, folder: String },
    /// This child has ended, with this wait status. `leftovers`: how many processes it had left running in its namespace,
    /// which were killed.
    Exited { pid: i32, status: i32, leftovers: u32 },
}

/// What a fork server loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Loaded {
    /// Files outside the language's own library: a change to one of them is a change to the skill.
    pub(super) files: Vec<PathBuf>,
    /// What each call imports again.
    pub(super) not_preloaded: Vec<ColdImport>,
}

/// An import statement that each call runs again, because it leaves behind what forks would share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ColdImport {
    /// The statement.
    pub(crate) import: String,
    /// What it leaves behind, in a word, or [`ColdImport::FAILED`].
    pub(crate) leaves: String,
}

impl ColdImport {
    /// In place of what it leaves behind: it raised an exception.
    pub(crate) const FAILED: &str = "error";
}

/// Worker to whichever idle child of a fork server takes it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Call<'a> {
    pub(super) call: u64,
    /// What the call adds to the environment.
    pub(super) env: &'a BTreeMap<&'static str, String>,
    /// The limit on the processes of its user.
    pub(super) processes: u64,
    /// The nice value of its processes, on top of the fork server's.
    pub(super) nice: u8,
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The program could not be started: an errno.
    NotStarted { errno: i32 },
    /// The program ended, and everything it left behind is gone.
    Ended {
        /// The exit status of the program itself.
        exit: Exit,
        /// How many processes it had left running, which had to be killed.
        leftovers: u32,
        /// What it had too much of, if it was ended for that: a sentence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exceeded: Option<String>,
    },
}

/// A process's exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

impl Exit {
    /// From what waitpid(2) reports.
    pub(super) fn of_wait_status(status: i32) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let status = std::process::ExitStatus::from_raw(status);
        status.code().map_or(Self::Signal(status.signal().unwrap_or(0)), Self::Code)
    }
}

/// What the process of a call says last: it has ended, and nothing that it started is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    /// Its exit code.
    pub(super) code: i32,
    /// How many processes it had left running, which were killed.
    pub(super) leftovers: u32,
}

impl Word {
    /// The report that the supervisor is to give.
    pub(super) fn report(self) -> Report {
        Report::Ended { exit: Exit::Code(self.code), leftovers: self.leftovers, exceeded: None }
    }
}

/// The last word, if this line of the events descriptor ends with one: end of transmission, the exit code and the number of
/// leftovers in decimal, a newline. What stands before it in the line is half an event, and dropped.
pub(super) fn last_word(line: &[u8]) -> Option<Word> {
    let begin = line.iter().rposition(|byte| *byte == END_OF_TRANSMISSION)?;
    let (code, leftovers) = std::str::from_utf8(&line[begin + 1..]).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let (code, leftovers) = (code.parse().ok()?, leftovers.parse().ok()?);
    (0..=255).contains(&code).then_some(Word { code, leftovers })
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
        assert_eq!(last_word(b"\x040 0\n"), Some(Word { code: 0, leftovers: 0 }));
        assert_eq!(last_word(b"half an event\x04255 3\n"), Some(Word { code: 255, leftovers: 3 }));
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
            assert_eq!(last_word(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_wait_status_is_a_code_or_a_signal() {
        assert_eq!(Exit::of_wait_status(3 << 8), Exit::Code(3));
        assert_eq!(Exit::of_wait_status(9), Exit::Signal(9));
    }
}
