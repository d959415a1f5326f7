//! A user's reaction to a question, as JSON.

use openskill_proto::v1::InputAction;
use serde::Deserialize;

/// Written as `accept`, `decline` or `cancel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UserAction {
    Accept = InputAction::Accept as isize,
    Decline = InputAction::Decline as isize,
    Cancel = InputAction::Cancel as isize,
}
