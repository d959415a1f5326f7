//! Maps credentials to principals, based on the last valid file of keys and on the issuers of tokens.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use openskill_identity::key::{KeyHash, KeyId, PresentedKey};
use openskill_identity::key_file::{KeyFile, StoredKey};
use openskill_proto::timestamp::Timestamp;
use tokio_util::sync::CancellationToken;

use super::account::Account;
use super::credentials::Credentials;
use super::identified::Identified;
pub(crate) use super::tokens::Unidentified;
use super::tokens::{JwtConfig, TOKEN_PREFIX, Tokens};
use super::usage::SpentTokens;

/// Who may use a gateway. At least one field is set.
#[derive(Debug, Clone, Default)]
pub struct IdentityConfig {
    /// The principals that have keys.
    pub keys: Option<KeysConfig>,
    /// The issuers of tokens.
    pub jwt: Option<JwtConfig>,
}

/// The file of keys, with its content when the gateway started.
#[derive(Debug, Clone)]
pub struct KeysConfig {
    /// The path of the file.
    pub file: PathBuf,
    /// The principals in the file.
    pub contents: KeyFile,
}

/// The principals that may use this gateway.
#[derive(Debug)]
pub(crate) struct Registry {
    /// The file of keys, if configured.
    pub(super) file: Option<PathBuf>,
    pub(super) tokens: Option<Tokens>,
    current: ArcSwap<KnownCredentials>,
}

#[derive(Debug, Default)]
struct KnownCredentials {
    keys: HashMap<KeyId, KnownKey>,
    principals: HashMap<Arc<str>, Arc<Account>>,
}

/// A key in the file, with its principal.
#[derive(Debug, Clone)]
struct KnownKey {
    identified: Arc<Identified>,
    kept: StoredKey,
}

impl Registry {
    pub(crate) fn new(config: IdentityConfig) -> Self {
        let (file, contents) = config.keys.map_or((None, KeyFile::default()), |it| (Some(it.file), it.contents));
        let registry = Self { file, tokens: config.jwt.map(Tokens::new), current: ArcSwap::default() };
        registry.replace(contents);
        registry
    }

    /// Identifies the principal that presents these credentials.
    pub(crate) fn identify(&self, shown: Credentials<'_>, now: Timestamp) -> Result<Arc<Identified>, Unidentified> {
        match (shown, &self.tokens) {
            (Credentials::Key(presented), _) => {
                self.identify_key(presented, now).ok_or(Unidentified::Invalid("unknown, revoked or expired key"))
            }
            (Credentials::Token(_), None) => Err(Unidentified::Invalid("malformed")),
            (Credentials::Token(text), Some(tokens)) => tokens.check(text, now),
        }
    }

    /// Looks up a key and its principal. None if the key is not valid.
    ///
    /// Takes the same time whether the id, the secret or both are wrong: it always makes one constant-time
    /// comparison of two hashes of equal length. It compares hashes, so that a caller can't choose the byte in
    /// which they differ.
    fn identify_key(&self, PresentedKey { id, hash }: PresentedKey, now: Timestamp) -> Option<Arc<Identified>> {
        let known = self.current.load();
        let found = known.keys.get(&id);
        let is_same = hash.matches(found.map_or(&KeyHash::NONE, |it| &it.kept.hash));
        found.filter(|it| is_same && !it.kept.is_expired(now)).map(|it| Arc::clone(&it.identified))
    }

    /// Finds a valid credential of this principal by its name, for work without a request, such as an agent's turn.
    /// Ignores the principal's other credentials, which may allow more.
    pub(crate) fn find(&self, principal: &str, credential: &str, now: Timestamp) -> Option<Arc<Identified>> {
        let found = match credential.parse::<KeyId>() {
            Ok(id) => {
                let known = self.current.load();
                known.keys.get(&id).filter(|it| !it.kept.is_expired(now)).map(|it| Arc::clone(&it.identified))
            }
            Err(_) => self.tokens.as_ref()?.find(credential, now),
        };
        found.filter(|it| *it.account.name == *principal)
    }

