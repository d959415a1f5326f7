//! A model's call as it wrote it: which skill, and with what arguments.
//!
//! Read are the tool-call objects of OpenAI (chat and Responses), Anthropic, Gemini and MCP, a bare `{"name": ...,
//! "arguments": ...}`, and XML-wrapped JSON: `<toolset><skill>{...}</skill></toolset>`. The arguments come out as text, byte
//! for byte as they stood there.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{Repair, parse};

mod wrapped;

/// What a raw call says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolCall {
    /// The toolset it names, if it names one.
    pub toolset: Option<String>,
    /// The skill it names. None only if the caller gave one: then the text may be the arguments alone.
    pub skill: Option<String>,
    /// The id that the model's provider gave the call.
    pub call_id: Option<String>,
    /// The arguments as text, not looked at yet.
    pub arguments: String,
    /// What had to be let be to read this far: prose, a fence, an odd way to write JSON.
    pub repairs: Vec<Repair>,
}

/// How deep call objects may stand in one another.
const MAX_NESTING: usize = 6;

/// Keys under which arguments stand in a call object.
const ARGUMENTS: [&str; 5] = ["arguments", "input", "parameters", "args", "params"];

/// Reads a raw call. `skill` is the one the caller gave beside it, if any.
///
/// # Errors
/// The text holds no call, more than one, or one that names another skill: what to do, in words.
pub fn read(text: &str, skill: Option<&str>) -> Result<ToolCall, String> {
    if parse::strict(text).is_ok() {
        return from_json(text, skill, 0);
    }
    if !parse::is_small(text) {
        return Err("a call of this size has to be plain JSON".to_owned());
    }
    match wrapped::read(text, skill)? {
        Some(call) => check_name(call, skill),
        None => from_odd_json(text, skill),
    }
}

/// Reads JSON as models write it.
fn from_odd_json(text: &str, skill: Option<&str>) -> Result<ToolCall, String> {
    let (tree, repairs) = parse::object(text)?;
    let mut call = from_json(&tree.write(), skill, 0)?;
    call.repairs.splice(0..0, repairs);
    Ok(call)
}

/// A call object, field by field.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Reads valid JSON.
fn from_json(text: &str, skill: Option<&str>, nesting: usize) -> Result<ToolCall, String> {
    if nesting > MAX_NESTING {
        return Err("the call is wrapped too often".to_owned());
    }
    let text = text.trim();
    if text.starts_with('[') {
        return one_of(text, skill, nesting);
    }
    if text.starts_with('"') {
        let inner: String = serde_json::from_str(text).map_err(|error| error.to_string())?;
        return read_inner(&inner, text, skill);
    }
    let Ok(fields) = serde_json::from_str::<Fields<'_>>(text) else { return plain(text, skill) };
    let marked = nesting > 0 || is_marked(&fields);
    match (of_object(&fields, nesting, marked), skill) {
        (None, _) => plain(text, skill),
        (Some(call), None) => call,
        (Some(Ok(call)), Some(given)) if call.skill.as_deref() == Some(given) => Ok(call),
        // It is a call, of something else. What has no name itself holds one that has.
        (Some(Ok(call)), Some(_)) if marked || has_object(&fields) || !fields.contains_key("name") => {
            check_name(call, skill)
        }
        (Some(Err(reason)), Some(_)) if marked => Err(reason),
        // It looks like a call, and is the arguments of the skill that the caller gave.
        (Some(_), Some(_)) => plain(text, skill),
    }
}

/// Whether an object holds arguments, as a call does.
fn has_object(fields: &Fields<'_>) -> bool {
    ARGUMENTS.iter().any(|key| fields.get(*key).is_some_and(|it| it.get().starts_with('{')))
}

/// Whether an object says of itself that it is a call.
fn is_marked(fields: &Fields<'_>) -> bool {
    let kind = string(fields.get("type"));
    let has_arguments = ARGUMENTS.iter().chain(&["function"]).any(|key| fields.contains_key(*key));
    let of_kind = matches!(kind.as_deref(), Some("tool_use" | "function_call" | "function" | "tool_call"));
    (has_arguments && of_kind) || string(fields.get("method")).as_deref() == Some("tools/call")
}

