//! Arguments made ready: references resolved, secrets put in, checked against the skill.

use openskill_proto::v1::{self, ArgumentPolicy, ErrorCode};

use super::Turn;
use super::settle::forbidden;
use crate::context::result::resolve;
use crate::entry::{Definition, Outcome, Question, QuestionKind, Repaired, ReplyCall};
use crate::error::AgentError;
use crate::secrets::{Missing, Secrets};

/// What a call is to run with.
pub(super) struct Wanted {
    /// Secrets are references.
    pub(super) arguments: String,
    /// They were prepared, or the user wrote them: nothing is repaired in them, and they refer to no result.
    pub(super) is_final: bool,
    /// The definition that they are approved for.
    pub(super) approved: Option<Definition>,
}

/// A call that could run now.
pub(super) struct Ready {
    /// The skill, as the arguments were prepared for it.
    pub(super) skill: v1::Skill,
    /// With secrets.
    pub(super) arguments: String,
    /// With references to them.
    pub(super) shown: String,
    /// As [`crate::entry::Calling::masked`].
    pub(super) masked: String,
    pub(super) repairs: Vec<Repaired>,
}

impl Ready {
    pub(super) fn definition(&self) -> Definition {
        (&self.skill).into()
    }
}

impl Turn {
    /// Makes arguments ready, or says why the call is refused.
    pub(super) async fn ready(
        &self,
        call: &ReplyCall,
        skill: &v1::Skill,
        wanted: &Wanted,
    ) -> Result<Result<Ready, Outcome>, AgentError> {
        let resolved = match wanted.arguments.trim() {
            "" => Ok("{}".to_owned()),
            _ if wanted.is_final => Ok(wanted.arguments.clone()),
            _ => {
                let state = self.state();
                resolve(&wanted.arguments, &|id| state.result(id))
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
        let policy = if wanted.is_final { ArgumentPolicy::Strict } else { ArgumentPolicy::Unspecified };
        let request = self.request(&skill.id, &call.id, revealed, policy);
        let prepared = match self.shared.skills.prepare(&self.caller, request).await {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(Outcome::failure(ErrorCode::Unavailable, error.to_string()))),
        };
        if let Some(error) = prepared.error {
            return Ok(Err(error.into()));
        }
        let marked = Secrets::marked(&prepared.secret_values_json);
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
            // A gateway of an earlier release tells the version alone.
            skill: prepared.skill.unwrap_or_else(|| v1::Skill { version: prepared.version, ..skill.clone() }),
            shown: self.secrets.refer(&prepared.arguments_json),
            arguments: prepared.arguments_json,
        }))
    }

    /// Asks the user for secrets that were lost with the process.
    async fn ask_again(&self, call: &ReplyCall, missing: Missing, json: &str) -> Result<Option<String>, AgentError> {
        let questions = missing.0.into_iter().map(|name| Question {
            text: format!("the secret {name}, again: the agent restarted, and keeps secrets in memory only"),
            id: name,
            kind: QuestionKind::Secret,
            required: true,
            ..Question::default()
        });
        let questions: Vec<_> = questions.filter(|it| it.id.contains('/')).collect();
        if questions.is_empty() {
            return Ok(None);
        }
        let answered = self.question(&call.id, "a secret is needed again", questions).await?;
        Ok(answered.and_then(|_| self.secrets.reveal(json).ok()))
    }
}
