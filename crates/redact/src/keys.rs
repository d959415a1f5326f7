//! What a name says about its value: of a key, a header, a variable, a flag, a parameter. Pure.
//!
//! A name is read as words, from its end: `DB_PASSWORD`, `dbPassword` and `db password` are the same. Its last words decide:
//! `password` is a secret, `password_policy` is not.

use std::collections::HashSet;
use std::sync::LazyLock;

mod ends;
mod kind;
mod languages;
mod lists;

pub(crate) use ends::may_matter;
pub(crate) use kind::Kind;
pub(crate) use languages::names_secret;
use lists::{AFTERTHOUGHTS, GLUED, HARMLESS, NAMES, NOT_A_SECRET};

/// The names that a user adds, as words without separators.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// Whether the built-in names count.
    pub(crate) built_in: bool,
    pub(crate) secret: HashSet<Vec<u8>>,
    pub(crate) kept: HashSet<Vec<u8>>,
}

impl Names {
    /// Whether names count beside the built-in ones.
    pub(crate) fn is_extended(&self) -> bool {
        !self.secret.is_empty()
    }
}

/// How long the last words of a name may be together.
const LONGEST: usize = 48;
const MOST_WORDS: usize = 5;

/// The last words of a name, lower case, without what separates them.
pub(crate) struct Words {
    /// Filled from its end.
    letters: [u8; LONGEST],
    /// Where words begin, the last one first.
    starts: [usize; MOST_WORDS],
    count: usize,
}

