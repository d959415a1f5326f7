//! Prepares arguments: resolves references, inserts secrets, and validates the result against the skill.

use openskill_model::ModelCall;
use openskill_proto::v1::{self, ArgumentPolicy, ErrorCode};

use super::Turn;
use super::settle::forbidden;
use crate::context::result::resolve;
use crate::entry::{Outcome, QuestionKind, Repaired, SkillRevision, UserQuestion};
use crate::error::AgentError;
use crate::secrets::{Missing, Secrets};

/// A call's arguments before preparation.
pub(super) struct ProposedCall {
    /// The arguments, with references in place of secrets.
    pub(super) arguments: String,
    /// Whether the arguments were already prepared, or written by the user. Final arguments are not repaired and
    /// contain no references to results.
    pub(super) is_final: bool,
    /// The revision of the skill that was approved for these arguments.
    pub(super) approved: Option<SkillRevision>,
}

/// A prepared call that may run.
pub(super) struct Ready {
    /// The revision of the skill for which the arguments were prepared.
    pub(super) skill: v1::Skill,
    /// The arguments with secrets filled in.
    pub(super) arguments: String,
    /// The arguments for the log and for display, with references in place of secrets.
    pub(super) shown: String,
    /// See [`crate::entry::Calling::masked`].
    pub(super) masked: String,
    pub(super) repairs: Vec<Repaired>,
}

impl Ready {
    pub(super) fn revision(&self) -> SkillRevision {
        (&self.skill).into()
    }
}

impl Turn {
    /// Prepares the arguments. The inner error is the outcome of a rejected call.
    pub(super) async fn ready(
        &self,
        call: &ModelCall,
        skill: &v1::Skill,
        proposed: &ProposedCall,
    ) -> Result<Result<Ready, Outcome>, AgentError> {
        let resolved = match proposed.arguments.trim() {
            "" => Ok("{}".to_owned()),
            _ if proposed.is_final => Ok(proposed.arguments.clone()),
            _ => {
                let state = self.state.lock();
                resolve(&proposed.arguments, &|id| state.result(id))
            }
        };
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(reason) => return Ok(Err(Outcome::failure(ErrorCode::InvalidArgument, reason))),
        };
        if skill.agent.is_some() && self.secrets.are_in(&resolved) {
            return Ok(Err(forbidden(
                "a secret can't be given to an agent, whose model would read it: call the tool that needs it yourself",
            )));
        }
        let revealed = match self.secrets.reveal(&resolved) {
            Ok(revealed) => revealed,
            Err(missing) => match self.ask_again(call, missing, &resolved).await? {
                Some(revealed) => revealed,
                None => return Ok(Err(forbidden("the user did not give the secret again"))),
            },
        };
        let policy = if proposed.is_final { ArgumentPolicy::Strict } else { ArgumentPolicy::Unspecified };
        let request = self.request(&skill.id, &call.id, revealed, policy);
        let prepared = match self.shared.skills.prepare(&self.caller, request).await {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(Outcome::failure(ErrorCode::Unavailable, error.to_string()))),
        };
        if let Some(error) = prepared.error {
            return Ok(Err(error.into()));
        }
        let marked = Secrets::from_marked_values(&prepared.secret_values_json);
        let masked = if prepared.secret_values_json.is_empty() {
            String::new()
        } else {
            marked.conceal_value(&prepared.arguments_json)
        };
        let hide = |it: v1::Repair| Repaired {
            path: it.path,
            kind: it.kind,
            before: marked.conceal_value(&it.before_json),
            after: marked.conceal_value(&it.after_json),
        };
        Ok(Ok(Ready {
            masked: self.secrets.refer(&masked),
            repairs: prepared.repairs.into_iter().map(hide).collect(),
            // Gateways of earlier releases only return the version.
            skill: prepared.skill.unwrap_or_else(|| v1::Skill { version: prepared.version, ..skill.clone() }),
            shown: self.secrets.refer(&prepared.arguments_json),
            arguments: prepared.arguments_json,
        }))
    }

    /// Asks the user for secrets that were lost in a restart. Returns the arguments with all secrets, or `None` if
    /// some are still missing.
    async fn ask_again(&self, call: &ModelCall, missing: Missing, json: &str) -> Result<Option<String>, AgentError> {
        let questions = missing.0.into_iter().map(|name| UserQuestion {
            text: format!("enter the secret {name} again: the agent restarted, and keeps secrets in memory only"),
            id: name,
            kind: QuestionKind::Secret,
            required: true,
            ..UserQuestion::default()
        });
        let questions: Vec<_> = questions.filter(|it| it.id.contains('/')).collect();
        if questions.is_empty() {
            return Ok(None);
        }
        let answered = self.question(&call.id, "a secret is needed again", questions).await?;
        Ok(answered.and_then(|_| self.secrets.reveal(json).ok()))
    }
}
