//! What a principal may see, call and use.

use std::collections::BTreeSet;

/// What a principal may do. The default allows nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// The skills it may see and call.
    pub skills: NameSet,
    /// The toolsets whose skills it may see and call.
    pub toolsets: NameSet,
    /// Whether `skills` and `toolsets` include skills marked as destructive.
    pub destructive: bool,
    /// Whether its calls may ask their user questions.
    pub interactive: bool,
    /// Whether it may administer the gateway, and see the recorded calls and the metrics of all principals.
    pub admin: bool,
    /// The limits on what it may use.
    pub limits: Limits,
}

/// The limits on what a principal may use. If a limit is `None`, only the gateway's own limits apply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// The rate limit for new calls.
    pub rate: Option<Rate>,
    /// The maximum number of calls in flight.
    pub in_flight: Option<usize>,
    /// The maximum total size of the arguments of calls in flight, in bytes.
    pub bytes: Option<usize>,
    /// The maximum number of session ids in use.
    pub sessions: Option<usize>,
}

/// A limit on the rate of new calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Calls per second, on average. Above 0.
    pub per_second: f64,
    /// The maximum number of calls that may begin at once after a pause. At least 1.
    pub burst: u32,
}

/// The names of skills or toolsets that a policy allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameSet {
    /// Only these names.
    Only(BTreeSet<String>),
    /// All names.
    All,
}

impl Default for NameSet {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl NameSet {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(name),
            Self::All => true,
        }
    }
}

impl Policy {
    /// Whether the principal may see and call a skill. A skill that it may not call is invisible to it.
    pub fn allows(&self, skill_id: &str, toolset: &str, is_destructive: bool) -> bool {
        let is_named = self.skills.has(skill_id) || (!toolset.is_empty() && self.toolsets.has(toolset));
        is_named && (self.destructive || !is_destructive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(names: &[&str]) -> NameSet {
        NameSet::Only(names.iter().map(|it| (*it).to_owned()).collect())
    }

    #[test]
    fn a_policy_allows_what_it_names_and_nothing_by_default() {
        let policy = Policy { skills: only(&["echo"]), toolsets: only(&["code"]), ..Policy::default() };
        assert!(policy.allows("echo", "", false) && policy.allows("search", "code", false));
        assert!(!policy.allows("ech", "", false) && !policy.allows("search", "other", false));
        assert!(!policy.allows("echo", "", true), "destructive skills are allowed only by name of the flag");
        let all = Policy { skills: NameSet::All, destructive: true, ..Policy::default() };
        assert!(all.allows("any", "", true));
        assert!(!Policy::default().allows("echo", "", false));
        let toolsets = Policy { toolsets: NameSet::All, ..Policy::default() };
        assert!(!toolsets.allows("echo", "", false), "it belongs to no toolset");
    }
}
