//! Selects a policy by the claims of a token. A token without a matching rule is rejected.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::policy::Policy;

/// Assigns a policy to the tokens with a certain claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The claim and its required value. `None` matches all tokens.
    pub when: Option<(String, String)>,
    /// The assigned policy.
    pub policy: Arc<Policy>,
}

impl Rule {
    /// Whether the rule matches a token with these claims.
    pub fn matches(&self, claims: &Map<String, Value>) -> bool {
        let Some((name, wanted)) = &self.when else { return true };
        claim(claims, name).is_some_and(|found| has(name, found, wanted))
    }
}

/// Finds a claim by its name, or by a dotted path if no claim has that name.
pub(super) fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(found) = claims.get(name) {
        return Some(found);
    }
    let mut parts = name.split('.');
    let first = claims.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_object()?.get(part))
}

/// Returns the scopes of a token, given as a space-separated string or as a list.
pub(super) fn scopes(claims: &Map<String, Value>) -> BTreeSet<String> {
    let claims = ["scope", "scp"].into_iter().filter_map(|name| claims.get(name));
    let texts = claims.flat_map(|it| match it {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect::<Vec<_>>(),
    });
    texts.flat_map(|it| it.split(' ')).filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// Whether a claim equals a value or is a list that contains it. Scopes may also be a space-separated string.
fn has(name: &str, found: &Value, wanted: &str) -> bool {
    match found {
        Value::String(text) if name == "scope" || name == "scp" => text.split(' ').any(|it| it == wanted),
        Value::String(text) => text == wanted,
        Value::Array(items) => items.iter().any(|it| it.as_str() == Some(wanted)),
        Value::Bool(flag) => wanted == if *flag { "true" } else { "false" },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(name: &str, value: &str) -> bool {
        let claims = json!({
            "groups": ["a", "b"], "scope": "read write", "department": "read write", "ok": true,
            "realm": {"roles": ["r"]}, "https://x.example/role": "r", "number": 1,
        });
        let rule = Rule { when: Some((name.to_owned(), value.to_owned())), policy: Arc::default() };
        rule.matches(claims.as_object().unwrap())
    }

    #[test]
    fn a_claim_is_a_value_or_has_it() {
        for (name, value) in [
            ("groups", "b"),
            ("scope", "write"),
            ("department", "read write"),
            ("ok", "true"),
            ("realm.roles", "r"),
            ("https://x.example/role", "r"),
        ] {
            assert!(matches(name, value), "{name}");
        }
        for (name, value) in [
            ("groups", "c"),
            ("groups", "a,b"),
            ("scope", "wri"),
            ("department", "read"),
            ("realm", "r"),
            ("number", "1"),
            ("none", ""),
        ] {
            assert!(!matches(name, value), "{name}");
        }
    }
}
