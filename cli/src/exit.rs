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
//! | 130 | stopped at once by a signal, of servers by a second one |

use std::fmt::Display;
use std::process::ExitCode;

use crate::settings::SettingProblems;
use crate::terminal::print_err;

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
    /// A call or a check failed, and the command has printed why.
    #[error("the call or check failed")]
    Reported,
    /// A signal stopped the program at once. The first one lets servers finish their calls.
    #[error("stopped by a signal")]
    Interrupted,
    /// The gateway rejected the request.
    #[error("{0}")]
    Refused(String),
    /// The gateway or a worker is unreachable or not ready.
    #[error("{0}")]
    NotReady(String),
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

    /// Creates the failure of a gateway that is unreachable or not ready. `reason` follows the URL.
    pub(crate) fn gateway(url: &str, reason: impl Display) -> Self {
        Self::NotReady(format!("the gateway at {url} {reason}"))
    }

    /// Creates the failure of a request that the gateway rejected.
    pub(crate) fn refused(url: &str, reason: impl Display) -> Self {
        Self::Refused(format!("the gateway at {url} refused the request: {reason}"))
    }

    /// Prints why a call or a check failed.
    pub(crate) fn printed(reason: &dyn Display) -> Self {
        print_err(&format!("{reason}\n"));
        Self::Reported
    }

    /// Prints the error to stderr, unless the user knows it, and returns its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if !matches!(self, Self::Reported | Self::Interrupted) {
            print_err(&format!("openskill: {self}\n"));
        }
        ExitCode::from(match self {
            Self::Reported | Self::Refused(_) => 1,
            Self::Interrupted => 130,
            Self::Usage(_) => 2,
            #[cfg(not(feature = "worker"))]
            Self::NoWorker { .. } => 2,
            Self::NotReady(_) => 3,
            Self::Settings(_) => 4,
            Self::System { .. } => 5,
        })
    }
}
