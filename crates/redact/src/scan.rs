//! One pass over a text. It stops at the beginnings of words and at few other characters, and looks there, within bounds,
//! for what each of them may begin. Pure.

use crate::call;
use crate::classes::{ALNUM, BASE64, TOKEN, run_end, run_start};
use crate::escapes::{self, hides};
use crate::ids::Ids;
use crate::keys::Names;
use crate::known::KnownNames;
use crate::prose::{self, ValueAhead};
use crate::span::Span;
use crate::values::providers::{self, Miss, Providers};
use crate::values::{base64, cards, contacts, home, jwt, pem, tokens, urls};

mod assigned;
mod decided;
mod stops;

use decided::KnownValues;
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

/// How many long words are kept until it is known whether a key of a cloud stands beside them.
const UNDECIDED: usize = 256;
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
    /// Where a value begins whose name may stand after it.
    value_before: Option<usize>,
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
    /// Where the last header of a JSON web token ended, or what looked like one.
    header_end: usize,
    /// The names that were read.
    known_names: KnownNames,
    /// The values that were decided about.
    known_values: KnownValues,
    value_ahead: ValueAhead,
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
        value_before: None,
        has_cloud_key: false,
        undecided: Vec::new(),
        command: None,
        tokens_from: 0,
        values_from: 0,
        floor: 0,
        header_end: 0,
        known_names: KnownNames::default(),
        known_values: KnownValues::default(),
        value_ahead: ValueAhead::default(),
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
        let secrets = scan.undecided.iter().filter(|(start, end)| tokens::is_cloud_secret(&text[*start..*end]));
        scan.found.spans.extend(secrets.map(|(start, end)| Span::secret(*start, *end)));
    }
    scan.found
}

/// Finds a secret at a place.
type Find = fn(&[u8], usize) -> Option<(usize, usize)>;

impl Scan<'_> {
    /// Hides a secret, and goes on after it.
    fn hide(&mut self, (start, end): (usize, usize)) -> usize {
        let end = self.further(start, end);
        self.found.spans.push(Span::secret(start, end));
        end
    }

    /// Where a secret ends whose first word was found, by a name before it, say: a card in groups, or a scheme and credentials.
    fn further(&mut self, start: usize, end: usize) -> usize {
        if !matches!(self.text.get(end), Some(b' ' | b'-')) {
            return end;
        }
        let further = match &self.text[start..end] {
            [b'0'..=b'9', _, _, _] => cards::find(self.text, start, self.floor),
            [b'B' | b'b', _, _, _, _] | [b'B' | b'b', _, _, _, _, _] => prose::credentials(self.text, start, end),
            _ => None,
        };
        further.map_or(end, |further| further.max(end))
    }

    /// Where the last part ends that is replaced.
    fn hidden(&self) -> usize {
        self.found.spans.last().map_or(0, |span| span.end)
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
            Stop::Tilde => self.hide_at(at, tokens::azure_application),
            Stop::Dollar => self.hide_at(at, tokens::password_hash),
            Stop::Escape => self.after_escape(at + 1),
            Stop::Beyond => self.beyond(at),
            Stop::Plus => self.phone(at),
            Stop::Call => self.call(at),
        }
    }

    fn word(&mut self, start: usize) -> usize {
        let text = self.text;
        // What made it a colour is gone: some programs leave out characters that nobody sees.
        if text[start].is_ascii_digit() && text[..start].ends_with(b"[") {
            let after = escapes::after_colour(text, start - 1);
            if text[..after].ends_with(b"m") {
                self.floor = after;
                return after;
            }
        }
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
            return jwt::find(text, start, &mut self.header_end).map(|end| (start, end));
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
            let Self { options, known_names, value_ahead, .. } = self;
            return prose::after_word(text, start, end, &options.names, known_names, value_ahead);
        }
        urls::webhook(text, start)
    }

    fn number(&mut self, start: usize, end: usize) -> Option<usize> {
        if cards::may_begin(end - start)
            && let Some(card) = cards::find(self.text, start, self.floor)
        {
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
        if let Some(end) = tokens::dotted(text, start, end) {
            return self.hide((start, end));
        }
        let run = base64::around(text, start, end, self.runs_end.max(self.floor));
        self.runs_end = run.end;
        if let Some(text_start) = run.text_start {
            self.found.encoded.push((text_start, run.end));
        }
        let run_start = run_start(text, start, TOKEN | BASE64, (start - self.floor.min(start)).min(64));
        if tokens::has_azure_mark(&text[run_start..run.end]) {
            return self.hide((run_start, run.end));
        }
        let length = run.end - run_start;
        if (28..=80).contains(&length) && self.undecided.len() < UNDECIDED {
            self.undecided.push((run_start, run.end));
        }
        end
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
            Some(b'u') if hides(text, last) => last + escapes::braced(text, last).map_or(6, |(length, _)| length),
            Some(b'x') if hides(text, last) => last + 4,
            Some(b'0') if text[last..].starts_with(b"\\033") => last + 4,
            _ => last + 1,
        };
        self.after_escape(next)
    }

    /// A word may begin after an escape, whatever the letters of that are.
    fn after_escape(&mut self, at: usize) -> usize {
        self.floor = escapes::after_colour(self.text, at);
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
                let names = &self.options.names;
                prose::after_flag(text, at, command.unwrap_or_default(), names, &mut self.known_names)
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

    fn call(&mut self, at: usize) -> usize {
        match call::argument(self.text, at, &self.options.names, &mut self.known_names) {
            Some(secret) => self.hide(secret),
            None => self.phone(at),
        }
    }

    /// Hides what is found at a place, if anything is.
    fn hide_at(&mut self, at: usize, find: Find) -> usize {
        match find(self.text, at) {
            Some(secret) => self.hide(secret),
            None => at + 1,
        }
    }

    /// Characters beyond ASCII: names of secrets in other languages.
    fn beyond(&mut self, at: usize) -> usize {
        let end = at + self.text[at..].iter().position(u8::is_ascii).unwrap_or(self.text.len() - at);
        match prose::after_foreign_word(self.text, at, end) {
            Some(secret) => self.hide(secret),
            None => end,
        }
    }
}