    /// Whether the validity of the credential with this name is known. True for any key, and for a token that this
    /// process has seen.
    pub(crate) fn knows(&self, credential: &str) -> bool {
        !credential.starts_with(TOKEN_PREFIX) || self.tokens.as_ref().is_none_or(|it| it.has_seen(credential))
    }

    /// Whether the gateway accepts tokens.
    pub(crate) fn takes_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// The issuers of tokens. None if the gateway accepts no tokens.
    pub(crate) fn issuers(&self) -> Option<Vec<String>> {
        self.tokens.as_ref().map(Tokens::issuers)
    }

    /// Replaces the principals with those of a new file. Keeps their usage.
    pub(super) fn replace(&self, contents: KeyFile) {
        let before = self.current.load_full();
        let mut known = KnownCredentials::default();
        for (name, principal) in contents.principals {
            let old = before.principals.get(name.as_str());
            let usage = old.map(|it| Arc::clone(&it.usage)).unwrap_or_default();
            let account = Arc::new(Account { name: Arc::from(name), policy: Arc::new(principal.policy), usage });
            for kept in principal.keys {
                let old = before.keys.get(&kept.id).filter(|old| old.continues_as(&kept, &account));
                let ended = old.map_or_else(CancellationToken::new, |old| old.identified.ended.clone());
                let (credential, expires) = (kept.id.to_string().into(), kept.expires);
                let identified = Identified { credential, account: Arc::clone(&account), ended, expires, scopes: None };
                known.keys.insert(kept.id, KnownKey { identified: Arc::new(identified), kept });
            }
            known.principals.insert(Arc::clone(&account.name), account);
        }
        let known = Arc::new(known);
        // Store the new keys first: a client that reconnects after its stream ended must not find its old key.
        self.current.store(Arc::clone(&known));
        for (id, old) in &before.keys {
            let continues = |new: &KnownKey| old.continues_as(&new.kept, &new.identified.account);
            if !known.keys.get(id).is_some_and(continues) {
                old.identified.ended.cancel();
            }
        }
    }

    /// Returns the tokens that principals took from their buckets since this was last called.
    pub(crate) fn take_spent(&self) -> Vec<SpentTokens> {
        let known = self.current.load();
        let of_keys = known.principals.values().filter_map(|it| it.usage.take_spent(&it.name));
        of_keys.chain(self.tokens.iter().flat_map(Tokens::take_spent)).collect()
    }

    /// Ends the streams of expired keys. Streams of tokens have their own timers.
    pub(super) fn end_expired(&self, now: Timestamp) {
        let known = self.current.load();
        known.keys.values().filter(|it| it.kept.is_expired(now)).for_each(|it| it.identified.ended.cancel());
    }
}

impl KnownKey {
    /// Whether streams of this key may continue after a reload.
    fn continues_as(&self, key: &StoredKey, account: &Account) -> bool {
        let own = &self.identified.account;
        let is_same_key = self.kept.hash.matches(&key.hash) && self.kept.expires == key.expires;
        is_same_key && *own.name == *account.name && own.policy == account.policy
    }
}

#[cfg(test)]
mod tests {
    use openskill_identity::key::NewKey;
    use openskill_identity::key_file::PrincipalEntry;
    use openskill_identity::policy::Policy;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn kept(key: &NewKey) -> StoredKey {
        StoredKey { id: key.id, hash: key.hash, created: None, expires: None }
    }

    fn contents(principals: &[(&str, bool, &[StoredKey])]) -> KeyFile {
        let principal = |admin, keys: &[StoredKey]| PrincipalEntry {
            policy: Policy { admin, ..Policy::default() },
            keys: keys.to_vec(),
        };
        let all = principals.iter().map(|(name, admin, keys)| ((*name).to_owned(), principal(*admin, keys)));
        KeyFile { principals: all.collect() }
    }

