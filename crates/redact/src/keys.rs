//! Classifies a value by the name of its key, header, variable, flag or parameter. All functions are pure.
//!
//! A name is split into words from its end: `DB_PASSWORD`, `dbPassword` and `db password` are the same. The last
//! words decide: `password` is a secret, `password_policy` is not.

use std::collections::HashSet;

use crate::kind::NameEntry;
pub(crate) use crate::kind::ValueKind;
use crate::shapes::SHAPES;

mod ends;

pub(crate) use ends::may_matter;

/// The names that are secret: the built-in ones, and those that a user adds, as words without separators.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameRules {
    /// Whether the built-in names are used.
    pub(crate) built_in: bool,
    pub(crate) secret: HashSet<Vec<u8>>,
    pub(crate) kept: HashSet<Vec<u8>>,
}

impl NameRules {
    /// Whether a user added names.
    pub(crate) fn is_extended(&self) -> bool {
        !self.secret.is_empty()
    }
}

/// The maximum total length of the last words of a name, in bytes. Earlier words are ignored.
const LONGEST: usize = 48;
const MOST_WORDS: usize = 5;

/// The last words of a name, in lower case, without separators.
pub(crate) struct Words {
    /// The words, filled from the end.
    letters: [u8; LONGEST],
    /// Where each word begins. The last word is first.
    starts: [usize; MOST_WORDS],
    count: usize,
}

impl Words {
    /// Splits a name into words from its end.
    pub(crate) fn parse(name: &[u8]) -> Self {
        let mut words = Self { letters: [0; LONGEST], starts: [LONGEST; MOST_WORDS], count: 0 };
        let (mut at, mut end) = (LONGEST, name.len());
        while words.count < MOST_WORDS {
            while end > 0 && !name[end - 1].is_ascii_alphanumeric() {
                end -= 1;
            }
            let start = word_start(name, end);
            if start == end || end - start > at {
                break;
            }
            at -= end - start;
            for (to, from) in words.letters[at..].iter_mut().zip(&name[start..end]) {
                *to = from.to_ascii_lowercase();
            }
            words.starts[words.count] = at;
            words.count += 1;
            end = start;
        }
        words
    }

    /// Returns all words without separators.
    pub(crate) fn concat(&self) -> &[u8] {
        self.last(self.count)
    }

    /// Whether these words end with those of another name.
    pub(crate) fn ends_with(&self, other: &Self) -> bool {
        other.count > 0 && (1..=self.count).any(|count| self.last(count) == other.concat())
    }

    /// Returns the last `count` words without separators.
    fn last(&self, count: usize) -> &[u8] {
        if count == 0 { &[] } else { &self.letters[self.starts[count - 1]..] }
    }

    /// Returns the word at this position, counted from the last one.
    fn word(&self, number: usize) -> &[u8] {
        if number >= self.count {
            return &[];
        }
        let end = if number == 0 { LONGEST } else { self.starts[number - 1] };
        &self.letters[self.starts[number]..end]
    }

    /// Returns the words without the last one.
    fn without_last(&self) -> Self {
        let mut shorter = Self { letters: [0; LONGEST], starts: [LONGEST; MOST_WORDS], count: self.count - 1 };
        let by = self.word(0).len();
        shorter.letters[by..].copy_from_slice(&self.letters[..LONGEST - by]);
        for (to, from) in shorter.starts.iter_mut().zip(&self.starts[1..self.count]) {
            *to = from + by;
        }
        shorter
    }
}

/// Where the word that ends at `end` begins: after a separator, or at a change of case as in `apiKey` and
/// `APIKey`.
fn word_start(name: &[u8], end: usize) -> usize {
    let mut start = end;
    while start > 0 && name[start - 1].is_ascii_alphanumeric() {
        let (before, byte) = (name[start - 1], name.get(start).copied().filter(|_| start < end));
        let after = name.get(start + 1).copied().filter(|_| start + 1 < end);
        if byte.is_some_and(|it| it.is_ascii_uppercase()) {
            let is_hump = before.is_ascii_lowercase() || before.is_ascii_digit();
            let ends_capitals = before.is_ascii_uppercase() && after.is_some_and(|it| it.is_ascii_lowercase());
            if is_hump || ends_capitals {
                return start;
            }
        }
        start -= 1;
    }
    start
}

/// Classifies a value by its name. Returns `None` if the name announces neither a secret nor an id.
pub(crate) fn classify(name: &[u8], names: &NameRules) -> Option<ValueKind> {
    let words = Words::parse(name);
    for count in 1..=words.count {
        let last = words.last(count);
        if names.kept.contains(last) {
            return None;
        }
        if names.secret.contains(last) {
            return Some(ValueKind::Secret);
        }
    }
    match names.built_in {
        true if names_secret(name) => Some(ValueKind::Password),
        true => built_in(words),
        false => None,
    }
}

