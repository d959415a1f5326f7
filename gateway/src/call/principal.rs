//! The principal on whose behalf a call runs.

use std::sync::Arc;
use std::time::Instant;

use openskill_identity::policy::Policy;
use openskill_proto::v1::Skill;

use crate::identity::grant::Grant;
use crate::identity::identified::Identified;
use crate::identity::usage::{ActiveUsage, LimitExceeded};

/// The error message if a credential ended after the request, or the agent's turn, began.
pub(crate) const REVOKED: &str =
    "the key or token that began this was revoked or has expired: begin again with a valid one";

/// The properties of a skill that policies check. Stored with results, tasks and streams: when their caller returns
/// for them, the skill may have changed or be gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GovernedSkill {
    id: String,
    toolset: String,
    destructive: bool,
}

impl From<&Skill> for GovernedSkill {
    fn from(skill: &Skill) -> Self {
        Self { id: skill.id.clone(), toolset: skill.toolset.clone(), destructive: skill.destructive }
    }
}

/// Whom a call belongs to. Owns fair shares, idempotency keys, sessions, affinity and artifacts, and has the rights
/// of its credential.
///
/// Cheap to clone. Two principals with the same name are equal.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    name: Arc<str>,
    /// None if the gateway requires no credentials: all callers may do everything.
    grant: Option<Arc<Grant>>,
}

impl Principal {
    /// The principal of every caller if no credential is required.
    pub(crate) fn anonymous() -> Self {
        Self::from_name("")
    }

    /// Creates the principal with this name on the wire, if no credential is required.
    pub(crate) fn from_name(name: &str) -> Self {
        Self { name: Arc::from(name), grant: None }
    }

    /// Creates an identified principal with the rights of its credential.
    pub(crate) fn from_grant(grant: Arc<Grant>) -> Self {
        Self { name: Arc::clone(&grant.identified.account.name), grant: Some(grant) }
    }

    /// Creates the principal of a caller without a valid credential, who has no rights.
    pub(crate) fn nobody(name: &str) -> Self {
        Self { name: Arc::from(name), grant: Some(Grant::new(Identified::nobody())) }
    }

    /// The name on the wire. Empty for the anonymous principal.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The name of the credential that the request presented. Empty if none is required.
    pub(crate) fn credential(&self) -> &str {
        self.grant.as_ref().map_or("", |it| &it.identified.credential)
    }

    /// Whether the presented credential is still valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.grant.as_ref().is_none_or(|it| it.identified.is_valid())
    }

    /// Records that the request was admitted as a call, so that the client gets its result even if the credential
    /// ends.
    pub(crate) fn note_admitted(&self) {
        if let Some(grant) = &self.grant {
            grant.note_admitted();
        }
    }

    /// The name on the wire, as a shared string.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Whether it may see all skills.
    pub(crate) fn sees_all(&self) -> bool {
        self.grant.is_none()
    }

    /// Whether both principals see the same skills.
    pub(crate) fn sees_like(&self, other: &Self) -> bool {
        self.policy() == other.policy()
    }

    /// Whether it may see and call a skill. To a principal that may not, the skill does not exist.
    pub(crate) fn may_call(&self, skill: &Skill) -> bool {
        self.allows(&skill.id, &skill.toolset, skill.destructive)
    }

    /// Whether its policy still allows the skill that produced a result, a task or a stream.
    pub(crate) fn may_have(&self, skill: &GovernedSkill) -> bool {
        self.allows(&skill.id, &skill.toolset, skill.destructive)
    }

    /// Like [`Self::may_call`], for a skill that may no longer be in the catalog.
    pub(crate) fn allows(&self, skill_id: &str, toolset: &str, is_destructive: bool) -> bool {
        self.policy().is_none_or(|it| it.allows(skill_id, toolset, is_destructive))
    }

    /// Whether its calls may ask their user a question.
    pub(crate) fn is_interactive(&self) -> bool {
        self.policy().is_none_or(|it| it.interactive)
    }

    /// Whether a policy makes it an administrator.
    pub(crate) fn is_admin(&self) -> bool {
        self.policy().is_some_and(|it| it.admin)
    }

    /// Begins a call of a session, with arguments of `bytes` bytes, within the limits of its policy. None if it has
    /// no policy.
    pub(crate) fn begin(&self, session_id: &str, bytes: usize) -> Result<Option<ActiveUsage>, LimitExceeded> {
        let Some(account) = self.grant.as_ref().map(|it| &it.identified.account) else { return Ok(None) };
        account.usage.begin(&account.policy.limits, session_id, bytes, Instant::now()).map(Some)
    }

    fn policy(&self) -> Option<&Policy> {
        self.grant.as_ref().map(|it| &*it.identified.account.policy)
    }
}

impl Default for Principal {
    fn default() -> Self {
        Self::anonymous()
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Principal {}
