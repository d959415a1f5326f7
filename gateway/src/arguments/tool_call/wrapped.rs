//! XML-wrapped JSON: `<toolset><skill>{...}</skill></toolset>`, `<skill>{...}</skill>`, `<tool_call>{...}</tool_call>`.
//!
//! This is not XML: there are no attributes and no entities. The text between the tags is JSON, in which `<` is an ordinary
//! character.

use crate::arguments::parse;

/// Tags that mark a call but do not name a skill.
const GENERIC_TAGS: [&str; 6] = ["tool_call", "tool_use", "function_call", "tool", "tools", "call"];

/// Tags around a model's reasoning. Their content is not a call.
const REASONING_TAGS: [&str; 2] = ["think", "thinking"];

/// The longest tag name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// How many tags may surround the arguments.
const MAX_TAGS: usize = 4;

const SEVERAL_CALLS: &str = "found more than one call: send one at a time";

/// A wrapped call.
pub(super) struct Wrapped<'a> {
    /// The tags that are not generic, from the outside in: a toolset and a skill, a skill, or none.
    pub(super) names: Vec<&'a str>,
    /// The JSON between the tags, byte for byte.
    pub(super) arguments: &'a str,
    /// The text with the call and what surrounds it, if anything does.
    pub(super) surrounded: Option<&'a str>,
}

/// Reads a wrapped call; none if the text has no tags.
///
/// # Errors
/// The text has tags but is not exactly one complete call.
pub(super) fn read(text: &str) -> Result<Option<Wrapped<'_>>, String> {
    let (has_reasoning, text) = after_reasoning(text);
    let Some(begin) = first_tag(text) else { return Ok(None) };
    if text[..begin].contains('{') {
        return Ok(None);
    }
    // A tag inside something else, such as another call's argument, names nothing.
    let is_inside = text[..begin].trim_end().ends_with(['"', '\'', '(', '=', '>', ',', '[', '\\']);
    if is_inside || has_tag(&text[..begin]) {
        return Err("the call is inside other text: write only <toolset><skill>{...}</skill></toolset>".to_owned());
    }
    let mut at = begin;
    let mut tags = Vec::new();
    while let Some(tag) = opening(&text[at..]) {
        if tags.len() == MAX_TAGS {
            return Err("there are too many tags around the call".to_owned());
        }
        at += tag.len() + 2;
        tags.push(tag);
        at = skip_blanks(text, at);
    }
    let (arguments, mut end) = arguments(text, at, &tags)?;
    for tag in tags.iter().rev() {
        end = skip_blanks(text, end);
        match text[end..].strip_prefix("</").and_then(|rest| rest.strip_prefix(tag)).map(|rest| rest.starts_with('>')) {
            Some(true) => end += tag.len() + 3,
            _ if opening(&text[end..]).is_some() => return Err(SEVERAL_CALLS.to_owned()),
            _ => return Err(format!("expected </{tag}> after the arguments: was the call cut off?")),
        }
    }
    if has_tag(&text[end..]) || text[end..].contains('{') {
        return Err(SEVERAL_CALLS.to_owned());
    }
    let is_surrounded = has_reasoning || !text[..begin].trim().is_empty() || !text[end..].trim().is_empty();
    // Only outer tags can be generic: a skill may be called `call`.
    let names: Vec<_> = tags.into_iter().skip_while(|tag| GENERIC_TAGS.contains(tag)).collect();
    if names.len() > 2 {
        return Err("expected <toolset><skill>{...}</skill></toolset>".to_owned());
    }
    Ok(Some(Wrapped { names, arguments, surrounded: is_surrounded.then_some(text) }))
}

/// The JSON between the tags, byte for byte, and where it ends.
fn arguments<'a>(text: &'a str, at: usize, tags: &[&str]) -> Result<(&'a str, usize), String> {
    if text[at..].starts_with("</") {
        return Ok(("{}", at));
    }
    if !text[at..].starts_with('{') {
        let tag = tags.last().copied().unwrap_or_default();
        let form = r#"write <skill>{"name": "value", ...}</skill>, without tags around the values"#;
        return Err(format!("expected a JSON object between <{tag}> and </{tag}>: {form}"));
    }
    let (_, end, _) = parse::lenient::value_at(text, at).map_err(|error| error.to_string())?;
    Ok((&text[at..end], end))
}

/// The text after a model's reasoning, and whether there was any.
fn after_reasoning(text: &str) -> (bool, &str) {
    for tag in REASONING_TAGS {
        // Some chat templates write the opening tag themselves, so it may be absent.
        if let Some((reasoning, rest)) = text.split_once(&format!("</{tag}>")) {
            let has_opening = reasoning.trim_start().starts_with(&format!("<{tag}>"));
            if has_opening || !has_tag(reasoning) {
                return (true, rest);
            }
        }
    }
    (false, text)
}

/// Whether anything in a text looks like a tag, including closing tags and tags with attributes.
fn has_tag(text: &str) -> bool {
    let is_tag =
        |at: usize| text[at + 1..].starts_with(|it: char| it.is_ascii_alphabetic() || matches!(it, '/' | '_' | '!'));
    text.match_indices('<').any(|(at, _)| is_tag(at))
}

/// Where the first opening tag begins.
fn first_tag(text: &str) -> Option<usize> {
    text.match_indices('<').map(|(at, _)| at).find(|at| opening(&text[*at..]).is_some())
}

/// The name of the opening tag that a text begins with.
fn opening(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('<')?;
    let length = rest.bytes().take(MAX_NAME_BYTES + 1).position(|it| it == b'>')?;
    let name = rest.get(..length)?;
    let is_plain = name.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-.".contains(&it));
    (is_plain && name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')).then_some(name)
}

fn skip_blanks(text: &str, at: usize) -> usize {
    at + text[at..].len() - text[at..].trim_start().len()
}
