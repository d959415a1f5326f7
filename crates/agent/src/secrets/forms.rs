//! Finds and replaces secrets in text, in all their encodings. Does no I/O.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use openskill_proto::trace::hex;
use openskill_proto::uri_template::{RESERVED, percent_encode};
use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use super::json;
use super::reference::{MIN_SOUGHT_BYTES, mark, reference};

/// The minimum length of a part of a secret to search for, in bytes. Secrets with several lines are often written
/// line by line.
const MIN_PART_BYTES: usize = 8;

/// The replacement for secrets without a name.
const MASK: &str = "***";

/// The maximum depth of nested text to search, such as JSON in a JSON string.
const MAX_DEPTH: usize = 4;

/// The encodings of a set of secrets.
#[derive(Default)]
pub(super) struct Forms {
    secrets: Vec<NamedSecret>,
    /// All encodings, longest first, each with its replacement.
    all: Vec<(String, String)>,
}

struct NamedSecret {
    mark: String,
    name: String,
    text: String,
}

impl Forms {
    /// Collects the encodings of named secrets.
    pub(super) fn new<'a>(secrets: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut forms = Self::default();
        for (name, text) in secrets {
            let mark = mark(name);
            forms.all.extend(encodings(text).into_iter().map(|form| (form, mark.clone())));
            // Leave existing marks and references unchanged.
            forms.all.extend([mark.clone(), reference(name)].map(|form| (form.clone(), form)));
            forms.secrets.push(NamedSecret { mark, name: name.to_owned(), text: text.to_owned() });
        }
        forms.all.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
        forms
    }

    /// Collects the encodings of secrets without names, which are replaced with `***`.
    pub(super) fn for_masking<'a>(secrets: impl Iterator<Item = &'a str>) -> Self {
        let mut forms = Self::default();
        for text in secrets.filter(|it| !it.is_empty()) {
            if text.len() >= MIN_SOUGHT_BYTES {
                forms.all.extend(encodings(text).into_iter().map(|form| (form, MASK.to_owned())));
            }
            forms.secrets.push(NamedSecret { mark: MASK.to_owned(), name: String::new(), text: text.to_owned() });
        }
        forms.all.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
        forms
    }

    /// Replaces secrets with marks.
    pub(super) fn conceal(&self, text: &str) -> String {
        self.replace_secrets(text, 0, &|it| Value::from(it.mark.as_str()).to_string())
    }

    /// Replaces secrets in JSON text: strings that are secrets with references, and all other occurrences with
    /// marks.
    pub(super) fn refer(&self, json: &str) -> String {
        self.replace_secrets(json, 0, &|it| reference(&it.name))
    }

    fn replace_secrets(&self, text: &str, depth: usize, whole: &dyn Fn(&NamedSecret) -> String) -> String {
        if self.secrets.is_empty() {
            return text.to_owned();
        }
        let nested =
            |inner: &str| self.replace_secrets(inner, depth + 1, &|it| Value::from(it.mark.as_str()).to_string());
        let whole = |value: &str| self.secret(value).map(whole);
        let is_name = |name: &str| self.secrets.iter().any(|it| it.name == name);
        let in_json = if depth < MAX_DEPTH { json::replace(text, &is_name, &whole, &nested) } else { None };
        in_json.unwrap_or_else(|| self.conceal_plain_text(text))
    }

    /// Returns the secret that equals a whole string or number. The number may lack the secret's leading zeros.
    fn secret(&self, value: &str) -> Option<&NamedSecret> {
        let number = value.strip_suffix(".0").unwrap_or(value);
        let is_number = number.len() >= MIN_SOUGHT_BYTES && number.bytes().all(|it| it.is_ascii_digit());
        let is = |it: &&NamedSecret| it.text == value || is_number && it.text.trim_start_matches('0') == number;
        self.secrets.iter().find(is)
    }

    /// Replaces encodings in text that is not JSON. If several encodings match at the same position, the longest
    /// is replaced.
    fn conceal_plain_text(&self, text: &str) -> String {
        let mut next: Vec<_> = self.all.iter().map(|(form, _)| text.find(form.as_str())).collect();
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        loop {
            for (place, (form, _)) in next.iter_mut().zip(&self.all) {
                if place.is_some_and(|it| it < at) {
                    *place = text[at..].find(form.as_str()).map(|it| it + at);
                }
            }
            let first = next.iter().enumerate().filter_map(|(i, place)| Some(((*place)?, i))).min();
            let Some((place, i)) = first else { break };
            let (form, instead) = &self.all[i];
            out.push_str(&text[at..place]);
            out.push_str(instead);
            at = place + form.len();
        }
        out.push_str(&text[at..]);
        // If the unescaped text contains a secret, its encoding is unknown, so a mark replaces the whole text.
        let Some(unescaped) = unescape(&out) else { return out };
        let unmarked = self.secrets.iter().fold(unescaped, |text, it| text.replace(&it.mark, ""));
        let spaced = unmarked.replace('+', " ");
        let is_in = |it: &&NamedSecret| unmarked.contains(&it.text) || spaced.contains(&it.text);
        let hidden = self.secrets.iter().filter(|it| it.text.len() >= MIN_SOUGHT_BYTES).find(is_in);
        hidden.map_or(out, |it| it.mark.clone())
    }

    /// Returns the number of bytes at the end of a text that may be the beginning of an encoding.
    pub(super) fn begun_at_end(&self, text: &str) -> usize {
        let begun = |form: &str| {
            (1..form.len().min(text.len() + 1)).rev().find(|n| text.as_bytes().ends_with(&form.as_bytes()[..*n]))
        };
        self.all.iter().filter_map(|(form, _)| begun(form)).max().unwrap_or(0)
    }
}

