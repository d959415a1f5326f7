//! What a client says that it can do.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::mcp::session::Abilities;

/// The extension by which calls become tasks.
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The capabilities of a client, as far as they are read here.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct Capabilities {
    elicitation: Option<Elicitation>,
    sampling: Option<IgnoredAny>,
    roots: Option<IgnoredAny>,
    extensions: HashMap<String, IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct Elicitation {
    form: Option<IgnoredAny>,
    url: Option<IgnoredAny>,
}

impl Capabilities {
    /// What skills may ask the client for.
    pub(super) fn abilities(&self) -> Abilities {
        let elicitation = self.elicitation.as_ref();
        Abilities {
            // Without either of the two it means forms: there was nothing else at first.
            elicitation: elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none()),
            url: elicitation.is_some_and(|it| it.url.is_some()),
            sampling: self.sampling.is_some(),
            roots: self.roots.is_some(),
        }
    }

    /// Whether it takes a task in place of a result.
    pub(super) fn takes_tasks(&self) -> bool {
        self.extensions.contains_key(TASKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elicitation_means_forms_unless_it_says_otherwise() {
        let abilities = |text: &str| serde_json::from_str::<Capabilities>(text).unwrap().abilities();
        for (text, form, url) in [
            ("{}", false, false),
            (r#"{"elicitation": {}}"#, true, false),
            (r#"{"elicitation": {"form": {}}}"#, true, false),
            (r#"{"elicitation": {"url": {}}}"#, false, true),
            (r#"{"elicitation": {"form": {}, "url": {}}}"#, true, true),
        ] {
            let Abilities { elicitation, url: opens, .. } = abilities(text);
            assert_eq!((elicitation, opens), (form, url), "{text}");
        }
        let all = abilities(r#"{"sampling": {"tools": {}}, "roots": {"listChanged": true}, "unknown": 5}"#);
        assert!(all.sampling && all.roots && !all.elicitation);
    }

    #[test]
    fn tasks_are_an_extension() {
        let takes = |text: &str| serde_json::from_str::<Capabilities>(text).unwrap().takes_tasks();
        assert!(takes(r#"{"extensions": {"io.modelcontextprotocol/tasks": {}}}"#));
        assert!(!takes(r#"{"extensions": {"example.com/x": {}}, "tasks": {}}"#));
    }
}
