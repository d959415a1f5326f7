//! One pass over a text. It stops at the beginnings of words and at few other characters, and looks there, within bounds,
//! for what each of them may begin. Pure.

use crate::assignment::{self, Key, LastKey};
use crate::classes::{ALNUM, DOT, HEX, TOKEN, at_is, is, run_end, run_start};
use crate::escapes::hides;
use crate::ids::Ids;
use crate::keys::{Kind, Names, classify, names_secret};
use crate::span::{Mask, Span};
use crate::value::value;
use crate::values::providers::{self, Miss, Providers};
use crate::values::{base64, cards, contacts, home, jwt, looks, pem, urls};
use crate::{prose, value};

mod stops;

use stops::{Stop, WORDS, stop};

/// What is looked for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) names: Names,
    pub(crate) emails: bool,
    pub(crate) phones: bool,
    pub(crate) ids: Ids,
}

/// What a pass found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) spans: Vec<Span>,
    /// Whether escapes may hide more.
    pub(crate) has_escapes: bool,
    /// Runs of base64 that decode to text: where the text begins, and where the run ends.
    pub(crate) encoded: Vec<(usize, usize)>,
}

/// How far the value stands from its name in `name: TOKEN, value: x`.
const BESIDE: usize = 160;
/// How many long words are kept until it is known whether a key of a cloud stands beside them.
const UNDECIDED: usize = 256;
/// The longest name of something whose value stands beside it.
const LONGEST_NAME: usize = 40;
/// How far no token is looked for after a long run of characters that is none.
const SKIPPED: usize = 24;

struct Scan<'a> {
    text: &'a [u8],
    options: &'a Options,
    providers: Providers,
    found: Found,
    /// Up to where runs of base64 have been looked at.
    runs_end: usize,
    /// Up to where a value belongs to a name that stands beside it.
    beside_end: usize,
    /// Whether the public half of a pair of keys of a cloud was seen.
    has_cloud_key: bool,
    undecided: Vec<(usize, usize)>,
    /// Where a command stands that takes a password by a short flag.
    command: Option<usize>,
    /// Up to where uncertain tokens and values are no longer looked at: a long one was, and is none.
    tokens_from: usize,
    values_from: usize,
    /// Where an escape ended: what is before it does not belong to a word.
    floor: usize,
    /// The name that was read last: one name often stands in many lines.
    last_key: LastKey,
}

/// Looks a text through.
pub(crate) fn scan(text: &[u8], options: &Options) -> Found {
    let mut scan = Scan {
        text,
        options,
        providers: Providers::new(),
        found: Found::default(),
        runs_end: 0,
        beside_end: 0,
        has_cloud_key: false,
        undecided: Vec::new(),
        command: None,
        tokens_from: 0,
        values_from: 0,
        floor: 0,
        last_key: LastKey::default(),
    };
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at = match stop(*byte) {
            Stop::None => at + 1,
            Stop::Word => scan.word(at),
            _ if !options.names.built_in => scan.named_only(at),
            kind => scan.stopped(at, kind),
        };
    }
    if scan.has_cloud_key {
        let secrets = scan.undecided.iter().filter(|(start, end)| is_cloud_secret(&text[*start..*end]));
        scan.found.spans.extend(secrets.map(|(start, end)| Span::secret(*start, *end)));
    }
    scan.found
}

