//! One pass over a text. It stops at the beginnings of words and at a few other characters, and checks a bounded
//! part of the text there. Pure.

use std::sync::LazyLock;

use crate::call;
use crate::classes::{ALNUM, BASE64, TOKEN, run_end, run_start};
use crate::escapes::{self, hides};
use crate::ids::Ids;
use crate::keys::NameRules;
use crate::letters::{TrigramSet, letters};
use crate::prose;
use crate::shapes::SHAPES;
use crate::span::Span;
use crate::values::providers::{self, Providers};
use crate::values::{base64, cards, contacts, home, jwt, pem, tokens, urls};

mod assigned;

/// What the pass looks for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) names: NameRules,
    pub(crate) emails: bool,
    pub(crate) phones: bool,
    pub(crate) ids: Ids,
}

/// What a pass found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) spans: Vec<Span>,
    /// Whether the text has escapes that may hide secrets from this pass.
    pub(crate) has_escapes: bool,
    /// Base64 runs that decode to text: the start of that text and the end of the run.
    pub(crate) encoded: Vec<(usize, usize)>,
}

/// The maximum number of long words that are collected. They are secrets only if the text also has a key id of a
/// cloud provider.
const UNDECIDED: usize = 256;

/// The first letters of words after which a secret may follow, of webhook hosts, and of tokens with several parts.
static WORDS: LazyLock<TrigramSet> = LazyLock::new(|| {
    let webhooks = SHAPES.webhooks.iter().map(|start| start.as_bytes());
    let words = SHAPES.words.iter().chain(&SHAPES.commands).copied();
    words.chain([&b"eyJ"[..], b"atlas"]).chain(webhooks).map(|word| letters(word, 0)).collect()
});

struct Scan<'a> {
    text: &'a [u8],
    options: &'a Options,
    providers: &'static Providers,
    found: Findings,
    /// The end of the base64 runs examined so far.
    runs_end: usize,
    /// The last position at which a value may belong to a name next to it.
    beside_end: usize,
    /// The start of a value whose name may follow.
    value_before: Option<usize>,
    /// Whether the text contained the public half of a cloud provider's key pair.
    has_cloud_key: bool,
    undecided: Vec<(usize, usize)>,
    /// The end of the last command with a short flag for a password.
    command: Option<usize>,
    /// The end of the last escape. A word does not begin before it.
    floor: usize,
    /// The end of the last header of a JSON web token, or of a text that looked like one.
    header_end: usize,
}

/// Scans a text in one pass.
pub(crate) fn scan(text: &[u8], options: &Options) -> Findings {
    let mut scan = Scan {
        text,
        options,
        providers: Providers::get(),
        found: Findings::default(),
        runs_end: 0,
        beside_end: 0,
        value_before: None,
        has_cloud_key: false,
        undecided: Vec::new(),
        command: None,
        floor: 0,
        header_end: 0,
    };
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at = match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => scan.word(at),
            _ if options.names.built_in => scan.sign(at),
            _ => scan.named_only(at),
        };
    }
    if scan.has_cloud_key {
        let secrets = scan.undecided.iter().filter(|(start, end)| tokens::is_cloud_secret(&text[*start..*end]));
        scan.found.spans.extend(secrets.map(|(start, end)| Span::secret(*start, *end)));
    }
    scan.found
}

/// Finds a secret that begins at a position. Returns its start and end.
type Find = fn(&[u8], usize) -> Option<(usize, usize)>;

