//! A user's reaction to a question, as JSON.

use openskill_proto::v1::InputAction;
use serde::Deserialize;

/// Written as `accept`, `decline` or `cancel`.
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