impl Scan<'_> {
    /// Hides a secret, and goes on after it.
    fn hide(&mut self, (start, end): (usize, usize)) -> usize {
        self.found.spans.push(Span::secret(start, end));
        end
    }

    fn hide_private(&mut self, (start, end): (usize, usize)) -> usize {
        self.found.spans.push(Span::private(start, end));
        end
    }

    /// With the built-in rules off, only names that were added are looked for.
    fn named_only(&mut self, at: usize) -> usize {
        match self.text[at] {
            b':' | b'=' => self.assignment(at),
            b'@' if self.options.emails => self.address(at),
            _ => at + 1,
        }
    }

    fn stopped(&mut self, at: usize, stop: Stop) -> usize {
        match stop {
            Stop::None | Stop::Word => at + 1,
            Stop::Separator => self.separator(at),
            Stop::Slash => match home::unix(self.text, at) {
                Some(name) => self.hide_private(name),
                None => at + 1,
            },
            Stop::Backslash => self.backslash(at),
            Stop::Percent => self.percent(at),
            Stop::Dash => self.dashes(at),
            Stop::At => self.address(at),
            Stop::Angle => self.element(at),
            Stop::Tilde => self.tilde(at),
            Stop::Dollar => self.dollar(at),
            Stop::Escape => self.after_escape(at + 1),
            Stop::Beyond => self.beyond(at),
            Stop::Plus => self.phone(at),
        }
    }

    fn word(&mut self, start: usize) -> usize {
        let text = self.text;
        let end = run_end(text, start, ALNUM);
        let letters = providers::letters(text, start);
        if !self.options.names.built_in {
            return if text[start].is_ascii_digit() && self.options.phones { self.phone(start).max(end) } else { end };
        }
        if start >= self.tokens_from
            && self.providers.may_begin(letters)
            && let Some(token) = self.token(start, letters)
        {
            self.has_cloud_key |=
                matches!(&text[start..start + 4], b"AKIA" | b"ASIA" | b"LTAI" | b"AKID" | b"AKLT" | b"ABIA" | b"ACCA");
            return self.hide(token);
        }
        if WORDS.contains(letters)
            && let Some(secret) = self.known_word(start, end)
        {
            return self.hide(secret);
        }
        if matches!(text.get(end), Some(b'_' | b'-'))
            && start > 0
            && matches!(text[start - 1], b'_' | b'-')
            && let Some(token) = providers::labelled(text, start, end)
        {
            return self.hide(token);
        }
        if text[start].is_ascii_digit()
            && let Some(next) = self.number(start, end)
        {
            return next;
        }
        if end - start >= 16 && start >= self.runs_end { self.long_word(start, end) } else { end }
    }

    /// A token with a prefix. In a long run of characters that is none, not every few bytes are looked at again.
    fn token(&mut self, start: usize, letters: u16) -> Option<(usize, usize)> {
        match self.providers.find(self.text, start, letters) {
            Ok(token) => Some(token),
            Err(Miss::Long) => {
                self.tokens_from = start + SKIPPED;
                None
            }
            Err(Miss::Cheap) => None,
        }
    }

    /// A word after which a secret may follow, or of which one consists.
    fn known_word(&mut self, start: usize, end: usize) -> Option<(usize, usize)> {
        let text = self.text;
        if text[start..].starts_with(b"eyJ") {
            return jwt::find(text, start).map(|end| (start, end));
        }
        if text[start..].starts_with(b"atlasv1.") && text[..start].ends_with(b".") {
            return Some((run_start(text, start - 1, ALNUM, 32), run_end(text, end + 1, TOKEN)));
        }
        let word = &text[start..end];
        if prose::COMMANDS.contains(&word) {
            self.command = Some(end);
            return None;
        }
        if prose::WORDS.iter().any(|it| word.eq_ignore_ascii_case(it)) {
            return prose::after_word(text, start, end, &self.options.names);
        }
        urls::webhook(text, start)
    }

    fn number(&mut self, start: usize, end: usize) -> Option<usize> {
        if let Some(card) = cards::find(self.text, start, self.floor) {
            return Some(self.hide((start, card)));
        }
        let is_bot = (8..=10).contains(&(end - start)) && self.text.get(end) == Some(&b':');
        if is_bot && run_end(self.text, end + 1, TOKEN) - end > 33 {
            let token_end = run_end(self.text, end + 1, TOKEN);
            return Some(self.hide((start, token_end)));
        }
        let phone = if self.options.phones { contacts::phone(self.text, start) } else { None };
        phone.map(|phone| self.hide_private(phone))
    }

    /// A word that is too long for prose.
    fn long_word(&mut self, start: usize, end: usize) -> usize {
        let text = self.text;
        if let Some(end) = dotted_token(text, start, end) {
            return self.hide((start, end));
        }
        let run = base64::around(text, start, end, self.runs_end.max(self.floor));
        self.runs_end = run.end;
        if let Some(text_start) = run.text_start {
            self.found.encoded.push((text_start, run.end));
        }
        let run_start = run_start(text, start, TOKEN | crate::classes::BASE64, (start - self.floor.min(start)).min(64));
        if has_azure_mark(&text[run_start..run.end]) {
            return self.hide((run_start, run.end));
        }
        let length = run.end - run_start;
        if (28..=80).contains(&length) && self.undecided.len() < UNDECIDED {
            self.undecided.push((run_start, run.end));
        }
        end
    }

    fn separator(&mut self, at: usize) -> usize {
        if self.text[at] == b':' && self.text[at..].starts_with(b"://") {
            return match urls::user_info(self.text, at) {
                Some(secret) => self.hide(secret),
                None => at + 3,
            };
        }
        self.assignment(at)
    }

    fn assignment(&mut self, at: usize) -> usize {
        let Some(separator) = assignment::separator(self.text, at) else { return at + 1 };
        let Some(key) = assignment::key(self.text, separator, &self.options.names, &mut self.last_key) else {
            return at + 1;
        };
        self.assigned(at, key, separator)
    }

    fn assigned(&mut self, at: usize, key: Key, separator: assignment::Separator) -> usize {
        let key = match key.kind {
            Kind::Name if at < self.values_from => return at + 1,
            Kind::Name => {
                self.name(separator.value_start);
                return at + 1;
            }
            Kind::Value if at < self.beside_end => Key { kind: Kind::Secret, ..key },
            Kind::Value => return at + 1,
            _ => key,
        };
        if !key.kind.is_certain() && at < self.values_from {
            return at + 1;
        }
        let Some((start, end, next)) = assignment::secret(self.text, key, separator) else {
            self.skip_values(separator.value_start);
            return at + 1;
        };
        match key.kind.id() {
            Some(kind) => self.id(kind, start, end),
            None => drop(self.hide((start, end))),
        }
        next.max(at + 1)
    }

    /// In a long value that is none, not every few bytes are looked at again.
    fn skip_values(&mut self, start: usize) {
        let near = &self.text[start.min(self.text.len())..self.text.len().min(start + LONGEST_NAME)];
        if near.len() == LONGEST_NAME
            && !near.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'&' | b',' | b';'))
        {
            self.values_from = start + SKIPPED;
        }
    }

    fn id(&mut self, kind: &str, start: usize, end: usize) {
        let id = &self.text[start..end];
        if !Ids::is_hash(kind, id) {
            // One id often stands in many lines.
            let known = self.found.spans.last().filter(|span| self.text[span.start..span.end] == *id);
            let known =
                known.and_then(|span| if let Mask::Id(hash) = &span.mask { Some(hash.to_string()) } else { None });
            let known = known.filter(|hash| hash.starts_with(kind));
            let hash = known.unwrap_or_else(|| self.options.ids.hash(kind, id));
            self.found.spans.push(Span::id(start, end, hash));
        }
    }

    /// The name of something: its value may stand beside it.
    fn name(&mut self, value_start: usize) {
        let near = &self.text[..self.text.len().min(value_start + 56)];
        let Some(name) = value::value(near, value_start, false) else { return };
        if name.end - name.start > LONGEST_NAME {
            return self.skip_values(value_start);
        }
        let kind = classify(&near[name.start..name.end], &self.options.names);
        if kind.is_some_and(Kind::is_certain) {
            self.beside_end = name.end + BESIDE;
        }
    }

    fn element(&mut self, at: usize) -> usize {
        let Some(separator) = assignment::element(self.text, at) else { return at + 1 };
        let Some(key) = assignment::key(self.text, separator, &self.options.names, &mut self.last_key) else {
            return at + 1;
        };
        match assignment::element_text(self.text, key, separator) {
            Some(text) => self.hide(text),
            None => self.assigned(at, key, separator),
        }
    }

    /// Backslashes: escapes, and paths of Windows.
    fn backslash(&mut self, at: usize) -> usize {
        let text = self.text;
        if let Some(name) = home::windows(text, at) {
            return self.hide_private(name);
        }
        let count = text[at..].iter().take_while(|byte| **byte == b'\\').count();
        let last = at + count - 1;
        self.found.has_escapes |= hides(text, last);
        let next = match text.get(last + 1) {
            // A word begins after the escape, unless one begins with its letter.
            Some(b'n' | b'r' | b't' | b'b' | b'f' | b'e') => {
                let letters = providers::letters(text, last + 1);
                if self.providers.may_begin(letters)
                    && let Ok(token) = self.providers.find(text, last + 1, letters)
                {
                    return self.hide(token);
                }
                last + 2
            }
            Some(b'u') if hides(text, last) => last + 6,
            Some(b'x') if hides(text, last) => last + 4,
            Some(b'0') if text[last..].starts_with(b"\\033") => last + 4,
            _ => last + 1,
        };
        self.after_escape(next)
    }

    /// A word may begin after an escape, whatever the letters of that are.
    fn after_escape(&mut self, at: usize) -> usize {
        self.floor = after_colour(self.text, at);
        self.floor
    }

    fn percent(&mut self, at: usize) -> usize {
        if hides(self.text, at) {
            self.found.has_escapes = true;
            return at + 3;
        }
        at + 1
    }

    fn dashes(&mut self, at: usize) -> usize {
        let text = self.text;
        let end = at + text[at..].iter().take_while(|byte| **byte == b'-').count();
        let found = match end - at {
            1 | 2 => {
                let command = self.command.filter(|command| at - command.min(&at) < 96).map(|end| &text[..end]);
                prose::after_flag(text, at, command.unwrap_or_default(), &self.options.names)
            }
            3 => None,
            _ => pem::find(text, at).map(|end| (at, end)),
        };
        match found {
            Some(secret) => self.hide(secret),
            None => end,
        }
    }

    fn address(&mut self, at: usize) -> usize {
        if let Some(secret) = urls::go_data_source(self.text, at) {
            self.hide(secret);
        } else if self.options.emails
            && let Some(address) = contacts::email(self.text, at)
        {
            return self.hide_private(address);
        }
        at + 1
    }

    fn phone(&mut self, at: usize) -> usize {
        let phone = if self.options.phones { contacts::phone(self.text, at) } else { None };
        phone.map_or(at + 1, |phone| self.hide_private(phone))
    }

    /// Secrets of applications of Azure: three characters, a digit, `Q~`, and more.
    fn tilde(&mut self, at: usize) -> usize {
        let text = self.text;
        let belongs = |byte: &u8| is(*byte, TOKEN | DOT) || *byte == b'~';
        let is_marked =
            at >= 5 && text[at - 1] == b'Q' && text[at - 2].is_ascii_digit() && text[at - 5..at].iter().all(belongs);
        let length =
            if is_marked { text[at + 1..].iter().take(40).take_while(|byte| belongs(byte)).count() } else { 0 };
        if length >= 28 { self.hide((at - 5, at + 1 + length)) } else { at + 1 }
    }

    /// Hashes of passwords as `crypt` writes them: `$2b$12$…`, `$6$…`, `$argon2id$…`; and `access_token$production$…`.
    fn dollar(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        let known: [&[u8]; 12] = [
            b"$2a$",
            b"$2b$",
            b"$2y$",
            b"$1$",
            b"$5$",
            b"$6$",
            b"$y$",
            b"$argon2",
            b"$scrypt$",
            b"$pbkdf2",
            b"$apr1$",
            b"$7$",
        ];
        let is_hash = |length: usize| length >= 20 && looks::is_mixed(&rest[..length]);
        let mark = known.iter().find(|mark| rest.starts_with(mark));
        if mark.is_some_and(|mark| at_is(rest, mark.len(), TOKEN | DOT)) {
            let belongs = |byte: &u8| is(*byte, TOKEN | DOT) || matches!(byte, b'$' | b'/' | b'+' | b'=' | b',');
            let near = rest.iter().take(40).take_while(|byte| belongs(byte)).count();
            if is_hash(near) {
                let length = rest.iter().take_while(|byte| belongs(byte)).count();
                return self.hide((at, at + length));
            }
        }
        at + 1
    }

    /// Characters beyond ASCII: names of secrets in other languages.
    fn beyond(&mut self, at: usize) -> usize {
        let text = self.text;
        let end = at + text[at..].iter().position(u8::is_ascii).unwrap_or(text.len() - at);
        let run = &text[end - (end - at).min(48)..end];
        let links = ["：", "是", "为", "為", "は", "＝", "は「", "「", "：“", "“"];
        let link = links.iter().find_map(|link| run.strip_suffix(link.as_bytes()));
        let is_named = names_secret(link.unwrap_or(run));
        if is_named && (link.is_some() || text.get(end) == Some(&b' ')) {
            let near = &text[..text.len().min(end + 128)];
            let found = value(near, end, false);
            let found =
                found.filter(|it| looks::is_chosen(&near[it.start..it.end]) || it.is_quoted && it.end > it.start);
            if found.is_some()
                && let Some(found) = value(text, end, false)
            {
                return self.hide((found.start, found.end));
            }
        }
        end
    }
}