impl Scan<'_> {
    /// Hides a secret. Returns the position where the pass continues.
    fn hide(&mut self, (start, end): (usize, usize)) -> usize {
        let end = self.further(start, end);
        self.found.spans.push(Span::secret(start, end));
        end
    }

    /// Extends a secret whose first word was found, for example by its name, to a whole card number in groups or
    /// to the credentials after a scheme. Returns its end.
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

    /// Returns the end of the last span that will be replaced.
    fn hidden(&self) -> usize {
        self.found.spans.last().map_or(0, |span| span.end)
    }

    fn hide_private(&mut self, (start, end): (usize, usize)) -> usize {
        self.found.spans.push(Span::private(start, end));
        end
    }

    /// Looks only for names that a user added, because the built-in rules are off.
    fn named_only(&mut self, at: usize) -> usize {
        match self.text[at] {
            b':' | b'=' => self.assignment(at),
            b'@' if self.options.emails => self.address(at),
            _ => at + 1,
        }
    }

    /// Handles a byte that is neither a letter nor a digit.
    fn sign(&mut self, at: usize) -> usize {
        match self.text[at] {
            b':' | b'=' => self.separator(at),
            b'/' => home::unix(self.text, at).map_or(at + 1, |name| self.hide_private(name)),
            b'\\' => self.backslash(at),
            b'%' => self.percent(at),
            b'-' => self.dashes(at),
            b'@' => self.address(at),
            b'>' => self.element(at),
            b'~' => self.hide_at(at, tokens::azure_application),
            b'$' => self.hide_at(at, tokens::password_hash),
            b'+' => self.phone(at),
            b'(' => self.call(at),
            0x1b => self.after_escape(at + 1),
            0x80..=0xff => self.beyond(at),
            _ => at + 1,
        }
    }

    fn word(&mut self, start: usize) -> usize {
        let text = self.text;
        // A color sequence without its escape character: some programs drop invisible characters.
        if text[start].is_ascii_digit() && text[..start].ends_with(b"[") {
            let after = escapes::after_colour(text, start - 1);
            if text[..after].ends_with(b"m") {
                self.floor = after;
                return after;
            }
        }
        let end = run_end(text, start, ALNUM);
        if !self.options.names.built_in {
            return if text[start].is_ascii_digit() && self.options.phones { self.phone(start).max(end) } else { end };
        }
        if let Some(token) = self.providers.find(text, start) {
            self.has_cloud_key |=
                matches!(&text[start..start + 4], b"AKIA" | b"ASIA" | b"LTAI" | b"AKID" | b"AKLT" | b"ABIA" | b"ACCA");
            return self.hide(token);
        }
        if WORDS.contains(letters(text, start))
            && let Some(secret) = self.known_word(start, end)
        {
            return self.hide(secret);
        }
        if matches!(text.get(end), Some(b'_' | b'-'))
            && start > 0
            && matches!(text[start - 1], b'_' | b'-')
            && let Some(token) = providers::find_labelled(text, start, end)
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

    /// Finds the secret that a known word announces or begins.
    fn known_word(&mut self, start: usize, end: usize) -> Option<(usize, usize)> {
        let text = self.text;
        if text[start..].starts_with(b"eyJ") {
            return jwt::find(text, start, &mut self.header_end).map(|end| (start, end));
        }
        if text[start..].starts_with(b"atlasv1.") && text[..start].ends_with(b".") {
            return Some((run_start(text, start - 1, ALNUM, 32), run_end(text, end + 1, TOKEN)));
        }
        let word = &text[start..end];
        if SHAPES.commands.contains(&word) {
            self.command = Some(end);
            return None;
        }
        if SHAPES.words.iter().any(|it| word.eq_ignore_ascii_case(it)) {
            return prose::after_word(text, start, end, &self.options.names);
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
        let token_end = if is_bot { run_end(self.text, end + 1, TOKEN) } else { end };
        if token_end - end > 33 {
            return Some(self.hide((start, token_end)));
        }
        let phone = if self.options.phones { contacts::phone(self.text, start) } else { None };
        phone.map(|phone| self.hide_private(phone))
    }

    /// Handles a word that is too long for prose.
    fn long_word(&mut self, start: usize, end: usize) -> usize {
        let text = self.text;
        if let Some(end) = tokens::find_dotted(text, start, end) {
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
        if (28..=80).contains(&(run.end - run_start)) && self.undecided.len() < UNDECIDED {
            self.undecided.push((run_start, run.end));
        }
        end
    }

    /// Handles backslashes: escapes, and Windows paths.
    fn backslash(&mut self, at: usize) -> usize {
        let text = self.text;
        if let Some(name) = home::windows(text, at) {
            return self.hide_private(name);
        }
        let count = text[at..].iter().take_while(|byte| **byte == b'\\').count();
        let last = at + count - 1;
        self.found.has_escapes |= hides(text, last);
        let next = match text.get(last + 1) {
            // A word may begin after the escape, or with the letter of the escape.
            Some(b'n' | b'r' | b't' | b'b' | b'f' | b'e') => {
                if let Some(token) = self.providers.find(text, last + 1) {
                    return self.hide(token);
                }
                last + 2
            }
            Some(b'u') if hides(text, last) => {
                last + escapes::braced_escape(text, last).map_or(6, |(length, _)| length)
            }
            Some(b'x') if hides(text, last) => last + 4,
            Some(b'0') if text[last..].starts_with(b"\\033") => last + 4,
            _ => last + 1,
        };
        self.after_escape(next)
    }

    /// Skips a color sequence after an escape. A word may begin after it, but not earlier: the escape's letter is
    /// not part of it.
    fn after_escape(&mut self, at: usize) -> usize {
        self.floor = escapes::after_colour(self.text, at);
        self.floor
    }

    fn percent(&mut self, at: usize) -> usize {
        let is_escape = hides(self.text, at);
        self.found.has_escapes |= is_escape;
        if is_escape { at + 3 } else { at + 1 }
    }

    fn dashes(&mut self, at: usize) -> usize {
        let text = self.text;
        let end = at + text[at..].iter().take_while(|byte| **byte == b'-').count();
        let found = match end - at {
            1 | 2 => {
                let command = self.command.filter(|command| at - command.min(&at) < 96).map(|end| &text[..end]);
                let names = &self.options.names;
                prose::after_flag(text, at, command.unwrap_or_default(), names)
            }
            3 => None,
            _ => pem::find(text, at).map(|end| (at, end)),
        };
        found.map_or(end, |secret| self.hide(secret))
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
        match call::argument(self.text, at, &self.options.names) {
            Some(secret) => self.hide(secret),
            None => self.phone(at),
        }
    }

    /// Hides what `find` finds at a position.
    fn hide_at(&mut self, at: usize, find: Find) -> usize {
        find(self.text, at).map_or(at + 1, |secret| self.hide(secret))
    }

    /// Handles non-ASCII characters: names of secrets in other languages.
    fn beyond(&mut self, at: usize) -> usize {
        let end = at + self.text[at..].iter().position(u8::is_ascii).unwrap_or(self.text.len() - at);
        prose::after_foreign_word(self.text, at, end).map_or(end, |secret| self.hide(secret))
    }
}
