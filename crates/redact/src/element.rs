//! XML elements: `<password>x</password>`, with or without attributes; elements with an attribute that names the
//! secret; and CDATA sections. All functions are pure.

use crate::assignment::{AssignedKey, Separator};
use crate::classes::{DOTTED, is};
use crate::judge::{secret_part, secret_up_to};
use crate::keys::ValueKind;
use crate::value::Value;
use crate::values::looks;

/// The maximum length of an element name, in bytes.
const NAME: usize = 56;
/// The maximum length of an element's attributes, in bytes.
const ATTRIBUTES: usize = 160;
/// The maximum length of an element's text, in bytes.
const TEXT: usize = 512;

/// The marks that open and close a CDATA section.
const CDATA: (&[u8], &[u8]) = (b"<![CDATA[", b"]]>");

/// Returns the `>` of an opening tag as the separator between the element's name and its text.
pub(crate) fn element(text: &[u8], at: usize) -> Option<Separator> {
    let has_attributes = matches!(text[..at].last(), Some(b'"' | b'\''));
    let name_end = if has_attributes { name_end(text, at)? } else { at };
    let name = text[..name_end].iter().rev().take(NAME).take_while(|byte| is(**byte, DOTTED) || **byte == b':').count();
    let is_opened = name_end > name && text[name_end - name - 1] == b'<' && name > 0;
    let is_filled = match text.get(at + 1) {
        None => false,
        Some(b'<') => text[at + 1..].starts_with(CDATA.0),
        Some(_) => true,
    };
    (is_opened && is_filled).then_some(Separator { name_end, value_start: at + 1, is_colon: false })
}

/// Where the name of an element ends, before its attributes.
fn name_end(text: &[u8], at: usize) -> Option<usize> {
    let before = &text[at.saturating_sub(ATTRIBUTES)..at];
    let name = &before[memchr::memrchr(b'<', before)? + 1..];
    let length = name.iter().take(NAME).position(u8::is_ascii_whitespace)?;
    Some(at - name.len() + length)
}

/// Returns the text of an element if it is a secret: up to the next tag, or the content of a CDATA section.
pub(crate) fn text(text: &[u8], key: AssignedKey, separator: Separator) -> Option<(usize, usize)> {
    if !key.kind.is_certain() {
        return None;
    }
    let space = |byte: &&u8| byte.is_ascii_whitespace();
    let start = separator.value_start + text[separator.value_start..].iter().take(TEXT).take_while(space).count();
    let is_below = text[separator.value_start..start].contains(&b'\n');
    let (rest, name) = (&text[start..], &text[key.start..key.end]);
    if rest.starts_with(CDATA.0) {
        let start = start + CDATA.0.len();
        return secret_up_to(text, start, |text| section_end(text, start), key.kind, name);
    }
    let near = &rest[..rest.len().min(TEXT)];
    let length = near.iter().position(|byte| matches!(byte, b'<' | b'\n' | b'"'))?;
    let tag = length + near[length..].iter().take_while(space).count();
    let closes = if is_below { near[tag..].starts_with(b"</") } else { near[length] == b'<' };
    let end = start + length;
    let start = if is_below { start } else { separator.value_start };
    let value = Value { start, end, next: end, is_quoted: true };
    if closes { secret_part(text, value, key.kind, name) } else { None }
}

/// Where the CDATA section ends whose text begins at `start`. Text that contains `]]>` takes two sections.
fn section_end(text: &[u8], start: usize) -> usize {
    let section = &text[start..];
    let is_last = |end: &usize| !section[end + CDATA.1.len()..].starts_with(CDATA.0);
    start + memchr::memmem::find_iter(section, CDATA.1).find(is_last).unwrap_or(section.len())
}

/// Returns the text of an element that an attribute marks as a secret: `<string name="api_key">x</string>`.
pub(crate) fn text_by_attribute(text: &[u8], name: Value, kind: ValueKind) -> Option<(usize, usize)> {
    let rest = text.get(name.next..text.len().min(name.next + TEXT))?.strip_prefix(b">")?;
    let length = memchr::memchr(b'<', rest).filter(|at| rest[*at..].starts_with(b"</"))?;
    let word = rest[..length].trim_ascii();
    let has_look = looks::is_chosen(word) && word.iter().any(u8::is_ascii_digit) && !word.contains(&b' ');
    let start = name.next + 1;
    let value = Value { start, end: start + length, next: start + length, is_quoted: true };
    if has_look { secret_part(text, value, kind, b"") } else { None }
}