/// Returns the encodings of a secret: plain, JSON-escaped, percent-encoded, base64, hexadecimal, and the words of
/// a longer secret.
fn encodings(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    let parts = secret.split_whitespace().filter(|part| part.len() >= MIN_PART_BYTES && part.len() < secret.len());
    forms.extend(parts.map(str::to_owned));
    let escaped = json_escaped(secret);
    forms.extend([json_escaped(&escaped), escaped.replace('/', "\\/"), escaped]);
    let ascii = ascii_escaped(secret);
    forms.extend([json_escaped(&ascii), ascii]);
    let lower = utf8_percent_encode(secret, RESERVED).map(lower_escape).collect();
    for url in [percent_encode(secret), lower] {
        forms.extend([url.replace("%20", "+"), url]);
    }
    forms.extend(base64(secret.as_bytes()));
    let hex = hex(secret.as_bytes());
    forms.extend([hex.to_uppercase(), hex]);
    forms.retain(|it| it.len() >= MIN_SOUGHT_BYTES);
    forms.sort();
    forms.dedup();
    forms
}

fn json_escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Escapes a text as ASCII-only JSON.
fn ascii_escaped(text: &str) -> String {
    let mut out = String::new();
    for c in json_escaped(text).chars() {
        match c.is_ascii() {
            true => out.push(c),
            false => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out
}

/// Converts the hexadecimal digits of an escape to lower case. `piece` is a single escape, or text without
/// escapes.
fn lower_escape(piece: &str) -> String {
    if piece.starts_with('%') { piece.to_ascii_lowercase() } else { piece.to_owned() }
}

/// Returns the base64 encodings of the secret within a longer text, one for each alignment. Omits characters that
/// also depend on the surrounding text.
fn base64(secret: &[u8]) -> Vec<String> {
    let mut forms = vec![STANDARD_NO_PAD.encode(secret)];
    for before in 0..3 {
        let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.iter().copied()).collect();
        let encoded = STANDARD_NO_PAD.encode(&padded);
        let (from, to) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
        forms.extend(encoded.get(from..to).filter(|it| it.len() >= MIN_PART_BYTES).map(str::to_owned));
    }
    let for_urls: Vec<_> = forms.iter().map(|it| it.replace('+', "-").replace('/', "_")).collect();
    forms.extend(for_urls);
    forms
}

/// Decodes the escapes `\u0068`, `\x68`, `\/` and `%68`. Returns `None` if the text has no escapes.
fn unescape(text: &str) -> Option<String> {
    if !text.contains(['\\', '%']) {
        return None;
    }
    let hex = |digits: Option<&str>| digits.and_then(|it| u32::from_str_radix(it, 16).ok());
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        let (digits, length) = match (bytes[at], bytes.get(at + 1)) {
            (b'%', _) => (text.get(at + 1..at + 3), 3),
            (b'\\', Some(b'x')) => (text.get(at + 2..at + 4), 4),
            (b'\\', Some(b'u')) => (text.get(at + 2..at + 6), 6),
            (b'\\', Some(b'/' | b'\\' | b'"')) => {
                at += 1;
                (None, 1)
            }
            _ => (None, 1),
        };
        match hex(digits) {
            Some(code) if length == 6 => {
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                at += length;
            }
            Some(code) => {
                out.push(u8::try_from(code).unwrap_or_default());
                at += length;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
