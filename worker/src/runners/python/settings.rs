//! How interpreters are started, for all Python skills.

use std::sync::Arc;
use std::time::Duration;

use openskill_metrics::Labelled;

use crate::process::launch::Launcher;

/// No user site-packages, UTF-8 whatever the locale, nothing written beside the script.
pub(super) const FLAGS: [&str; 4] = ["-s", "-B", "-X", "utf8"];

/// An interpreter's `-c` argument: it reads its program from descriptor 0.
const READ_PROGRAM: &str = "import os;exec(compile(os.pread(0,1<<20,0),'<openskill>','exec'))";

/// What is counted of warm processes and of the calls of Python skills.
pub(super) struct Counts {
    pub(super) starts: Labelled,
    pub(super) failures: Labelled,
    pub(super) warm_calls: Labelled,
    pub(super) cold_calls: Labelled,
}

/// Why a call gets a fresh interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cold {
    /// Its manifest says so.
    Process,
    /// Its jail allows no fork server.
    Jail,
    /// The fork server takes long to start.
    Starting,
    /// The fork servers failed repeatedly.
    Paused,
    /// No warm process began the call.
    Failed,
}

/// What an import may leave behind that forks would share, as metrics name it: those of `fork/preloading.py`, and how people say it.
pub(super) const COLD_IMPORT_TRACES: [(&str, &str); 7] = [
    ("thread", "a thread"),
    ("process", "a child process"),
    ("descriptor", "an open file or socket"),
    ("directory", "another working directory"),
    ("umask", "another umask"),
    ("signal", "a signal handler"),
    ("environment", "a changed environment variable"),
];

/// The isolations with warm processes, as metrics name them.
pub(super) const FORK: &str = "fork";
pub(super) const SHARED: &str = "shared";

impl Counts {
    pub(super) fn new() -> Self {
        let of_isolations = || Labelled::new([FORK, SHARED]);
        let reasons = [Cold::Process, Cold::Jail, Cold::Starting, Cold::Paused, Cold::Failed];
        Self {
            starts: of_isolations(),
            failures: of_isolations(),
            warm_calls: of_isolations(),
            cold_calls: Labelled::new(reasons.map(Cold::name)),
        }
    }
}

impl Cold {
    /// What it means for a skill, for people.
    pub(super) fn explanation(self) -> &'static str {
        match self {
            Self::Process => "its manifest says isolation: process",
            Self::Jail => {
                "the user of skills can't reach all that the script needs, and a fork server must not pass file permissions"
            }
            Self::Starting => "its imports take longer than two seconds, and its fork server is not ready yet",
            Self::Paused => "its fork servers failed repeatedly",
            Self::Failed => "no warm process took the call",
        }
    }

    /// The name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Jail => "jail",
            Self::Starting => "starting",
            Self::Paused => "paused",
            Self::Failed => "failed",
        }
    }
}

/// How warm processes are started and when they end.
pub(super) struct WarmSettings {
    pub(super) launcher: Launcher,
    pub(super) counts: Arc<Counts>,
    /// The runtime that lives as long as the worker.
    pub(super) runtime: tokio::runtime::Handle,
    /// A process without a call for this long is ended.
    pub(super) idle: Duration,
    /// The most processes that share one skill's load.
    pub(super) most: usize,
}

/// An interpreter's command line, for a program on its descriptor 0.
pub(crate) fn program_arguments() -> Vec<String> {
    FLAGS.into_iter().chain(["-c", READ_PROGRAM]).map(str::to_owned).collect()
}
