//! Maps credentials to principals: by the last valid file of keys, and by the issuers of tokens.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use openskill_identity::jwt::verify::Refusal;
use openskill_identity::key::{KeyHash, KeyId, Presented};
use openskill_identity::roll::{Key, Roll};
use openskill_proto::timestamp::Timestamp;
use tokio_util::sync::CancellationToken;

use super::credentials::Credentials;
use super::identified::Identified;
use super::issuer::LiveIssuer;
use super::standing::Standing;
use super::tokens::{Checked, JwtConfig, Tokens};

/// Who may use a gateway. At least one of them is there.
#[derive(Debug, Clone, Default)]
pub struct IdentityConfig {
    /// Principals with keys.
    pub keys: Option<KeysConfig>,
    /// Issuers of tokens.
    pub jwt: Option<JwtConfig>,
}

/// The file of keys, and what it had when the gateway started.
#[derive(Debug, Clone)]
pub struct KeysConfig {
    /// The file.
    pub file: PathBuf,
    /// Its principals.
    pub roll: Roll,
}

/// Who may use this gateway.
#[derive(Debug)]
pub(crate) struct Register {
    /// The file of keys, if there is one.
    pub(super) file: Option<PathBuf>,
    pub(super) tokens: Option<Tokens>,
    current: ArcSwap<Known>,
}

#[derive(Debug, Default)]
struct Known {
    keys: HashMap<KeyId, KnownKey>,
    principals: HashMap<Arc<str>, Arc<Standing>>,
}

/// A key of the file, and its principal.
#[derive(Debug, Clone)]
struct KnownKey {
    identified: Arc<Identified>,
    kept: Key,
}

/// Why a request is not identified.
#[derive(Debug, Clone)]
pub(crate) enum Unidentified {
    /// It has no valid credentials. The reason is for the log.
    Invalid(&'static str),
    /// Another look is worth while, once the keys of the issuer were read again.
    Later(Arc<LiveIssuer>),
}

impl Register {
    pub(crate) fn new(config: IdentityConfig) -> Self {
        let (file, roll) = config.keys.map_or((None, Roll::default()), |it| (Some(it.file), it.roll));
        let register = Self { file, tokens: config.jwt.map(Tokens::new), current: ArcSwap::default() };
        register.replace(roll);
        register
    }

    /// The credentials and their principal.
    pub(crate) fn identify(&self, shown: Credentials<'_>, now: Timestamp) -> Result<Arc<Identified>, Unidentified> {
        match (shown, &self.tokens) {
            (Credentials::Key(presented), _) => {
                self.identify_key(presented, now).ok_or(Unidentified::Invalid("unknown, revoked or expired key"))
            }
            (Credentials::Token(_), None) => Err(Unidentified::Invalid("malformed")),
            (Credentials::Token(text), Some(tokens)) => match tokens.check(text, now) {
                Checked::Valid(identified) => Ok(identified),
                Checked::Invalid(refusal) => Err(Unidentified::Invalid(reason(refusal))),
                Checked::Unknown(issuer) => Err(Unidentified::Later(issuer)),
            },
        }
    }

    /// The key and its principal. None if it is not valid.
    ///
    /// Takes the same time whether the id, the secret or both are wrong: there is always one comparison, of two hashes of
    /// equal length, which looks at every byte. What is compared is a hash of what was shown, so a caller can't choose in
    /// which byte it differs.
    fn identify_key(&self, Presented { id, hash }: Presented, now: Timestamp) -> Option<Arc<Identified>> {
        let known = self.current.load();
        let found = known.keys.get(&id);
        let is_same = hash.matches(found.map_or(&KeyHash::NONE, |it| &it.kept.hash));
        found.filter(|it| is_same && !it.kept.is_expired(now)).map(|it| Arc::clone(&it.identified))
    }

    /// The standing of a principal with valid credentials, for work without a request, such as an agent's turn.
    pub(crate) fn standing(&self, principal: &str, now: Timestamp) -> Option<Arc<Standing>> {
        let known = self.current.load();
        let Some(standing) = known.principals.get(principal) else {
            return self.tokens.as_ref()?.standing(principal, now);
        };
        let is_own = |it: &KnownKey| Arc::ptr_eq(&it.identified.standing, standing) && !it.kept.is_expired(now);
        known.keys.values().any(is_own).then(|| Arc::clone(standing))
    }

    /// Takes the principals of a new file. What they use goes on.
    pub(super) fn replace(&self, roll: Roll) {
        let before = self.current.load_full();
        let mut known = Known::default();
        for (name, principal) in roll.principals {
            let old = before.principals.get(name.as_str());
            let usage = old.map(|it| Arc::clone(&it.usage)).unwrap_or_default();
            let standing = Arc::new(Standing { name: Arc::from(name), policy: Arc::new(principal.policy), usage });
            for kept in principal.keys {
                let old = before.keys.get(&kept.id).filter(|old| old.goes_on_as(&kept, &standing));
                let ended = old.map_or_else(CancellationToken::new, |old| old.identified.ended.clone());
                let (credential, expires) = (kept.id.to_string().into(), kept.expires);
                let identified = Identified { credential, standing: Arc::clone(&standing), ended, expires };
                known.keys.insert(kept.id, KnownKey { identified: Arc::new(identified), kept });
            }
            known.principals.insert(Arc::clone(&standing.name), standing);
        }
        let known = Arc::new(known);
        // First the new ones: a stream that ends must not find its old key when it begins again.
        self.current.store(Arc::clone(&known));
        for (id, old) in &before.keys {
            let goes_on = |new: &KnownKey| old.goes_on_as(&new.kept, &new.identified.standing);
            if !known.keys.get(id).is_some_and(goes_on) {
                old.identified.ended.cancel();
            }
        }
    }

