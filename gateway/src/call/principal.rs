//! On whose behalf a call runs.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::Skill;

use crate::identity::account::Account;
use crate::identity::usage::{Exceeded, Held};

/// The identity that a call's fair share, idempotency keys, sessions, affinity and artifacts belong to, and what it may do.
///
/// Cheap to clone. Two callers with the same name are the same caller.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    name: Arc<str>,
    /// None: the gateway requires no keys, and all callers may do everything.
    account: Option<Arc<Account>>,
}

impl Principal {
    /// The caller that nothing identifies, where nothing has to.
    pub(crate) fn anonymous() -> Self {
        Self::of("")
    }

    /// The principal with this name on the wire, where nothing has to identify it.
    pub(crate) fn of(name: &str) -> Self {
        Self { name: Arc::from(name), account: None }
    }

    /// A principal that was identified.
    pub(crate) fn identified(account: Arc<Account>) -> Self {
        Self { name: Arc::clone(&account.name), account: Some(account) }
    }

    /// A caller that may do nothing, because no key is its own.
    pub(crate) fn nobody(name: &str) -> Self {
        Self { name: Arc::from(name), account: Some(Account::nobody()) }
    }

    /// Its name on the wire. Empty for the anonymous principal.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The same, to keep.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Whether it may see all skills.
    pub(crate) fn sees_all(&self) -> bool {
        self.account.is_none()
    }

    /// Whether the two see the same skills.
    pub(crate) fn sees_like(&self, other: &Self) -> bool {
        let (own, others) = (self.account.as_ref().map(|it| &it.policy), other.account.as_ref().map(|it| &it.policy));
        own == others
    }

    /// Whether it may see and call a skill. One that it may not call does not exist for it.
    pub(crate) fn may_call(&self, skill: &Skill) -> bool {
        self.allows(&skill.id, &skill.toolset, skill.destructive)
    }

    /// The same of a skill that is no longer there.
    pub(crate) fn allows(&self, skill_id: &str, toolset: &str, is_destructive: bool) -> bool {
        self.account.as_ref().is_none_or(|it| it.policy.allows(skill_id, toolset, is_destructive))
    }

    /// Whether its calls may ask their user a question.
    pub(crate) fn is_interactive(&self) -> bool {
        self.account.as_ref().is_none_or(|it| it.policy.interactive)
    }

    /// Whether a policy makes it an administrator.
    pub(crate) fn is_admin(&self) -> bool {
        self.account.as_ref().is_some_and(|it| it.policy.admin)
    }

    /// Begins a call of a session, with arguments of so many bytes, within the limits of its policy. None if it has no policy.
    pub(crate) fn begin(&self, session_id: &str, bytes: usize) -> Result<Option<Held>, Exceeded> {
        let Some(account) = &self.account else { return Ok(None) };
        account.usage.begin(&account.policy.limits, (session_id, bytes), Instant::now()).map(Some)
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
