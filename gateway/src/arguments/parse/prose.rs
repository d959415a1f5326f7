//! Finds the JSON object in a model's prose, if there is exactly one and it is not part of another value.

use openskill_proto::model_text::{Kind, Token, tokens};

use super::lenient::value_at;
use crate::arguments::tree::Tree;

/// Reads the only object in a text that is not JSON as a whole. Returns the object, and whether it deviates from
/// JSON. None if the text contains no object, or the object is part of something else.
///
/// # Errors
/// The object can't be parsed, or the text may contain more than one.
pub(super) fn in_prose(text: &str) -> Result<Option<(Tree, bool)>, String> {
    let tokens = tokens(text);
    let (start, tokens) = after_reasoning(text, &tokens);
    let is_value = |it: &&Token<'_>| matches!(it.kind, Kind::Value | Kind::Unclosed);
    let Some(value) = tokens.iter().find(is_value) else { return Ok(None) };
    if !text[value.begin..].starts_with('{') || is_part_of_more(&text[start..value.begin]) {
        return Ok(None);
    }
    let (tree, end, deviates) = value_at(text, value.begin)?;
    let after = &text[end..];
    if after.contains(['{', '}']) {
        return Err("found more than one object: send one call at a time".to_owned());
    }
    let is_unclosed = tokens.last().is_some_and(|it| it.kind == Kind::Unclosed);
    let continues = after.trim_start().starts_with([',', ':', ']', ')', '"', '\'', '+', '*', '/', '=', '|', '\\']);
    Ok((!is_unclosed && !continues).then_some((tree, deviates)))
}

/// Returns where a model's reasoning ends, and the tokens after it. Reasoning always comes first.
pub(in crate::arguments) fn after_reasoning<'a, 'b>(text: &str, tokens: &'b [Token<'a>]) -> (usize, &'b [Token<'a>]) {
    let at = tokens.iter().position(|it| !it.is_prose()).unwrap_or_default();
    match tokens.get(at).map(|it| (it.kind, &text[..it.begin], it.end)) {
        Some((Kind::Reasoning, before, end)) if before.trim().is_empty() => (end, &tokens[at + 1..]),
        Some((Kind::ReasoningEnd, before, end)) if !is_within(before) => (end, &tokens[at + 1..]),
        _ => (0, tokens),
    }
}

/// Whether the text before a call shows that the call is part of something else: an assignment, a list, or what
/// [`is_within`] detects.
pub(in crate::arguments) fn is_part_of_more(before: &str) -> bool {
    is_within(before) || is_after_keys(before) || before.trim_end().ends_with(['[', '(', ',', '"', '\'', '=', '\\'])
}

/// Whether a text ends within brackets, or within an object that lost its braces.
fn is_within(text: &str) -> bool {
    let is_open = |open, close| text.matches(open).count() > text.matches(close).count();
    text.contains(['{', '}'])
        || is_open('(', ')')
        || is_open('[', ']')
        || ["\":", "\" :", "':", "' :"].iter().any(|it| text.contains(it))
}

/// Whether the text before an object ends with a YAML key such as `options:`, below lines with other keys.
fn is_after_keys(before: &str) -> bool {
    let is_word = |key: &str| key.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
    let has_key =
        |line: &str| line.trim_start().split_once(':').is_some_and(|(key, _)| !key.is_empty() && is_word(key));
    let mut lines = before.lines().rev();
    lines.next().is_some_and(|line| line.trim_end().ends_with(':') && has_key(line)) && lines.any(has_key)
}
