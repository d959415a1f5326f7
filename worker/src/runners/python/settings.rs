//! Settings that all Python skills share.

use std::sync::Arc;
use std::time::Duration;

use openskill_sandbox::launch::Launcher;
use openskill_telemetry::metrics::LabelledCounters;

/// Disables user site-packages and bytecode files, and uses UTF-8 in any locale.
pub(super) const FLAGS: [&str; 4] = ["-s", "-B", "-X", "utf8"];

/// The `-c` argument, which makes an interpreter read its program from descriptor 0.
const READ_PROGRAM: &str = "import os;exec(compile(os.pread(0,1<<20,0),'<openskill>','exec'))";

/// Counts warm processes, and the calls of Python skills.
pub(super) struct WarmCounters {
    pub(super) starts: LabelledCounters,
    pub(super) failures: LabelledCounters,
    pub(super) warm_calls: LabelledCounters,
    pub(super) cold_calls: LabelledCounters,
}

/// The reasons why a call gets a fresh interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cold {
    /// The manifest selects `isolation: process`.
    Process,
    /// The jail does not allow a fork server.
    Jail,
    /// The fork server starts slowly.
    Starting,
    /// Fork servers failed repeatedly.
    Paused,
    /// No warm process started the call.
    Failed,
}

/// The traces of imports that forked processes would share, from `fork/preloading.py`: the name in metrics, and a
/// phrase for people.
pub(super) const COLD_IMPORT_TRACES: [(&str, &str); 7] = [
    ("thread", "a thread"),
    ("process", "a child process"),
    ("descriptor", "an open file or socket"),
    ("directory", "another working directory"),
    ("umask", "another umask"),
    ("signal", "a signal handler"),
    ("environment", "a changed environment variable"),
];

/// The names in metrics of the kinds of isolation that use warm processes.
pub(super) const FORK: &str = "fork";
pub(super) const SHARED: &str = "shared";

impl WarmCounters {
    pub(super) fn new() -> Self {
        let of_isolations = || LabelledCounters::new([FORK, SHARED]);
        let reasons = [Cold::Process, Cold::Jail, Cold::Starting, Cold::Paused, Cold::Failed];
        Self {
            starts: of_isolations(),
            failures: of_isolations(),
            warm_calls: of_isolations(),
            cold_calls: LabelledCounters::new(reasons.map(Cold::name)),
        }
    }
}

impl Cold {
    /// Returns the name in metrics, and what this means for a skill, for people.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Process => ("process", "its manifest says isolation: process"),
            Self::Jail => (
                "jail",
                "the user of skills can't reach all that the script needs, and a fork server must not bypass file permissions",
            ),
            Self::Starting => {
                ("starting", "its imports take longer than two seconds, and its fork server is not ready yet")
            }
            Self::Paused => ("paused", "its fork servers failed repeatedly"),
            Self::Failed => ("failed", "no warm process took the call"),
        }
    }

    /// Returns the name in metrics.
    pub(super) fn name(self) -> &'static str {
        self.texts().0
    }

    /// Explains for people why calls get a fresh interpreter.
    pub(super) fn explain(self) -> String {
        format!("calls get a fresh interpreter: {}", self.texts().1)
    }
}

/// Settings that control when warm processes start and stop.
pub(super) struct WarmSettings {
    pub(super) launcher: Launcher,
    pub(super) counts: Arc<WarmCounters>,
    /// A runtime that lives as long as the worker.
    pub(super) runtime: tokio::runtime::Handle,
    /// A process stops after this long without a call.
    pub(super) idle: Duration,
    /// The maximum number of processes that share one skill's load.
    pub(super) most: usize,
}

/// Returns an interpreter's arguments for a program on descriptor 0.
pub(super) fn program_arguments() -> Vec<String> {
    FLAGS.into_iter().chain(["-c", READ_PROGRAM]).map(str::to_owned).collect()
}