    /// Ends the streams of keys that have expired. Those of tokens know when they end.
    pub(super) fn end_expired(&self, now: Timestamp) {
        let known = self.current.load();
        known.keys.values().filter(|it| it.kept.is_expired(now)).for_each(|it| it.identified.ended.cancel());
    }
}

/// For the log.
fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed => "malformed token",
        Refusal::Issuer => "token of an unknown issuer",
        Refusal::Algorithm => "token with an algorithm that is not allowed",
        Refusal::Key => "token with an unknown key",
        Refusal::Signature => "token with a wrong signature",
        Refusal::Audience => "token for another audience",
        Refusal::Expired => "expired token",
        Refusal::NotYet => "token that is not valid yet",
        Refusal::Subject => "token without a usable subject",
        Refusal::Rule => "token that no rule allows",
    }
}

impl KnownKey {
    /// Whether what was begun with this key may go on with a new file.
    fn goes_on_as(&self, key: &Key, standing: &Standing) -> bool {
        let own = &self.identified.standing;
        let is_same_key = self.kept.hash.matches(&key.hash) && self.kept.expires == key.expires;
        is_same_key && *own.name == *standing.name && own.policy == standing.policy
    }
}

#[cfg(test)]
mod tests {
    use openskill_identity::key::NewKey;
    use openskill_identity::policy::Policy;
    use openskill_identity::roll::Principal;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn kept(key: &NewKey) -> Key {
        Key { id: key.id, hash: key.hash, created: None, expires: None }
    }

    fn roll(principals: &[(&str, bool, &[Key])]) -> Roll {
        let principal =
            |admin, keys: &[Key]| Principal { policy: Policy { admin, ..Policy::default() }, keys: keys.to_vec() };
        let all = principals.iter().map(|(name, admin, keys)| ((*name).to_owned(), principal(*admin, keys)));
        Roll { principals: all.collect() }
    }

    fn register(roll: Roll) -> Register {
        Register::new(IdentityConfig { keys: Some(KeysConfig { file: PathBuf::new(), roll }), jwt: None })
    }

    fn shown(key: &NewKey) -> Credentials<'_> {
        Credentials::Key(Presented::read(key.text.as_bytes()).unwrap())
    }

    #[test]
    fn both_keys_of_a_principal_are_its_own_and_other_keys_are_nobodys() {
        let (one, two, other) = (NewKey::generate(), NewKey::generate(), NewKey::generate());
        let register = register(roll(&[("a", false, &[kept(&one), kept(&two)])]));
        let standing = |key| register.identify(shown(key), NOW).ok().map(|it| Arc::clone(&it.standing));
        assert!(Arc::ptr_eq(&standing(&one).unwrap(), &standing(&two).unwrap()));
        assert!(standing(&other).is_none());
        let forged = NewKey { text: format!("osk_{}_{}", one.id, "0".repeat(64)), ..NewKey::generate() };
        assert!(standing(&forged).is_none());
    }

    #[test]
    fn an_expired_key_is_nobodys() {
        let key = NewKey::generate();
        let register = register(roll(&[("a", false, &[Key { expires: Some(NOW), ..kept(&key) }])]));
        assert!(register.identify(shown(&key), Timestamp(NOW.0 - 1)).is_ok());
        let identified = register.identify(shown(&key), Timestamp(0)).unwrap();
        assert!(register.identify(shown(&key), NOW).is_err());
        assert!(register.standing("a", Timestamp(0)).is_some() && register.standing("a", NOW).is_none());
        register.end_expired(NOW);
        assert!(identified.ended.is_cancelled());
    }

    #[test]
    fn what_was_begun_ends_with_its_key_or_its_policy_and_goes_on_otherwise() {
        let (one, two) = (NewKey::generate(), NewKey::generate());
        let both = [kept(&one), kept(&two)];
        for (after, goes_on) in [
            (roll(&[("a", false, &both)]), true),
            (roll(&[("a", false, &both[..1]), ("b", true, &[])]), true),
            (roll(&[("a", false, &both[1..])]), false),
            (roll(&[("a", true, &both)]), false),
            (roll(&[("b", false, &both)]), false),
            (roll(&[]), false),
        ] {
            let register = register(roll(&[("a", false, &both)]));
            let begun = register.identify(shown(&one), NOW).unwrap();
            let usage = Arc::clone(&begun.standing.usage);
            register.replace(after.clone());
            assert_eq!(begun.ended.is_cancelled(), !goes_on, "{after:?}");
            if let Some(now) = register.identify(shown(&one), NOW).ok().filter(|it| *it.standing.name == *"a") {
                assert!(Arc::ptr_eq(&usage, &now.standing.usage), "what is used goes on");
                assert!(!now.ended.is_cancelled());
            }
        }
    }
}