/// The call that an object is; none if it is nothing of the kind.
fn of_object(fields: &Fields<'_>, nesting: usize, marked: bool) -> Option<Result<ToolCall, String>> {
    if string(fields.get("method")).as_deref() == Some("tools/call") {
        return Some(from_json(fields.get("params")?.get(), None, nesting + 1));
    }
    let holders = ["tool_calls", "function_calls", "function", "functionCall", "function_call", "tool_call"];
    let is_call = |it: &&&RawValue| it.get().starts_with('[') || (it.get().starts_with('{') && names_something(it));
    let mut held = holders.iter().filter_map(|key| fields.get(*key).filter(is_call));
    let name = string(fields.get("name"));
    let Some(inner) = held.next() else { return named(fields, name?, marked) };
    if name.is_some() || held.next().is_some() {
        return Some(Err("there is more than one call in it: send one at a time".to_owned()));
    }
    let id = string(fields.get("id")).or_else(|| string(fields.get("call_id")));
    let call = from_json(inner.get(), None, nesting + 1);
    Some(call.map(|call| ToolCall { call_id: call.call_id.or(id), ..call }))
}

/// Whether an object has a name, as the inner part of a call has.
fn names_something(object: &RawValue) -> bool {
    serde_json::from_str::<Fields<'_>>(object.get()).is_ok_and(|fields| string(fields.get("name")).is_some())
}

/// An object with a name, and with its arguments under one key.
fn named(fields: &Fields<'_>, name: String, marked: bool) -> Option<Result<ToolCall, String>> {
    let mut given = ARGUMENTS.iter().filter_map(|key| fields.get(*key));
    let arguments = given.next();
    if given.next().is_some() {
        let keys = ARGUMENTS.join(", ");
        return Some(Err(format!("the arguments stand under more than one key: keep one of {keys}")));
    }
    let beside = ["name", "type", "id", "call_id"];
    let known = |key: &String| beside.contains(&key.as_str()) || ARGUMENTS.contains(&key.as_str());
    // Providers put more beside a call that is marked as one.
    let may_have_more = marked && arguments.is_some();
    if !may_have_more && !fields.keys().all(known) {
        return Some(Err(r#"write the arguments into "arguments": {...}, and nothing beside it"#.to_owned()));
    }
    let call_id = string(fields.get("call_id")).or_else(|| string(fields.get("id")));
    let arguments = arguments.map_or_else(|| Ok("{}".to_owned()), |it| written(it));
    Some(arguments.map(|arguments| ToolCall { skill: Some(name), call_id, arguments, ..ToolCall::default() }))
}

/// The only call of a list.
fn one_of(list: &str, skill: Option<&str>, nesting: usize) -> Result<ToolCall, String> {
    let items: Vec<&RawValue> = serde_json::from_str(list).map_err(|error| error.to_string())?;
    match items[..] {
        [one] if one.get().starts_with('{') => check_name(from_json(one.get(), None, nesting + 1)?, skill),
        [] => Err("the list of calls is empty".to_owned()),
        [_] => Err("the list holds no call".to_owned()),
        _ => Err(format!("there are {} calls in one: send each on its own", items.len())),
    }
}

/// A call that had been written into a string.
fn read_inner(inner: &str, outer: &str, skill: Option<&str>) -> Result<ToolCall, String> {
    if inner.trim_start().starts_with('"') {
        return Err("the call is written into a string more than once".to_owned());
    }
    let mut call = read(inner, skill)?;
    let encoded = Repair::new("", super::Kind::DoubleEncoded, Some(outer.to_owned()), None);
    call.repairs.insert(0, encoded);
    Ok(call)
}

/// The text is the arguments themselves.
fn plain(text: &str, skill: Option<&str>) -> Result<ToolCall, String> {
    if skill.is_none() {
        let forms = r#"write {"name": "...", "arguments": {...}} or <toolset><skill>{...}</skill></toolset>"#;
        return Err(format!("the call names no skill: {forms}, or give skill_id beside it"));
    }
    Ok(ToolCall { arguments: text.to_owned(), ..ToolCall::default() })
}

/// Arguments as text: a string holds them, or they stand there themselves.
fn written(arguments: &RawValue) -> Result<String, String> {
    match arguments.get() {
        text if text.starts_with('"') => {
            let text: String = serde_json::from_str(text).map_err(|error| error.to_string())?;
            // Some models write nothing where a tool takes nothing.
            Ok(if text.trim().is_empty() { "{}".to_owned() } else { text })
        }
        text => Ok(text.to_owned()),
    }
}

fn string(raw: Option<&&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

fn check_name(call: ToolCall, skill: Option<&str>) -> Result<ToolCall, String> {
    match (&call.skill, skill) {
        (Some(named), Some(given)) if named != given => {
            let named: String = named.chars().take(64).collect();
            Err(format!("the call names the skill '{named}', the request '{given}': give one of them"))
        }
        _ => Ok(call),
    }
}

#[cfg(test)]
mod tests;
