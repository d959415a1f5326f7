//! How secrets may be written, and text without them. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::Value;

use super::json;
use super::reference::{MIN_SOUGHT_BYTES, mark, reference};

/// The shortest part of a secret that is looked for. A secret of several lines is often written line by line.
const MIN_PART_BYTES: usize = 8;

/// What stands for a secret without a name.
const MASK: &str = "***";

/// How deep text is looked for in text, such as JSON in a JSON string.
const MAX_DEPTH: usize = 4;

/// The forms of some secrets.
#[derive(Default)]
pub(super) struct Forms {
    secrets: Vec<Secret>,
    /// Longest first, each with what is written instead.
    all: Vec<(String, String)>,
}

struct Secret {
    mark: String,
    name: String,
    text: String,
}

impl Forms {
    /// Of secrets with their names.
    pub(super) fn new<'a>(secrets: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut forms = Self::default();
        for (name, text) in secrets {
            let mark = mark(name);
            forms.all.extend(written(text).into_iter().map(|form| (form, mark.clone())));
            // What was concealed before stays as it is.
            forms.all.extend([mark.clone(), reference(name)].map(|form| (form.clone(), form)));
            forms.secrets.push(Secret { mark, name: name.to_owned(), text: text.to_owned() });
        }
        forms.all.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
        forms
    }

    /// Of secrets without names: `***` stands for each.
    pub(super) fn masked<'a>(secrets: impl Iterator<Item = &'a str>) -> Self {
        let mut forms = Self::default();
        for text in secrets.filter(|it| !it.is_empty()) {
            if text.len() >= MIN_SOUGHT_BYTES {
                forms.all.extend(written(text).into_iter().map(|form| (form, MASK.to_owned())));
            }
            forms.secrets.push(Secret { mark: MASK.to_owned(), name: String::new(), text: text.to_owned() });
        }
        forms.all.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
        forms
    }

    /// Text without the secrets.
    pub(super) fn conceal(&self, text: &str) -> String {
        self.concealed(text, 0, &|it| Value::from(it.mark.as_str()).to_string())
    }

    /// JSON text without the secrets: where one is a whole string, its reference.
    pub(super) fn refer(&self, json: &str) -> String {
        self.concealed(json, 0, &|it| reference(&it.name))
    }

    fn concealed(&self, text: &str, depth: usize, whole: &dyn Fn(&Secret) -> String) -> String {
        if self.secrets.is_empty() {
            return text.to_owned();
        }
        let nested = |inner: &str| self.concealed(inner, depth + 1, &|it| Value::from(it.mark.as_str()).to_string());
        let whole = |value: &str| self.secret(value).map(whole);
        let is_name = |name: &str| self.secrets.iter().any(|it| it.name == name);
        let in_json = if depth < MAX_DEPTH { json::replace(text, &is_name, &whole, &nested) } else { None };
        in_json.unwrap_or_else(|| self.without(text))
    }

    /// The secret that a whole string or number is. A number has no leading zeros.
    fn secret(&self, value: &str) -> Option<&Secret> {
        let number = value.strip_suffix(".0").unwrap_or(value);
        let is_number = number.len() >= MIN_SOUGHT_BYTES && number.bytes().all(|it| it.is_ascii_digit());
        let is = |it: &&Secret| it.text == value || is_number && it.text.trim_start_matches('0') == number;
        self.secrets.iter().find(is)
    }

    /// Text that is no JSON, with each form replaced, the first and longest first.
    fn without(&self, text: &str) -> String {
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
        // One that is escaped in a way of its own: nothing of the text is shown.
        let Some(unescaped) = unescaped(&out) else { return out };
        let unmarked = self.secrets.iter().fold(unescaped, |text, it| text.replace(&it.mark, ""));
        let spaced = unmarked.replace('+', " ");
        let is_in = |it: &&Secret| unmarked.contains(&it.text) || spaced.contains(&it.text);
        let hidden = self.secrets.iter().filter(|it| it.text.len() >= MIN_SOUGHT_BYTES).find(is_in);
        hidden.map_or(out, |it| it.mark.clone())
    }

    /// How many bytes at the end of a text may be the beginning of a form.
    pub(super) fn begun_at_end(&self, text: &str) -> usize {
        let begun = |form: &str| {
            (1..form.len().min(text.len() + 1)).rev().find(|n| text.as_bytes().ends_with(&form.as_bytes()[..*n]))
        };
        self.all.iter().filter_map(|(form, _)| begun(form)).max().unwrap_or(0)
    }
}

/// The ways in which a secret is written: as it is, escaped, encoded for URLs, as base64 and hexadecimal, and its lines.
fn written(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    let parts = secret.split_whitespace().filter(|part| part.len() >= MIN_PART_BYTES && part.len() < secret.len());
    forms.extend(parts.map(str::to_owned));
    let escaped = json_escaped(secret);
    forms.extend([json_escaped(&escaped), escaped.replace('/', "\\/"), escaped]);
    let ascii = ascii_escaped(secret);
    forms.extend([json_escaped(&ascii), ascii]);
    for url in [percent_encoded(secret, true), percent_encoded(secret, false)] {
        forms.extend([url.replace("%20", "+"), url]);
    }
    forms.extend(base64(secret.as_bytes()));
    let hex: String = secret.bytes().map(|it| format!("{it:02x}")).collect();
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

/// As JSON in ASCII has it.
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

fn percent_encoded(text: &str, is_upper: bool) -> String {
    let byte = |it: u8| match it {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(it).to_string(),
        _ if is_upper => format!("%{it:02X}"),
        _ => format!("%{it:02x}"),
    };
    text.bytes().map(byte).collect()
}

/// Base64 of the secret within a longer text, wherever it begins there: the characters that depend on it alone.
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

/// Text with its escapes read: `\u0068`, `\x68`, `\/` and `%68`. None if it has none.
fn unescaped(text: &str) -> Option<String> {
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
