//! Whether a transaction that failed may have happened.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::engine::StoreError;

/// Why a transaction failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// It collided with another one, and did not happen. It may succeed if it is run again.
    Collision(StoreError),
    /// The server refused it, and it did not happen.
    Refused(StoreError),
    /// The connection broke. It did not happen.
    Lost(String),
    /// The connection broke. It may have happened.
    Unknown(String),
}

impl Failure {
    /// Judges an error. `may_have_happened`: the server may have committed the transaction.
    pub(super) fn new(name: &str, error: &Error, may_have_happened: bool) -> Self {
        let reason = format!("{name}: {}", describe(error));
        match error.as_db_error() {
            // An error that ends the connection may also come after the commit.
            Some(refusal) if !is_fatal(refusal) => {
                let collisions = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
                if collisions.contains(&refusal.code()) {
                    Self::Collision(StoreError::Unavailable(reason))
                } else {
                    Self::Refused(judge(refusal.code(), reason))
                }
            }
            _ if may_have_happened => Self::Unknown(reason),
            _ => Self::Lost(reason),
        }
    }
}

/// Judges why a server refused something.
pub(super) fn judge(code: &SqlState, reason: String) -> StoreError {
    match code.code().get(..2) {
        // Wrong credentials, no such database, and what the user may not do.
        Some("28" | "3D" | "42") => StoreError::Unusable(reason),
        Some("XX") if *code != SqlState::INTERNAL_ERROR => StoreError::Damaged(reason),
        _ => StoreError::Unavailable(reason),
    }
}

fn is_fatal(error: &DbError) -> bool {
    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// Says in words what happened. Leaves out the server's details, which may contain values.
pub(super) fn describe(error: &Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(refusal), _) => format!("{} (SQLSTATE {})", refusal.message(), refusal.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
