//! From the claims of a token to a policy. What no rule allows is refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::policy::Policy;

/// Gives a policy to tokens whose claim has a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The claim and the value that it must have. None: all tokens.
    pub when: Option<(String, String)>,
    /// The policy.
    pub policy: Arc<Policy>,
}

impl Rule {
    /// Whether it is about a token with these claims.
    pub fn matches(&self, claims: &Map<String, Value>) -> bool {
        let Some((name, wanted)) = &self.when else { return true };
        claim(claims, name).is_some_and(|found| has(name, found, wanted))
    }
}

/// A claim by its name; by a path with dots if no claim has that name.
pub(super) fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(found) = claims.get(name) {
        return Some(found);
    }
    let mut parts = name.split('.');
    let first = claims.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_object()?.get(part))
}

/// The scopes of a token: a list in one text, or a list.
pub(super) fn scopes(claims: &Map<String, Value>) -> BTreeSet<String> {
    let claims = ["scope", "scp"].into_iter().filter_map(|name| claims.get(name));
    let texts = claims.flat_map(|it| match it {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect::<Vec<_>>(),
    });
    texts.flat_map(|it| it.split(' ')).filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// Whether a claim is a value, or a list that has it. Scopes are a list in one text.
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
