//! The issuer file: who signs tokens, with which keys, and which policies their claims select. As in the key file,
//! unknown fields are errors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::algorithm::Algorithm;
use super::rules::Rule;
use crate::file::{self, FileError};
use crate::key_file::{RawPrincipal, check_name, describe_error, policy};
use crate::policy::Policy;

/// The maximum number of issuers in a file, and of rules per issuer.
const MAX_ISSUERS: usize = 16;
const MAX_RULES: usize = 1000;

/// The maximum clock skew that the file may allow, in seconds. Synchronized clocks differ by less.
const MAX_SKEW_S: u64 = 300;

/// The source of an issuer's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The `https` URL of a key set.
    Url(String),
    /// The path of a key set.
    File(PathBuf),
}

/// A token issuer.
#[derive(Debug, Clone, PartialEq)]
pub struct Issuer {
    /// Its name at the gateway, the prefix of its principals' names.
    pub name: String,
    /// The `iss` claim of its tokens.
    pub issuer: String,
    /// The accepted values of the `aud` claim. A token must have at least one of them.
    pub audiences: Vec<String>,
    /// The source of its public keys.
    pub keys: KeySource,
    /// The trusted authorities for the key server. `None` trusts the system's authorities.
    pub ca: Option<PathBuf>,
    /// The signature algorithms that its tokens may use.
    pub algorithms: Vec<Algorithm>,
    /// The maximum difference between its clock and the gateway's.
    pub clock_skew: Duration,
    /// The time that keys stay in use after the last successful read.
    pub keep_keys: Duration,
    /// The claim that names the principal.
    pub principal: String,
    /// The policies of its tokens. The first matching rule applies.
    pub rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    issuers: BTreeMap<String, RawIssuer>,
    #[serde(default)]
    policies: BTreeMap<String, RawPrincipal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawIssuer {
    issuer: String,
    audience: Vec<String>,
    jwks: String,
    ca: Option<PathBuf>,
    algorithms: Option<Vec<String>>,
    clock_skew_s: Option<u64>,
    keep_keys_s: Option<u64>,
    principal: Option<String>,
    #[serde(default)]
    rules: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    claim: Option<String>,
    value: Option<String>,
    policy: String,
}

/// Reads the issuers in a file.
///
/// # Errors
/// The file is unreadable, readable or writable by other users, or invalid.
pub fn read(path: &Path) -> Result<Vec<Issuer>, FileError> {
    parse(&file::text(path)?, path.parent().unwrap_or(Path::new("."))).map_err(FileError::Invalid)
}

/// Parses the text of a file. Relative paths in it start at `folder`.
///
/// # Errors
/// The problem and its place.
pub fn parse(text: &str, folder: &Path) -> Result<Vec<Issuer>, String> {
    let raw: RawFile = toml_edit::de::from_str(text).map_err(|error| describe_error(text, &error))?;
    if raw.issuers.len() > MAX_ISSUERS {
        return Err(format!("there are more than {MAX_ISSUERS} issuers"));
    }
    let policies = raw.policies.into_iter().map(|(name, raw)| {
        let policy = policy(raw).map_err(|reason| format!("policy '{name}': {reason}"))?;
        Ok((name, Arc::new(policy)))
    });
    let policies = policies.collect::<Result<BTreeMap<_, _>, String>>()?;
    let mut issuers: Vec<Issuer> = Vec::new();
    for (name, raw) in raw.issuers {
        check_name(&name)?;
        let found = issuer(&name, raw, &policies, folder).map_err(|reason| format!("issuer '{name}': {reason}"))?;
        if issuers.iter().any(|it| it.issuer == found.issuer) {
            return Err(format!("issuer '{name}': another issuer has the same name in its tokens, '{}'", found.issuer));
        }
        issuers.push(found);
    }
    Ok(issuers)
}

fn issuer(
    name: &str,
    raw: RawIssuer,
    policies: &BTreeMap<String, Arc<Policy>>,
    folder: &Path,
) -> Result<Issuer, String> {
    if raw.issuer.is_empty() {
        return Err("issuer is empty".to_owned());
    }
    if raw.audience.is_empty() || raw.audience.iter().any(String::is_empty) {
        return Err("audience is missing: without it, tokens for other services would be accepted".to_owned());
    }
    let keys = match raw.jwks.split_once("://") {
        Some(("https", host)) if !host.is_empty() => KeySource::Url(raw.jwks),
        Some(_) => return Err("jwks must be an https URL, or a file".to_owned()),
        None if raw.jwks.is_empty() => return Err("jwks is empty".to_owned()),
        None => KeySource::File(folder.join(raw.jwks)),
    };
    let algorithms = match raw.algorithms {
        None => Algorithm::DEFAULT.to_vec(),
        Some(names) => names.iter().map(|it| it.parse()).collect::<Result<Vec<_>, _>>()?,
    };
    if algorithms.is_empty() {
        return Err("algorithms is empty".to_owned());
    }
    let clock_skew = Duration::from_secs(raw.clock_skew_s.unwrap_or(30));
    if clock_skew.as_secs() > MAX_SKEW_S {
        return Err(format!("clock_skew_s must be at most {MAX_SKEW_S}"));
    }
    let keep_keys = Duration::from_secs(raw.keep_keys_s.unwrap_or(86_400));
    if !(60..=30 * 86_400).contains(&keep_keys.as_secs()) {
        return Err("keep_keys_s must be from 60 to 2592000".to_owned());
    }
    if raw.rules.len() > MAX_RULES {
        return Err(format!("it has more than {MAX_RULES} rules"));
    }
    let rules = raw.rules.into_iter().map(|raw| rule(raw, policies)).collect::<Result<_, _>>()?;
    Ok(Issuer {
        name: name.to_owned(),
        issuer: raw.issuer,
        audiences: raw.audience,
        keys,
        ca: raw.ca.map(|it| folder.join(it)),
        algorithms,
        clock_skew,
        keep_keys,
        principal: raw.principal.unwrap_or_else(|| "sub".to_owned()),
        rules,
    })
}

fn rule(raw: RawRule, policies: &BTreeMap<String, Arc<Policy>>) -> Result<Rule, String> {
    let when = match (raw.claim, raw.value) {
        (Some(claim), Some(value)) => Some((claim, value)),
        (None, None) => None,
        _ => return Err("a rule must have both a claim and its value, or neither".to_owned()),
    };
    let policy = policies.get(&raw.policy).ok_or_else(|| format!("there is no [policies.{}]", raw.policy))?;
    Ok(Rule { when, policy: Arc::clone(policy) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[issuers.login]\nissuer = 'https://a'\naudience = ['x']\njwks = 'keys.json'\n\
        [[issuers.login.rules]]\nclaim = 'groups'\nvalue = 'g'\npolicy = 'p'\n[policies.p]\nskills = ['echo']\n";

    fn parsed(text: &str) -> Result<Vec<Issuer>, String> {
        parse(text, Path::new("/etc/openskill"))
    }

    #[test]
    fn a_file_is_read_whole() {
        let issuers = parsed(GOOD).unwrap();
        let issuer = &issuers[0];
        assert_eq!(issuer.keys, KeySource::File(PathBuf::from("/etc/openskill/keys.json")));
        assert_eq!((issuer.algorithms.len(), issuer.principal.as_str()), (3, "sub"));
        assert!(issuer.rules[0].policy.allows("echo", "", false));
        assert!(parsed("").unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_refused_with_the_reason() {
        let twice = GOOD
            .replace("[policies.p]", "[issuers.b]\nissuer = 'https://a'\naudience = ['x']\njwks = 'k'\n[policies.p]");
        for (text, word) in [
            (GOOD.replace("['x']", "[]"), "audience"),
            (GOOD.replace("keys.json", "http://a/keys"), "https URL"),
            (GOOD.replace("policy = 'p'", "policy = 'q'"), "[policies.q]"),
            (GOOD.replace("value = 'g'\n", ""), "or neither"),
            (GOOD.replace("jwks", "algorithms = ['HS256']\njwks"), "HS256"),
            (GOOD.replace("jwks", "clock_skew_s = 301\njwks"), "at most 300"),
            (GOOD.replace("jwks", "jwkss = 'x'\njwks"), "unknown field"),
            (GOOD.replace("login", "Login"), "principal name"),
            (format!("{GOOD}[[policies.p.keys]]\nid = 'a'\nsha256 = 'b'\n"), "no keys"),
            (twice, "another issuer has the same name"),
        ] {
            let reason = parsed(&text).unwrap_err();
            assert!(reason.contains(word), "{word}: {reason}");
        }
    }
}
