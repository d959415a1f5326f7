//! Errors of commands and their exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | the call or check failed, or the gateway rejected the request |
//! | 2 | usage error |
//! | 3 | the gateway or the requested worker is unreachable or not ready |
//! | 4 | invalid setting |
//! | 5 | system error: a port in use, an unreadable file |
//! | 130 | stopped at once by a second signal |

use std::process::ExitCode;

use crate::settings::SettingProblems;

/// The exit code of a failed call or check.
pub(crate) const FAILED: u8 = 1;

/// The exit code after a second signal stopped the program at once.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A usage error that is detected only while the command runs.
    #[error("{0}")]
    Usage(String),
    /// The command needs the `worker` feature, which this build lacks.
    #[cfg(not(feature = "worker"))]
    #[error(
        "this program was built without a worker, so it has no `openskill {command}`: use the openskill-worker image or a \
         release binary"
    )]
    NoWorker {
        /// The name of the command, including subcommands.
        command: String,
    },
    /// The gateway rejected the request.
    #[error("the gateway at {url} refused the request: {reason}")]
    Refused {
        /// The gateway's URL.
        url: String,
        /// The gateway's reason.
        reason: String,
    },
    /// The gateway is unreachable or not ready.
    #[error("the gateway at {url} {reason}")]
    Gateway {
        /// The gateway's URL.
        url: String,
        /// The problem, worded to follow the URL.
        reason: String,
    },
    /// A worker is unreachable or not ready.
    #[error("the worker at {address} {reason}")]
    Worker {
        /// The worker's address.
        address: String,
        /// The problem, worded to follow the address.
        reason: String,
    },
    /// All problems found in the settings.
    #[error(transparent)]
    Settings(#[from] SettingProblems),
    /// A failed call to the operating system.
    #[error("{what}: {source}")]
    System {
        /// What failed, as the beginning of a sentence.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Failure {
    /// Wraps an error of the operating system. `what` says what failed.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }

    /// Prints the error to stderr and returns its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        crate::terminal::print_err(&format!("openskill: {self}\n"));
        ExitCode::from(match self {
            Self::Refused { .. } => FAILED,
            Self::Usage(_) => 2,
            #[cfg(not(feature = "worker"))]
            Self::NoWorker { .. } => 2,
            Self::Gateway { .. } | Self::Worker { .. } => 3,
            Self::Settings(_) => 4,
            Self::System { .. } => 5,
        })
    }
}