/// After an escape sequence that colours a terminal.
fn after_colour(text: &[u8], at: usize) -> usize {
    if text.get(at) != Some(&b'[') {
        return at;
    }
    let length = text[at + 1..].iter().take(24).take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b'?')).count();
    let end = at + 1 + length;
    end + usize::from(length > 0 && text.get(end).is_some_and(u8::is_ascii_alphabetic))
}

/// Tokens of several parts whose first part is no prefix.
fn dotted_token(text: &[u8], start: usize, end: usize) -> Option<usize> {
    let first = run_end(&text[..text.len().min(start + 80)], start, TOKEN);
    if text.get(first) != Some(&b'.') {
        return None;
    }
    let part = |from: usize| run_end(&text[..text.len().min(from + 128)], from, TOKEN);
    let second = part(first + 1);
    let lengths = (first - start, second - first - 1);
    // Discord: an id in base64, a time, and a signature.
    if (23..=28).contains(&lengths.0)
        && lengths.1 == 6
        && matches!(text[start], b'M' | b'N' | b'O')
        && text.get(second) == Some(&b'.')
    {
        let third = part(second + 1);
        return (third - second > 26).then_some(third);
    }
    // Zhipu: 32 hexadecimal digits and 16 letters.
    let is_pair = end == first
        && lengths == (32, 16)
        && looks::is_hex(&text[start..end])
        && looks::is_mixed(&text[first + 1..second]);
    (is_pair && !at_is(text, second, ALNUM | HEX)).then_some(second)
}

/// Marks that Azure puts into its keys, at lengths that they have.
fn has_azure_mark(run: &[u8]) -> bool {
    const MARKS: [&[u8]; 13] = [
        b"AzSe", b"AzFu", b"AzCa", b"+ASt", b"+ACR", b"+AEh", b"+ASb", b"+ARm", b"+ABa", b"AIoT", b"JQQJ99", b"AACDb",
        b"APIM",
    ];
    (40..=90).contains(&run.len()) && MARKS.iter().any(|mark| memchr::memmem::find(&run[28..], mark).is_some())
}

/// Whether a word looks like the secret half of a pair of keys: no hash, no id, no path.
fn is_cloud_secret(word: &[u8]) -> bool {
    let count = |class: fn(&&u8) -> bool| word.iter().filter(class).count();
    let (upper, lower) = (count(|it| it.is_ascii_uppercase()), count(|it| it.is_ascii_lowercase()));
    let others = count(|it| it.is_ascii_digit() || matches!(it, b'+' | b'/'));
    upper >= 4 && lower >= 4 && others >= 1 && word.len() - upper - lower <= word.len() / 2
}
