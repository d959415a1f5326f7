//! The key file: all principals, their policies and their keys. Unknown fields are errors.

use std::collections::{BTreeMap, BTreeSet};

use openskill_proto::limits::MAX_SKILL_ID_BYTES;
use openskill_proto::timestamp::Timestamp;
use serde::Deserialize;

use crate::key::{KeyHash, KeyId};
use crate::policy::{Limits, NameSet, Policy, Rate};

/// The maximum number of principals in a file.
pub const MAX_PRINCIPALS: usize = 1000;

/// The maximum number of keys of a principal: the one in use, and its successor during rotation.
pub const MAX_KEYS: usize = 2;

/// The maximum number of skills, and of toolsets, that a policy may list.
const MAX_NAMES: usize = 1000;

/// The maximum number of session ids that a principal may have in use. The gateway keeps them in memory.
const MAX_SESSIONS: usize = 10_000;

/// The maximum length of a principal's name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// All principals by name.
#[derive(Debug, Clone, Default)]
pub struct KeyFile {
    /// The principals by name.
    pub principals: BTreeMap<String, PrincipalEntry>,
}

/// A principal's policy and keys.
#[derive(Debug, Clone)]
pub struct PrincipalEntry {
    /// What the principal may do.
    pub policy: Policy,
    /// Its keys, at most [`MAX_KEYS`].
    pub keys: Vec<StoredKey>,
}

/// A key as stored in the file.
#[derive(Debug, Clone)]
pub struct StoredKey {
    /// The public part.
    pub id: KeyId,
    /// The SHA-256 of the whole key.
    pub hash: KeyHash,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When it expires. `None` means never.
    pub expires: Option<Timestamp>,
}

impl StoredKey {
    /// Whether the key has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    principals: BTreeMap<String, RawPrincipal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPrincipal {
    #[serde(default)]
    skills: Vec<String>,
    #[serde(default)]
    toolsets: Vec<String>,
    #[serde(default)]
    destructive: bool,
    #[serde(default = "yes")]
    interactive: bool,
    #[serde(default)]
    admin: bool,
    rate: Option<f64>,
    burst: Option<u32>,
    in_flight: Option<usize>,
    bytes: Option<usize>,
    sessions: Option<usize>,
    #[serde(default)]
    keys: Vec<RawKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    id: String,
    sha256: String,
    created: Option<String>,
    expires: Option<String>,
}

fn yes() -> bool {
    true
}

impl KeyFile {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The problem and its place. The message quotes only names from the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let raw: RawFile = toml_edit::de::from_str(text).map_err(|error| describe_error(text, &error))?;
        if raw.principals.len() > MAX_PRINCIPALS {
            return Err(format!("there are more than {MAX_PRINCIPALS} principals"));
        }
        let mut ids = BTreeSet::new();
        let mut principals = BTreeMap::new();
        for (name, raw) in raw.principals {
            check_name(&name)?;
            let principal = principal(raw).map_err(|reason| format!("principal '{name}': {reason}"))?;
            if let Some(twice) = principal.keys.iter().find(|key| !ids.insert(key.id)) {
                return Err(format!("principal '{name}': another key has the id {} too", twice.id));
            }
            principals.insert(name, principal);
        }
        Ok(Self { principals })
    }
}

/// Describes an error with its reason and line number, without the line itself, which may contain a key.
pub(crate) fn describe_error(text: &str, error: &toml_edit::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or_else(String::new, |before| format!("line {}: ", before.matches('\n').count() + 1));
    format!("{line}{}", error.message())
}

/// Validates the name of a principal.
///
/// # Errors
/// The rules for names.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_inner = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"._-".contains(&it);
    let is_valid = name.len() <= MAX_NAME_BYTES
        && name.starts_with(|it: char| it.is_ascii_lowercase() || it.is_ascii_digit())
        && name.bytes().all(is_inner);
    if is_valid {
        return Ok(());
    }
    Err(format!(
        "a principal name must have 1 to {MAX_NAME_BYTES} characters of a-z, 0-9, '.', '_' and '-', and must begin with a letter or digit"
    ))
}

fn principal(mut raw: RawPrincipal) -> Result<PrincipalEntry, String> {
    if raw.keys.len() > MAX_KEYS {
        return Err(format!("it has more than {MAX_KEYS} keys: revoke one"));
    }
    let keys = std::mem::take(&mut raw.keys);
    let policy = policy(raw)?;
    let keys = keys.into_iter().map(key).collect::<Result<_, _>>()?;
    Ok(PrincipalEntry { policy, keys })
}

/// Converts and validates a policy. Rejects a policy with keys.
pub(crate) fn policy(raw: RawPrincipal) -> Result<Policy, String> {
    if !raw.keys.is_empty() {
        return Err("a policy must have no keys".to_owned());
    }
    if raw.sessions.is_some_and(|it| it > MAX_SESSIONS) {
        return Err(format!("sessions must be at most {MAX_SESSIONS}"));
    }
    let limits = Limits {
        rate: rate(raw.rate, raw.burst)?,
        in_flight: at_least_one("in_flight", raw.in_flight)?,
        bytes: at_least_one("bytes", raw.bytes)?,
        sessions: raw.sessions,
    };
    Ok(Policy {
        skills: names("skills", raw.skills)?,
        toolsets: names("toolsets", raw.toolsets)?,
        destructive: raw.destructive,
        interactive: raw.interactive,
        admin: raw.admin,
        limits,
    })
}