impl Words {
    /// Reads a name from its end.
    pub(crate) fn of(name: &[u8]) -> Self {
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

    /// All words together.
    pub(crate) fn joined(&self) -> &[u8] {
        self.last(self.count)
    }

    /// Whether the last words are those of another name.
    pub(crate) fn ends_with(&self, other: &Self) -> bool {
        other.count > 0 && (1..=self.count).any(|count| self.last(count) == other.joined())
    }

    /// The last so many words together.
    fn last(&self, count: usize) -> &[u8] {
        if count == 0 { &[] } else { &self.letters[self.starts[count - 1]..] }
    }

    /// A word, counted from the last one.
    fn word(&self, number: usize) -> &[u8] {
        if number >= self.count {
            return &[];
        }
        let end = if number == 0 { LONGEST } else { self.starts[number - 1] };
        &self.letters[self.starts[number]..end]
    }

    /// Without the last word.
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

/// Where the word begins that ends at a place: at a separator, or where a hump begins as in `apiKey` and `APIKey`.
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

/// What a name says about its value.
pub(crate) fn classify(name: &[u8], names: &Names) -> Option<Kind> {
    let words = Words::of(name);
    for count in 1..=words.count {
        let last = words.last(count);
        if names.kept.contains(last) {
            return None;
        }
        if names.secret.contains(last) {
            return Some(Kind::Secret);
        }
    }
    match names.built_in {
        true if names_secret(name) => Some(Kind::Password),
        true => built_in(words),
        false => None,
    }
}

/// What the built-in names say.
pub(crate) fn built_in(mut words: Words) -> Option<Kind> {
    for _ in 0..3 {
        match TABLE.longest(&words) {
            Entry::Kind(kind, count) => {
                return (NOT_A_SECRET.binary_search(&words.word(count)).is_err()).then_some(kind);
            }
            Entry::Harmless => return None,
            Entry::Afterthought if words.count > 1 => {
                words = words.without_last();
                // What comes after the name of something uncertain makes another name of it.
                if let Entry::Kind(kind, _) = TABLE.longest(&words)
                    && !kind.is_certain()
                {
                    return None;
                }
                continue;
            }
            Entry::Afterthought | Entry::Unknown => {}
        }
        let last = words.word(0);
        let digits = last.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        match digits {
            0 => return glued(last),
            _ if digits < last.len() => {
                let name = words.joined().to_vec();
                let certain = |kind: &Kind| kind.is_certain();
                return built_in(Words::of(&name[..name.len() - digits])).filter(certain);
            }
            _ if words.count > 1 => words = words.without_last(),
            _ => return None,
        }
    }
    None
}

/// A name at the end of a word.
fn glued(word: &[u8]) -> Option<Kind> {
    let found = GLUED.iter().find(|(end, _)| word.len() > end.len() && word.ends_with(end));
    found.map(|(_, kind)| *kind)
}

/// What is known of last words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Unknown,
    /// What they say, and how many they are.
    Kind(Kind, usize),
    Harmless,
    Afterthought,
}

/// The lists, by a hash that is computed from the end of a name.
struct Table(Vec<Option<(&'static [u8], Entry)>>);

const SLOTS: usize = 4096;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table(vec![None; SLOTS]);
    HARMLESS.iter().for_each(|name| table.insert(name, Entry::Harmless));
    NAMES.iter().for_each(|(name, kind)| table.insert(name, Entry::Kind(*kind, 0)));
    AFTERTHOUGHTS.iter().for_each(|name| table.insert(name, Entry::Afterthought));
    table
});

fn hashed(hash: u32, byte: u8) -> u32 {
    (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
}

impl Table {
    fn insert(&mut self, name: &'static [u8], entry: Entry) {
        let hash = name.iter().rev().fold(0, |hash, byte| hashed(hash, *byte));
        let mut slot = Self::slot(hash);
        while self.0[slot].is_some_and(|(other, _)| other != name) {
            slot = (slot + 1) % SLOTS;
        }
        self.0[slot].get_or_insert((name, entry));
    }

    fn slot(hash: u32) -> usize {
        (hash ^ hash >> 15) as usize % SLOTS
    }

    fn get(&self, hash: u32, name: &[u8]) -> Entry {
        let mut slot = Self::slot(hash);
        while let Some((other, entry)) = self.0[slot] {
            if other == name {
                return entry;
            }
            slot = (slot + 1) % SLOTS;
        }
        Entry::Unknown
    }

    /// What the most words that are known say. An afterthought is one as a single word only.
    fn longest(&self, words: &Words) -> Entry {
        let (mut found, mut hash) = (Entry::Unknown, 0);
        for count in 1..=words.count {
            hash = words.word(count - 1).iter().rev().fold(hash, |hash, byte| hashed(hash, *byte));
            match self.get(hash, words.last(count)) {
                Entry::Kind(kind, _) => found = Entry::Kind(kind, count),
                Entry::Harmless => found = Entry::Harmless,
                Entry::Afterthought if count == 1 => found = Entry::Afterthought,
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Option<Kind> {
        let found = classify(name.as_bytes(), &Names { built_in: true, ..Names::default() });
        assert!(found.is_none() || may_matter(name.as_bytes()), "{name}");
        found
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0), "{:?}", NAMES.windows(2).find(|it| it[0].0 >= it[1].0));
        assert!(HARMLESS.is_sorted_by(|a, b| a < b), "{:?}", HARMLESS.windows(2).find(|it| it[0] >= it[1]));
        assert!(NOT_A_SECRET.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_secret_is_known_by_its_last_words() {
        for name in [
            "password",
            "PASSWORD",
            "dbPassword",
            "DB_PASSWORD",
            "user-password",
            "db password",
            "PGPASSWORD",
            "passwd",
            "password2",
            "new_password",
            "passwordConfirmation",
            "password_hash",
            "apiKey",
            "API-KEY",
            "api key",
            "x-api-key",
            "X-Api-Key",
            "OPENAI_API_KEY",
            "openaiApiKey",
            "APIKey",
            "apikey",
            "client_secret",
            "clientSecret",
            "secret",
            "access_key",
            "AWS_SECRET_ACCESS_KEY",
            "secretAccessKey",
            "private_key",
            "privateKey",
            "token",
            "access_token",
            "refreshToken",
            "id_token",
            "GITHUB_TOKEN",
            "githubtoken",
            "authToken",
            "session_token",
            "csrf_token",
            "credentials",
            "connection_string",
            "ConnectionString",
            "passphrase",
            "SecretString",
            "AccountKey",
            "SharedAccessKey",
            "otp_secret",
            "x-goog-api-key",
            "ocp-apim-subscription-key",
            "signing_key",
            "encryption_key",
            "mnemonic",
            "token1",
            "api_key_2",
        ] {
            assert!(kind(name).is_some_and(Kind::is_certain), "{name}");
        }
    }

    #[test]
    fn what_only_sounds_like_a_secret_is_none() {
        for name in [
            "token_count",
            "max_tokens",
            "tokens",
            "tokenizer",
            "author",
            "password_policy",
            "keyboard",
            "primary_key",
            "public_key",
            "key",
            "id",
            "next_page_token",
            "nextToken",
            "eos_token",
            "secret_name",
            "api_key_id",
            "token_type",
            "token_url",
            "password_file",
            "has_password",
            "monkey",
            "total_tokens",
            "secretary",
            "passenger",
            "tokenize",
            "authors",
            "authority",
            "cookie_policy",
            "partition_key",
            "sort_key",
            "cache_key",
            "key_id",
            "compass",
            "signature",
            "code",
            "status_code",
            "bypass",
            "max_output_tokens",
            "passwordless",
            "foreignKey",
            "idempotency_key",
        ] {
            assert!(!kind(name).is_some_and(Kind::is_certain), "{name} {:?}", kind(name));
        }
    }

    #[test]
    fn other_kinds_are_told_apart() {
        assert_eq!(kind("Authorization"), Some(Kind::Authorization));
        assert_eq!(kind("Set-Cookie"), Some(Kind::Cookie));
        assert_eq!(kind("sessionId"), Some(Kind::Session));
        assert_eq!(kind("tool_call_id"), Some(Kind::ToolCall));
        assert_eq!(kind("otp"), Some(Kind::Code));
        assert_eq!(kind("sig"), Some(Kind::Query));
        assert_eq!(kind("auth"), Some(Kind::Weak));
        assert_eq!(kind("value"), Some(Kind::Value));
    }
}
