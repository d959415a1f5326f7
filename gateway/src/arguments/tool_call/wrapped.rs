//! XML-wrapped JSON: `<toolset><skill>{...}</skill></toolset>`, `<skill>{...}</skill>`,
//! `<tool_call>{...}</tool_call>`.
//!
//! This is not XML: it has neither attributes nor entities. The text between the tags is JSON, in which `<` is an
//! ordinary character.

use openskill_proto::model_text::{Kind, Token, tokens};

use crate::arguments::parse::lenient::value_at;
use crate::arguments::parse::prose::{after_reasoning, is_part_of_more};

/// Tags that mark a call but do not name a skill.
const GENERIC_TAGS: [&str; 6] = ["tool_call", "tool_use", "function_call", "tool", "tools", "call"];

/// The maximum number of tags around the arguments.
const MAX_TAGS: usize = 4;

const SEVERAL_CALLS: &str = "found more than one call: send one at a time";
const INSIDE: &str = "the call is inside other text: write only <toolset><skill>{...}</skill></toolset>";
const UNCLOSED: &str = "a quote or a code block in the text around the call does not end: write the call alone";
const UNCLEAR_REASONING: &str = "where the reasoning ends is unclear: write the call alone";

/// A call in tags.
pub(super) struct Wrapped<'a> {
    /// The tags that are not generic, from the outside in: a toolset and a skill, or only a skill. May be empty.
    pub(super) names: Vec<&'a str>,
    /// The JSON between the tags, byte for byte.
    pub(super) arguments: &'a str,
    /// The whole text, if there is anything around the call.
    pub(super) surrounded: Option<&'a str>,
}

/// Reads a wrapped call. None if the first possible call in the text has no tags.
///
/// # Errors
/// The text has tags, but is not exactly one complete call.
pub(super) fn read(text: &str) -> Result<Option<Wrapped<'_>>, String> {
    let tokens = tokens(text);
    let (start, tokens) = after_reasoning(text, &tokens);
    let Some(at) = tokens.iter().position(|it| !it.is_prose()) else {
        // A string in other text may quote a call.
        let quotes = tokens.iter().any(|it| it.kind == Kind::Quoted && text[it.begin..it.end].contains(['<', '{']));
        let is_string = text.trim_start().starts_with(['"', '\'']);
        return if quotes && !is_string { Err(INSIDE.to_owned()) } else { Ok(None) };
    };
    let (first, later) = (tokens[at], &tokens[at + 1..]);
    let may_name = |it: &Token<'_>| !it.is_prose() && !matches!(it.kind, Kind::Value | Kind::Unclosed | Kind::Close(_));
    let is_value = text[first.begin..].starts_with(['{', '[']);
    match first.kind {
        Kind::Open(_) if is_inside(&text[start..first.begin]) => Err(INSIDE.to_owned()),
        Kind::Open(_) => read_wrapped(text, start, &tokens[at..]).map(Some),
        Kind::Value if later.iter().any(may_name) => Err(SEVERAL_CALLS.to_owned()),
        Kind::Close(_) if later.iter().any(may_name) => Err(INSIDE.to_owned()),
        Kind::Unclosed if text[first.begin..].starts_with('<') => Err(UNCLEAR_REASONING.to_owned()),
        Kind::Unclosed if !is_value && !text[..first.begin].trim().is_empty() => Err(UNCLOSED.to_owned()),
        Kind::Value | Kind::Unclosed | Kind::Close(_) => Ok(None),
        Kind::Reasoning | Kind::ReasoningEnd => Err(UNCLEAR_REASONING.to_owned()),
        _ if later.iter().all(Token::is_prose) => Ok(None),
        _ => Err(INSIDE.to_owned()),
    }
}

/// Reads the call whose first tag is the first token.
fn read_wrapped<'a>(text: &'a str, start: usize, tokens: &[Token<'a>]) -> Result<Wrapped<'a>, String> {
    let begin = tokens[0].begin;
    let (mut rest, mut end, mut tags) = (tokens, begin, Vec::new());
    while let Some((Token { kind: Kind::Open(tag), end: after, .. }, later)) = adjacent(text, end, rest) {
        if tags.len() == MAX_TAGS {
            return Err("there are too many tags around the call".to_owned());
        }
        tags.push(tag);
        (end, rest) = (after, later);
    }
    let mut arguments = "{}";
    match adjacent(text, end, rest) {
        Some((Token { kind: Kind::Close(_), .. }, _)) => {}
        Some((object, later)) if text[object.begin..].starts_with('{') => {
            value_at(text, object.begin)?;
            (arguments, end, rest) = (&text[object.begin..object.end], object.end, later);
        }
        _ => {
            let tag = tags.last().copied().unwrap_or_default();
            let form = r#"write <skill>{"name": "value", ...}</skill>, without tags around the values"#;
            return Err(format!("expected a JSON object between <{tag}> and </{tag}>: {form}"));
        }
    }
    for tag in tags.iter().rev() {
        match adjacent(text, end, rest) {
            Some((Token { kind: Kind::Close(name), end: after, .. }, later)) if name == *tag => {
                (end, rest) = (after, later);
            }
            Some((Token { kind: Kind::Open(_), .. }, _)) => return Err(SEVERAL_CALLS.to_owned()),
            _ => return Err(format!("expected </{tag}> after the arguments: was the call cut off?")),
        }
    }
    match rest.iter().find(|it| !it.is_prose()).map(|it| it.kind) {
        None if !text[end..].contains(['{', '}']) => {}
        Some(Kind::Unclosed) => return Err(UNCLOSED.to_owned()),
        _ => return Err(SEVERAL_CALLS.to_owned()),
    }
    let is_surrounded = !text[..begin].trim().is_empty() || !text[end..].trim().is_empty();
    // Only outer tags can be generic: a skill may be called `call`.
    let names: Vec<_> = tags.into_iter().skip_while(|tag| GENERIC_TAGS.contains(tag)).collect();
    if names.len() > 2 {
        return Err("expected <toolset><skill>{...}</skill></toolset>".to_owned());
    }
    Ok(Wrapped { names, arguments, surrounded: is_surrounded.then_some(&text[start..]) })
}

/// Returns the first token, if only blanks precede it, and the remaining tokens.
fn adjacent<'a, 'b>(text: &str, at: usize, tokens: &'b [Token<'a>]) -> Option<(Token<'a>, &'b [Token<'a>])> {
    let (first, later) = tokens.split_first()?;
    text[at..first.begin].trim().is_empty().then_some((*first, later))
}

/// Whether a call after this text would be part of something else, such as another call's argument.
fn is_inside(before: &str) -> bool {
    is_part_of_more(before) || before.trim_end().ends_with('>')
}
