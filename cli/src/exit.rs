//! What exit codes mean.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | the call failed, or a check found something wrong |
//! | 2 | the command line can't be read |
//! | 3 | the gateway can't be reached, or is not ready |
//! | 4 | a setting can't be used |
//! | 5 | the system refused: a port in use, a file that can't be read |
//! | 130 | stopped at once by a second Ctrl-C |

use std::process::ExitCode;

use crate::settings::Problems;

/// The call failed, or a check found something wrong.
pub(crate) const FAILED: u8 = 1;

/// Stopped at once.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line makes no sense together with what it names.
    #[error("{0}")]
    Usage(String),
    /// The gateway can't be reached, or refused the request.
    #[error("the gateway at {url} {reason}")]
    Gateway {
        /// Where it was looked for.
        url: String,
        /// What happened.
        reason: String,
    },
    /// Settings can't be used.
    #[error(transparent)]
    Settings(#[from] Problems),
    /// The system refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Failure {
    /// An error of the system, with what was tried.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }

    /// Says it on stderr and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        crate::terminal::complain(&format!("openskill: {}\n", crate::terminal::plain(&self.to_string())));
        ExitCode::from(match self {
            Self::Usage(_) => 2,
            Self::Gateway { .. } => 3,
            Self::Settings(_) => 4,
            Self::System { .. } => 5,
        })
    }
}
