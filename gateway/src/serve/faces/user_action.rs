//! How a user reacts to a question, as JSON clients write it.

use openskill_proto::v1::InputAction;
use serde::Deserialize;

/// `accept`, `decline` or `cancel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UserAction {
    Accept,
    Decline,
    Cancel,
}

impl From<UserAction> for InputAction {
    fn from(action: UserAction) -> Self {
        match action {
            UserAction::Accept => Self::Accept,
            UserAction::Decline => Self::Decline,
            UserAction::Cancel => Self::Cancel,
        }
    }
}
