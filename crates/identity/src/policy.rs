//! What a principal may see, call and use.

use std::collections::BTreeSet;

/// What a principal may do. The default is nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// The skills it may see and call.
    pub skills: Names,
    /// The toolsets whose skills it may see and call.
    pub toolsets: Names,
    /// Whether that includes skills that are marked destructive.
    pub destructive: bool,
    /// Whether its calls may ask their user a question.
    pub interactive: bool,
    /// Whether it may administer the gateway, and see the recorded calls and the metrics of everybody.
    pub admin: bool,
    /// How much it may use.
    pub limits: Limits,
}

/// How much a principal may use. None means that only the gateway's own limits hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Calls in time.
    pub rate: Option<Rate>,
    /// Calls in flight.
    pub in_flight: Option<usize>,
    /// Arguments of calls in flight, in bytes.
    pub bytes: Option<usize>,
    /// Session ids in use.
    pub sessions: Option<usize>,
}

/// How many calls a principal may begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Calls a second, over time. Above 0.
    pub per_second: f64,
    /// Calls that may begin at once after a pause. At least 1.
    pub burst: u32,
}

/// Names that are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// These.
    Only(BTreeSet<String>),
    /// All.
    All,
}

impl Default for Names {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl Names {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(name),
            Self::All => true,
        }
    }
}

impl Policy {
    /// Whether the principal may see and call a skill. One that it may not call does not exist for it.
    pub fn allows(&self, skill_id: &str, toolset: &str, is_destructive: bool) -> bool {
        let is_named = self.skills.has(skill_id) || (!toolset.is_empty() && self.toolsets.has(toolset));
        is_named && (self.destructive || !is_destructive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(names: &[&str]) -> Names {
        Names::Only(names.iter().map(|it| (*it).to_owned()).collect())
    }

    #[test]
    fn a_policy_allows_what_it_names_and_nothing_by_default() {
        let policy = Policy { skills: only(&["echo"]), toolsets: only(&["code"]), ..Policy::default() };
        assert!(policy.allows("echo", "", false) && policy.allows("search", "code", false));
        assert!(!policy.allows("ech", "", false) && !policy.allows("search", "other", false));
        assert!(!policy.allows("echo", "", true), "destructive skills are allowed only by name of the flag");
        let all = Policy { skills: Names::All, destructive: true, ..Policy::default() };
        assert!(all.allows("any", "", true));
        assert!(!Policy::default().allows("echo", "", false));
        let toolsets = Policy { toolsets: Names::All, ..Policy::default() };
        assert!(!toolsets.allows("echo", "", false), "it belongs to no toolset");
    }
}