    fn registry(contents: KeyFile) -> Registry {
        Registry::new(IdentityConfig { keys: Some(KeysConfig { file: PathBuf::new(), contents }), jwt: None })
    }

    fn shown(key: &NewKey) -> Credentials<'_> {
        Credentials::Key(PresentedKey::parse(key.text.as_bytes()).unwrap())
    }

    #[test]
    fn both_keys_of_a_principal_are_its_own_and_other_keys_are_nobodys() {
        let (one, two, other) = (NewKey::generate(), NewKey::generate(), NewKey::generate());
        let registry = registry(contents(&[("a", false, &[kept(&one), kept(&two)])]));
        let account = |key| registry.identify(shown(key), NOW).ok().map(|it| Arc::clone(&it.account));
        assert!(Arc::ptr_eq(&account(&one).unwrap(), &account(&two).unwrap()));
        assert!(account(&other).is_none());
        let forged = NewKey { text: format!("osk_{}_{}", one.id, "0".repeat(64)), ..NewKey::generate() };
        assert!(account(&forged).is_none());
    }

    #[test]
    fn a_credential_is_found_again_by_its_name_and_no_other_takes_its_place() {
        let (one, two, bob) = (NewKey::generate(), NewKey::generate(), NewKey::generate());
        let registry = registry(contents(&[("a", false, &[kept(&one), kept(&two)]), ("b", true, &[kept(&bob)])]));
        let is_found = |principal, key: &NewKey| registry.find(principal, &key.id.to_string(), NOW).is_some();
        assert!(is_found("a", &one) && is_found("a", &two) && is_found("b", &bob));
        assert!(!is_found("a", &bob) && !is_found("b", &one));
        for credential in ["", "a", "jwt 00"] {
            assert!(registry.find("a", credential, NOW).is_none(), "{credential}");
        }
        registry.replace(contents(&[("a", false, &[kept(&two)]), ("b", true, &[kept(&bob)])]));
        assert!(!is_found("a", &one) && is_found("a", &two));
    }

    #[test]
    fn an_expired_key_is_nobodys() {
        let key = NewKey::generate();
        let registry = registry(contents(&[("a", false, &[StoredKey { expires: Some(NOW), ..kept(&key) }])]));
        assert!(registry.identify(shown(&key), Timestamp(NOW.0 - 1)).is_ok());
        let identified = registry.identify(shown(&key), Timestamp(0)).unwrap();
        assert!(registry.identify(shown(&key), NOW).is_err());
        let found = |at| registry.find("a", &key.id.to_string(), at).is_some();
        assert!(found(Timestamp(0)) && !found(NOW));
        registry.end_expired(NOW);
        assert!(identified.ended.is_cancelled());
    }

    #[test]
    fn what_was_begun_ends_with_its_key_or_its_policy_and_goes_on_otherwise() {
        let (one, two) = (NewKey::generate(), NewKey::generate());
        let both = [kept(&one), kept(&two)];
        for (after, goes_on) in [
            (contents(&[("a", false, &both)]), true),
            (contents(&[("a", false, &both[..1]), ("b", true, &[])]), true),
            (contents(&[("a", false, &both[1..])]), false),
            (contents(&[("a", true, &both)]), false),
            (contents(&[("b", false, &both)]), false),
            (contents(&[]), false),
        ] {
            let registry = registry(contents(&[("a", false, &both)]));
            let begun = registry.identify(shown(&one), NOW).unwrap();
            let usage = Arc::clone(&begun.account.usage);
            registry.replace(after.clone());
            assert_eq!(begun.ended.is_cancelled(), !goes_on, "{after:?}");
            if let Some(now) = registry.identify(shown(&one), NOW).ok().filter(|it| *it.account.name == *"a") {
                assert!(Arc::ptr_eq(&usage, &now.account.usage), "what is used goes on");
                assert!(!now.ended.is_cancelled());
            }
        }
    }
}
