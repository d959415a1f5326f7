//! Who answers when a server asks the user something: nobody yet. The one place where an answer will come from.

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};

/// Answers questions of servers.
#[derive(Debug, Clone, Default)]
pub(super) struct Asks;

impl Asks {
    /// What the user says to a question.
    pub(super) async fn answer(&self, question: ElicitRequestParams) -> ElicitResult {
        drop(question);
        ElicitResult::new(ElicitationAction::Decline)
    }
}
