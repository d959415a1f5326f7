//! The stored form of an outcome.

use openskill_proto::v1::{AgentUse, ExecuteResult};
use prost::Message;

use crate::call::outcome::Outcome;

/// How a call ended whose skill may have run. Field numbers never change, because stores outlive programs. Repairs and
/// defaults are left out, because each caller has those of its own arguments, and what callers don't see.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredOutcome {
    #[prost(message, optional, tag = "1")]
    result: Option<ExecuteResult>,
    #[prost(uint32, tag = "2")]
    attempts: u32,
    #[prost(string, repeated, tag = "3")]
    warnings: Vec<String>,
    #[prost(message, optional, tag = "4")]
    agent: Option<AgentUse>,
}

impl StoredOutcome {
    pub(super) fn new(outcome: &Outcome) -> Self {
        let Outcome { result, attempts, warnings, agent, .. } = outcome.clone();
        let result = ExecuteResult { stderr: String::new(), logs: Vec::new(), ..result };
        Self { result: Some(result), attempts, warnings, agent }
    }

    /// Decodes an outcome. None if another version of this program stored something else.
    pub(super) fn read(bytes: &[u8]) -> Option<Outcome> {
        let Self { result, attempts, warnings, agent } = Self::decode(bytes).ok()?;
        Some(Outcome { attempts, may_have_run: true, warnings, agent, ..Outcome::from_result(result?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_the_same_after_it_was_stored() {
        let result = ExecuteResult { success: true, data_json: "{\"n\":1}".into(), ..ExecuteResult::default() };
        let agent = Some(AgentUse { iterations: 2, ..AgentUse::default() });
        let warnings = vec!["it took long".to_owned()];
        let outcome = Outcome { attempts: 2, may_have_run: true, warnings, agent, ..Outcome::from_result(result) };
        let read = StoredOutcome::read(&StoredOutcome::new(&outcome).encode_to_vec()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{outcome:?}"));
        assert!(StoredOutcome::read(b"").is_none() && StoredOutcome::read(b"\xff").is_none());
    }
}
