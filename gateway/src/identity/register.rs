//! Maps credentials to principals, by the last valid file of keys.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use openskill_identity::key::{KeyHash, KeyId, Presented};
use openskill_identity::roll::{Key, Roll};
use openskill_proto::timestamp::Timestamp;
use tokio_util::sync::CancellationToken;

use super::credentials::Credentials;
use super::standing::Standing;

/// The file of keys, and what it had when the gateway started.
#[derive(Debug, Clone)]
pub struct IdentityConfig {
    /// The file.
    pub file: PathBuf,
    /// Its principals.
    pub roll: Roll,
}

/// Who may use this gateway.
#[derive(Debug)]
pub(crate) struct Register {
    pub(super) file: PathBuf,
    current: ArcSwap<Known>,
}

#[derive(Debug, Default)]
struct Known {
    keys: HashMap<KeyId, Arc<Identified>>,
    principals: HashMap<Arc<str>, Arc<Standing>>,
}

/// A key that is known, and its principal.
#[derive(Debug)]
pub(crate) struct Identified {
    pub(crate) key: KeyId,
    pub(crate) standing: Arc<Standing>,
    /// Cancelled when the key is revoked or has expired, or its principal's policy is another.
    pub(crate) ended: CancellationToken,
    kept: Key,
}

impl Register {
    pub(crate) fn new(config: IdentityConfig) -> Self {
        let register = Self { file: config.file, current: ArcSwap::default() };
        register.replace(config.roll);
        register
    }

    /// The key and its principal. None if the credentials are invalid.
    ///
    /// Takes the same time whether the id, the secret or both are wrong: there is always one comparison, of two hashes of
    /// equal length, which looks at every byte. What is compared is a hash of what was shown, so a caller can't choose in
    /// which byte it differs.
    pub(crate) fn identify(&self, credentials: Credentials, now: Timestamp) -> Option<Arc<Identified>> {
        let Credentials::Key(Presented { id, hash }) = credentials;
        let known = self.current.load();
        let found = known.keys.get(&id);
        let is_same = hash.matches(found.map_or(&KeyHash::NONE, |it| &it.kept.hash));
        found.filter(|it| is_same && !it.kept.is_expired(now)).cloned()
    }

    /// The standing of a principal with a valid key, for work without a request, such as an agent's turn.
    pub(crate) fn standing(&self, principal: &str, now: Timestamp) -> Option<Arc<Standing>> {
        let known = self.current.load();
        let standing = known.principals.get(principal)?;
        let has_key = known.keys.values().any(|it| Arc::ptr_eq(&it.standing, standing) && !it.kept.is_expired(now));
        has_key.then(|| Arc::clone(standing))
    }

    /// Takes the principals of a new file. What they use goes on.
    pub(super) fn replace(&self, roll: Roll) {
        let before = self.current.load_full();
        let mut known = Known::default();
        for (name, principal) in roll.principals {
            let old = before.principals.get(name.as_str());
            let usage = old.map(|it| Arc::clone(&it.usage)).unwrap_or_default();
            let standing = Arc::new(Standing { name: Arc::from(name), policy: principal.policy, usage });
            for kept in principal.keys {
                let old = before.keys.get(&kept.id).filter(|old| old.goes_on_as(&kept, &standing));
                let ended = old.map_or_else(CancellationToken::new, |old| old.ended.clone());
                let identified = Identified { key: kept.id, standing: Arc::clone(&standing), ended, kept };
                known.keys.insert(identified.key, Arc::new(identified));
            }
            known.principals.insert(Arc::clone(&standing.name), standing);
        }
        let known = Arc::new(known);
        // First the new ones: a stream that ends must not find its old key when it begins again.
        self.current.store(Arc::clone(&known));
        for old in before.keys.values() {
            let goes_on = known.keys.get(&old.key).is_some_and(|new| old.goes_on_as(&new.kept, &new.standing));
            if !goes_on {
                old.ended.cancel();
            }
        }
    }

    /// Ends the streams of keys that have expired.
    pub(super) fn end_expired(&self, now: Timestamp) {
        let known = self.current.load();
        known.keys.values().filter(|it| it.kept.is_expired(now)).for_each(|it| it.ended.cancel());
    }
}

impl Identified {
    /// Whether what was begun with this key may go on with a new file.
    fn goes_on_as(&self, key: &Key, standing: &Standing) -> bool {
        let is_same_key = self.kept.hash.matches(&key.hash) && self.kept.expires == key.expires;
        is_same_key && *self.standing.name == *standing.name && self.standing.policy == standing.policy
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
        Register::new(IdentityConfig { file: PathBuf::new(), roll })
    }

    fn shown(key: &NewKey) -> Credentials {
        Credentials::Key(Presented::read(key.text.as_bytes()).unwrap())
    }

    #[test]
    fn both_keys_of_a_principal_are_its_own_and_other_keys_are_nobodys() {
        let (one, two, other) = (NewKey::generate(), NewKey::generate(), NewKey::generate());
        let register = register(roll(&[("a", false, &[kept(&one), kept(&two)])]));
        let standing = |key| register.identify(shown(key), NOW).map(|it| Arc::clone(&it.standing));
        assert!(Arc::ptr_eq(&standing(&one).unwrap(), &standing(&two).unwrap()));
        assert!(standing(&other).is_none());
        let forged = NewKey { text: format!("osk_{}_{}", one.id, "0".repeat(64)), ..NewKey::generate() };
        assert!(standing(&forged).is_none());
    }

    #[test]
    fn an_expired_key_is_nobodys() {
        let key = NewKey::generate();
        let register = register(roll(&[("a", false, &[Key { expires: Some(NOW), ..kept(&key) }])]));
        assert!(register.identify(shown(&key), Timestamp(NOW.0 - 1)).is_some());
        let identified = register.identify(shown(&key), Timestamp(0)).unwrap();
        assert!(register.identify(shown(&key), NOW).is_none());
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
            if let Some(now) = register.identify(shown(&one), NOW).filter(|it| *it.standing.name == *"a") {
                assert!(Arc::ptr_eq(&usage, &now.standing.usage), "what is used goes on");
                assert!(!now.ended.is_cancelled());
            }
        }
    }
}