/// Whether a text ends with the name of a secret in non-ASCII letters.
pub(crate) fn names_secret(text: &[u8]) -> bool {
    !text.last().is_none_or(u8::is_ascii) && SHAPES.foreign.iter().any(|name| text.ends_with(name.as_bytes()))
}

/// Classifies a value by the built-in names.
pub(crate) fn built_in(mut words: Words) -> Option<ValueKind> {
    for _ in 0..3 {
        match longest_entry(&words) {
            Some((NameEntry::Kind(kind), count)) => {
                return (!SHAPES.negations.contains(words.word(count))).then_some(kind);
            }
            Some((NameEntry::Harmless, _)) => return None,
            Some((NameEntry::Afterthought, _)) if words.count > 1 => {
                words = words.without_last();
                // A word after an uncertain name makes it a different name.
                if let Some((NameEntry::Kind(kind), _)) = longest_entry(&words)
                    && !kind.is_certain()
                {
                    return None;
                }
                continue;
            }
            _ => {}
        }
        let last = words.word(0);
        let digits = last.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        match digits {
            0 => return suffix_kind(last),
            _ if digits < last.len() => {
                let name = words.concat().to_vec();
                let certain = |kind: &ValueKind| kind.is_certain();
                return built_in(Words::parse(&name[..name.len() - digits])).filter(certain);
            }
            _ if words.count > 1 => words = words.without_last(),
            _ => return None,
        }
    }
    None
}

/// Classifies a word by its ending, as in `githubtoken`.
fn suffix_kind(word: &[u8]) -> Option<ValueKind> {
    let found = SHAPES.glued.iter().find(|(end, _)| word.len() > end.len() && word.ends_with(end));
    found.map(|(_, kind)| *kind)
}

/// Returns the entry of the longest known sequence of final words, and its number of words. Only a single word can
/// be an afterthought.
fn longest_entry(words: &Words) -> Option<(NameEntry, usize)> {
    let known = |count: usize| Some((*SHAPES.names.get(words.last(count))?, count));
    let counts = |(entry, count): &(NameEntry, usize)| *entry != NameEntry::Afterthought || *count == 1;
    (1..=words.count).rev().filter_map(known).find(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Option<ValueKind> {
        let found = classify(name.as_bytes(), &NameRules { built_in: true, ..NameRules::default() });
        assert!(found.is_none() || may_matter(name.as_bytes()), "{name}");
        found
    }

    #[test]
    fn a_secret_is_known_by_its_last_words() {
        let names = "password, PASSWORD, dbPassword, DB_PASSWORD, user-password, db password, PGPASSWORD, passwd, \
            password2, new_password, passwordConfirmation, password_hash, apiKey, API-KEY, api key, x-api-key, \
            X-Api-Key, OPENAI_API_KEY, openaiApiKey, APIKey, apikey, client_secret, clientSecret, secret, \
            access_key, AWS_SECRET_ACCESS_KEY, secretAccessKey, private_key, privateKey, token, access_token, \
            refreshToken, id_token, GITHUB_TOKEN, githubtoken, authToken, session_token, csrf_token, credentials, \
            connection_string, ConnectionString, passphrase, SecretString, AccountKey, SharedAccessKey, otp_secret, \
            x-goog-api-key, ocp-apim-subscription-key, signing_key, encryption_key, mnemonic, token1, api_key_2";
        for name in names.split(", ") {
            assert!(kind(name).is_some_and(ValueKind::is_certain), "{name}");
        }
    }

    #[test]
    fn what_only_sounds_like_a_secret_is_none() {
        let names = "token_count, max_tokens, tokens, tokenizer, author, password_policy, keyboard, primary_key, \
            public_key, key, id, next_page_token, nextToken, eos_token, secret_name, api_key_id, token_type, \
            token_url, password_file, has_password, monkey, total_tokens, secretary, passenger, tokenize, authors, \
            authority, cookie_policy, partition_key, sort_key, cache_key, key_id, compass, signature, code, \
            status_code, bypass, max_output_tokens, passwordless, foreignKey, idempotency_key";
        for name in names.split(", ") {
            assert!(!kind(name).is_some_and(ValueKind::is_certain), "{name} {:?}", kind(name));
        }
    }

    #[test]
    fn other_kinds_are_told_apart() {
        assert_eq!(kind("Authorization"), Some(ValueKind::Authorization));
        assert_eq!(kind("Set-Cookie"), Some(ValueKind::Cookie));
        assert_eq!(kind("sessionId"), Some(ValueKind::Session));
        assert_eq!(kind("tool_call_id"), Some(ValueKind::ToolCall));
        assert_eq!(kind("otp"), Some(ValueKind::Code));
        assert_eq!(kind("sig"), Some(ValueKind::Query));
        assert_eq!(kind("auth"), Some(ValueKind::Weak));
        assert_eq!(kind("value"), Some(ValueKind::Value));
    }
}
