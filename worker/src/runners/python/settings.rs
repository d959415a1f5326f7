//! How interpreters are started, for all Python skills.

use std::time::Duration;

use crate::process::launch::Launcher;

/// No user site-packages, UTF-8 whatever the locale, nothing written beside the script.
pub(super) const FLAGS: [&str; 4] = ["-s", "-B", "-X", "utf8"];

/// An interpreter's `-c` argument: it reads its program from descriptor 0.
const READ_PROGRAM: &str = "import os;exec(compile(os.pread(0,1<<20,0),'<openskill>','exec'))";

/// How warm processes are started and when they end.
pub(super) struct WarmSettings {
    pub(super) launcher: Launcher,
    /// The runtime that lives as long as the worker.
    pub(super) runtime: tokio::runtime::Handle,
    /// A process without a call for this long is ended.
    pub(super) idle: Duration,
    /// The most processes that share one skill's load.
    pub(super) most: usize,
}

/// An interpreter's command line, for a program on its descriptor 0.
pub(super) fn program_arguments() -> Vec<String> {
    FLAGS.into_iter().chain(["-c", READ_PROGRAM]).map(str::to_owned).collect()
}