fn rate(per_second: Option<f64>, burst: Option<u32>) -> Result<Option<Rate>, String> {
    let Some(per_second) = per_second else {
        return if burst.is_some() { Err("burst requires rate".to_owned()) } else { Ok(None) };
    };
    if !(0.001..=1_000_000.0).contains(&per_second) {
        return Err("rate must be a number of calls a second from 0.001 to 1000000".to_owned());
    }
    // The default burst is one second's worth of calls.
    let burst = burst.unwrap_or(per_second.ceil() as u32);
    if !(1..=1_000_000).contains(&burst) {
        return Err("burst must be a number of calls from 1 to 1000000".to_owned());
    }
    Ok(Some(Rate { per_second, burst }))
}

fn at_least_one(name: &str, value: Option<usize>) -> Result<Option<usize>, String> {
    if value == Some(0) { Err(format!("{name} must be at least 1")) } else { Ok(value) }
}

fn names(what: &str, given: Vec<String>) -> Result<NameSet, String> {
    if given.iter().any(|it| it == "*") {
        return if given.len() == 1 { Ok(NameSet::All) } else { Err(format!("{what}: '*' must be the only name")) };
    }
    if given.len() > MAX_NAMES {
        return Err(format!("{what} has more than {MAX_NAMES} names"));
    }
    let is_valid = |it: &String| {
        !it.is_empty() && it.len() <= MAX_SKILL_ID_BYTES && it.bytes().all(|it| it.is_ascii_graphic() && it != b'*')
    };
    match given.iter().position(|it| !is_valid(it)) {
        Some(at) => Err(format!("{what}: item {} is not a valid name; the only pattern is '*'", at + 1)),
        None => Ok(NameSet::Only(given.into_iter().collect())),
    }
}

fn key(raw: RawKey) -> Result<StoredKey, String> {
    let id: KeyId = raw.id.parse().map_err(|()| "a key id must be 16 hexadecimal digits".to_owned())?;
    let hash = raw.sha256.parse().map_err(|()| format!("key {id}: sha256 must be 64 hexadecimal digits"))?;
    let time = |name: &str, text: Option<String>| match text {
        None => Ok(None),
        Some(text) => match Timestamp::parse(&text) {
            Some(time) => Ok(Some(time)),
            None => Err(format!("key {id}: {name} must be a time such as 2027-01-31T12:00:00Z")),
        },
    };
    Ok(StoredKey { id, hash, created: time("created", raw.created)?, expires: time("expires", raw.expires)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef";

    fn with_key(extra: &str) -> String {
        let hash = "ab".repeat(32);
        format!("[principals.a]\n{extra}\n[[principals.a.keys]]\nid = \"{ID}\"\nsha256 = \"{hash}\"\n")
    }

    #[test]
    fn a_file_is_read_whole() {
        let text = with_key(
            "skills = [\"echo\"]\ntoolsets = [\"*\"]\nrate = 2.5\nin_flight = 3\nbytes = 9\nsessions = 0\nadmin = true",
        );
        let contents = KeyFile::parse(&text).unwrap();
        let principal = &contents.principals["a"];
        let policy = &principal.policy;
        assert!(policy.allows("echo", "", false) && policy.admin && policy.interactive && !policy.destructive);
        assert_eq!(policy.toolsets, NameSet::All);
        assert_eq!(policy.limits.rate, Some(Rate { per_second: 2.5, burst: 3 }));
        assert_eq!((policy.limits.in_flight, policy.limits.sessions), (Some(3), Some(0)));
        assert_eq!(principal.keys[0].id.to_string(), ID);
        assert!(!principal.keys[0].is_expired(Timestamp::now()));
        assert!(KeyFile::parse("").unwrap().principals.is_empty());
        let whole = KeyFile::parse("[principals.a]\nrate = 20\n").unwrap().principals.remove("a").unwrap();
        assert_eq!(whole.policy.limits.rate, Some(Rate { per_second: 20.0, burst: 20 }));
    }

    #[test]
    fn what_is_wrong_is_refused_with_the_reason() {
        let twice = with_key("") + &with_key("").replace("principals.a", "principals.b");
        let three = with_key("") + &with_key("")[15..].repeat(2);
        for (text, word) in [
            (with_key("skill = []"), "unknown field `skill`"),
            (with_key("rate = 0"), "rate"),
            (with_key("burst = 3"), "burst requires rate"),
            (with_key("rate = nan"), "rate"),
            (with_key("in_flight = 0"), "in_flight"),
            (with_key("skills = [\"a\", \"*\"]"), "must be the only name"),
            (with_key("skills = [\"a*\"]"), "the only pattern is"),
            (with_key("").replace(ID, "0123"), "16 hexadecimal"),
            (with_key("").replace("abab", "ABAB"), "64 hexadecimal"),
            (with_key("") + "expires = \"soon\"", "expires"),
            (with_key("").replace("principals.a", "principals.\"A b\""), "principal name"),
            (twice, "another key"),
            (three, "more than 2 keys"),
            ("osk_secret".to_owned(), "line 1"),
        ] {
            let reason = KeyFile::parse(&text).unwrap_err();
            assert!(reason.contains(word), "{word}: {reason}");
            assert!(!reason.contains("osk_"), "{reason}");
        }
    }

    #[test]
    fn a_key_ends_when_it_expires() {
        let text = with_key("") + "expires = \"2026-01-01T00:00:00Z\"";
        let key = KeyFile::parse(&text).unwrap().principals.remove("a").unwrap().keys.remove(0);
        let end = key.expires.unwrap();
        assert!(key.is_expired(end) && !key.is_expired(Timestamp(end.0 - 1)));
    }
}
