//! On whose behalf a call runs.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use openskill_identity::policy::Policy;
use openskill_proto::v1::Skill;
use serde::{Deserialize, Serialize};

use crate::identity::grant::Grant;
use crate::identity::identified::Identified;
use crate::identity::usage::{Exceeded, Held};

/// What a caller learns whose credential ended after its request, or its turn, began.
pub(crate) const REVOKED: &str =
    "the key or token that began this was revoked or has expired: begin again with a valid one";

/// What policies decide by: of a skill that may have changed, or be gone, when its caller comes back for what came of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// The identity that a call's fair share, idempotency keys, sessions, affinity and artifacts belong to, and what it may do.
///
/// Cheap to clone. Two callers with the same name are the same caller.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    name: Arc<str>,
    /// None: the gateway requires no keys, and all callers may do everything.
    grant: Option<Arc<Grant>>,
}

impl Principal {
    /// The caller that nothing identifies, where nothing has to.
    pub(crate) fn anonymous() -> Self {
        Self::of("")
    }

    /// The principal with this name on the wire, where nothing has to identify it.
    pub(crate) fn of(name: &str) -> Self {
        Self { name: Arc::from(name), grant: None }
    }

    /// A principal that was identified, with the rights of the credential that it showed.
    pub(crate) fn granted(grant: Arc<Grant>) -> Self {
        Self { name: Arc::clone(&grant.identified.account.name), grant: Some(grant) }
    }

    /// A caller that may do nothing, because no valid credential is its own.
    pub(crate) fn nobody(name: &str) -> Self {
        Self { name: Arc::from(name), grant: Some(Grant::new(Identified::nobody())) }
    }

    /// Its name on the wire. Empty for the anonymous principal.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The name of the credential that it showed. Empty where nothing has to identify it.
    pub(crate) fn credential(&self) -> &str {
        self.grant.as_ref().map_or("", |it| &it.identified.credential)
    }

    /// Whether the credential that it showed is still valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.grant.as_ref().is_none_or(|it| it.identified.is_valid())
    }

    /// Notes that its request has become a call: the client gets its result, whatever happens to the credential.
    pub(crate) fn note_admitted(&self) {
        if let Some(grant) = &self.grant {
            grant.note_admitted();
        }
    }

    /// The same, to keep.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Whether it may see all skills.
    pub(crate) fn sees_all(&self) -> bool {
        self.grant.is_none()
    }

    /// Whether the two see the same skills.
    pub(crate) fn sees_like(&self, other: &Self) -> bool {
        self.policy() == other.policy()
    }

    /// Whether it may see and call a skill. One that it may not call does not exist for it.
    pub(crate) fn may_call(&self, skill: &Skill) -> bool {
        self.allows(&skill.id, &skill.toolset, skill.destructive)
    }

    /// Whether its policy still allows the skill that something came of.
    pub(crate) fn may_have(&self, skill: &GovernedSkill) -> bool {
        self.allows(&skill.id, &skill.toolset, skill.destructive)
    }

    /// The same of a skill that is no longer there.
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

    /// Begins a call of a session, with arguments of so many bytes, within the limits of its policy. None if it has no policy.
    pub(crate) fn begin(&self, session_id: &str, bytes: usize) -> Result<Option<Held>, Exceeded> {
        let Some(account) = self.grant.as_ref().map(|it| &it.identified.account) else { return Ok(None) };
        account.usage.begin(&account.policy.limits, (session_id, bytes), Instant::now()).map(Some)
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

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.name.is_empty() { "anonymous" } else { &self.name })
    }
}
