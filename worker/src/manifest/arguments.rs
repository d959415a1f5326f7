//! The rules for arguments that do not match the schema.

use std::collections::BTreeMap;

use openskill_proto::v1::{ArgumentPolicy, ArgumentRules};
use serde::Deserialize;
use serde_json::Value;

/// Alternative names that models use for parameters, each with the parameter's name.
pub(super) type Aliases = BTreeMap<String, String>;

/// The maximum number of aliases per skill.
const MAX_ALIASES: usize = 1000;

/// The rules as the manifest contains them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawArguments {
    policy: Policy,
    aliases: BTreeMap<String, String>,
    drop_unknown: Option<bool>,
    fill_defaults: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Policy {
    #[default]
    Repair,
    Strict,
}

/// Resolves a skill's rules. They are strict by default for a destructive skill, because dropping an unknown key
/// could widen a deletion that the key restricts.
pub(super) fn resolve(
    raw: Option<RawArguments>,
    short_form: Aliases,
    schema: Option<&Value>,
    destructive: bool,
) -> Result<ArgumentRules, (&'static str, String)> {
    let raw = raw.unwrap_or_default();
    let mut aliases = short_form;
    for (alias, name) in raw.aliases {
        if let Some(other) = aliases.insert(alias.clone(), name.clone()).filter(|other| *other != name) {
            return Err(("arguments", format!("the alias '{alias}' stands for '{name}' and for '{other}'")));
        }
    }
    check(&aliases, schema).map_err(|reason| ("arguments", reason))?;
    let policy = match raw.policy {
        Policy::Repair => ArgumentPolicy::Repair,
        Policy::Strict => ArgumentPolicy::Strict,
    };
    Ok(ArgumentRules {
        policy: policy.into(),
        aliases: aliases.into_iter().collect(),
        drop_unknown: raw.drop_unknown.unwrap_or(!destructive),
        fill_defaults: raw.fill_defaults.unwrap_or(!destructive),
    })
}

fn check(aliases: &Aliases, schema: Option<&Value>) -> Result<(), String> {
    if aliases.len() > MAX_ALIASES {
        return Err(format!("at most {MAX_ALIASES} aliases are allowed"));
    }
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for (alias, name) in aliases {
        let is_parameter = |name: &str| properties.is_some_and(|it| it.contains_key(name));
        if alias.is_empty() || alias.len() > 128 || alias.chars().any(char::is_control) {
            return Err("an alias must be 1 to 128 bytes and must not contain control characters".to_owned());
        }
        if is_parameter(alias) {
            return Err(format!("the alias '{alias}' is a parameter itself"));
        }
        if !is_parameter(name) {
            return Err(format!("the alias '{alias}' stands for '{name}', which is not a parameter"));
        }
    }
    Ok(())
}
