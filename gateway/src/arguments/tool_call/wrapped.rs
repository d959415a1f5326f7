//! XML-wrapped JSON: `<toolset><skill>{...}</skill></toolset>`, `<skill>{...}</skill>`, `<tool_call>{...}</tool_call>`.
//!
//! This is no XML: there are no attributes and no entities, and between the tags stands JSON, in which `<` is a character
//! like any other.

use super::{ToolCall, from_json, from_odd_json};
use crate::arguments::{Kind, Repair, parse};

/// Tags that say that there is a call, and not which.
const GENERIC: [&str; 6] = ["tool_call", "tool_use", "function_call", "tool", "tools", "call"];

/// The longest name of a tag.
const MAX_NAME: usize = 64;

/// Tags around what a model thought before it called. What stands in them is no call.
const THOUGHTS: [&str; 2] = ["think", "thinking"];

/// How many tags may stand around the arguments.
const MAX_TAGS: usize = 4;

/// Reads a wrapped call; none if the text is nothing of the kind.
pub(super) fn read(text: &str, skill: Option<&str>) -> Result<Option<ToolCall>, String> {
    let (skipped, text) = after_thoughts(text);
    let Some(begin) = first_tag(text) else { return Ok(None) };
    if text[..begin].contains('{') {
        return Ok(None);
    }
    // A tag that stands within something else, such as another call's argument, names nothing.
    let within = text[..begin].trim_end().ends_with(['"', '\'', '(', '=', '>', ',', '[', '\\']);
    if within || has_tag(&text[..begin]) {
        return Err(
            "the call stands within something that can't be read: write nothing but <toolset><skill>{...}".to_owned()
        );
    }
    let mut at = begin;
    let mut tags = Vec::new();
    while let Some(tag) = opening(&text[at..]) {
        if tags.len() == MAX_TAGS {
            return Err("there are too many tags around the call".to_owned());
        }
        at += tag.len() + 2;
        tags.push(tag);
        at = blank(text, at);
    }
    let (arguments, mut end) = arguments(text, at, &tags)?;
    for tag in tags.iter().rev() {
        end = blank(text, end);
        match text[end..].strip_prefix("</").and_then(|rest| rest.strip_prefix(tag)).map(|rest| rest.starts_with('>')) {
            Some(true) => end += tag.len() + 3,
            _ if opening(&text[end..]).is_some() => {
                return Err("there is more than one call: send each on its own".to_owned());
            }
            _ => return Err(format!("expected </{tag}> after the arguments: was the call cut off?")),
        }
    }
    if has_tag(&text[end..]) || text[end..].contains('{') {
        return Err("there is more than one call: send each on its own".to_owned());
    }
    let mut call = named(&tags, arguments, skill)?;
    if skipped || !text[..begin].trim().is_empty() || !text[end..].trim().is_empty() {
        let whole = serde_json::Value::from(text).to_string();
        call.repairs.insert(0, Repair::new("", Kind::Extracted, Some(whole), None));
    }
    Ok(Some(call))
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
    let (_, end, _) = parse::lenient::value_at(text, at).map_err(|fault| fault.to_string())?;
    Ok((&text[at..end], end))
}

/// Which skill the tags name; if they only say that this is a call, the object between them does.
fn named(tags: &[&str], arguments: &str, skill: Option<&str>) -> Result<ToolCall, String> {
    // Only what stands outermost says nothing: a skill may be called `call`.
    let outer = tags.iter().take_while(|tag| GENERIC.contains(tag)).count();
    let names: Vec<_> = tags[outer..].iter().collect();
    let call = |toolset: Option<&str>, skill: &str| ToolCall {
        toolset: toolset.map(str::to_owned),
        skill: Some(skill.to_owned()),
        arguments: arguments.to_owned(),
        ..ToolCall::default()
    };
    match names[..] {
        [skill] => Ok(call(None, skill)),
        [toolset, skill] => Ok(call(Some(toolset), skill)),
        [] if parse::strict(arguments).is_ok() => from_json(arguments, skill, 0),
        [] => from_odd_json(arguments, skill),
        _ => Err("expected <toolset><skill>{...}</skill></toolset>".to_owned()),
    }
}

/// The text behind a model's thoughts, and whether there were any.
fn after_thoughts(text: &str) -> (bool, &str) {
    for tag in THOUGHTS {
        // Some templates give the opening tag themselves.
        if let Some((thoughts, rest)) = text.split_once(&format!("</{tag}>")) {
            let begins = thoughts.trim_start().starts_with(&format!("<{tag}>"));
            if begins || !has_tag(thoughts) {
                return (true, rest);
            }
        }
    }
    (false, text)
}

/// Whether anything in a text looks like a tag, also one with attributes or one that closes.
fn has_tag(text: &str) -> bool {
    let follows =
        |at: usize| text[at + 1..].starts_with(|it: char| it.is_ascii_alphabetic() || matches!(it, '/' | '_' | '!'));
    text.match_indices('<').any(|(at, _)| follows(at))
}

/// Where the first opening tag begins.
fn first_tag(text: &str) -> Option<usize> {
    text.match_indices('<').map(|(at, _)| at).find(|at| opening(&text[*at..]).is_some())
}

/// The name of the opening tag that a text begins with.
fn opening(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('<')?;
    let length = rest.bytes().take(MAX_NAME + 1).position(|it| it == b'>')?;
    let name = rest.get(..length)?;
    let plain = name.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-.".contains(&it));
    (plain && name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')).then_some(name)
}

fn blank(text: &str, at: usize) -> usize {
    at + text[at..].len() - text[at..].trim_start().len()
}
