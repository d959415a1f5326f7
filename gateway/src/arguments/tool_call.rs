//! Reads a model's raw call: finds the skill and its arguments.
//!
//! Accepts the tool-call objects of OpenAI (chat and Responses), Anthropic, Gemini and MCP, a bare
//! `{"name": ..., "arguments": ...}`, and XML-wrapped JSON: `<toolset><skill>{...}</skill></toolset>`. Returns the
//! arguments as text, byte for byte.

use std::collections::BTreeMap;

use openskill_skill::versions::split;
use serde_json::value::RawValue;

use super::kind::{Kind, Repair};
use super::parse;

mod wrapped;

use wrapped::Wrapped;

/// A raw call, as read from a model's text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolCall {
    /// The toolset that the call names, if any.
    pub toolset: Option<String>,
    /// The skill that the call names. None if the caller named it separately, and the text has only the arguments.
    pub skill: Option<String>,
    /// The id that the model's provider assigned to the call.
    pub call_id: Option<String>,
    /// The arguments as text, not validated yet.
    pub arguments: String,
    /// Deviations from plain JSON around the arguments: prose, a code fence, lenient syntax.
    pub repairs: Vec<Repair>,
}

/// The maximum nesting of call objects.
const MAX_NESTING: usize = 6;

/// The keys under which a call object has its arguments.
const ARGUMENT_KEYS: [&str; 5] = ["arguments", "input", "parameters", "args", "params"];

/// Reads a raw call. `skill` is the skill that the caller named separately, if any, without a version.
///
/// ```
/// use openskill_gateway::arguments::read_tool_call;
///
/// let call = read_tool_call("<core><echo>{\"text\": \"hi\"}</echo></core>", None).unwrap();
/// assert_eq!((call.toolset.as_deref(), call.skill.as_deref()), (Some("core"), Some("echo")));
/// assert_eq!(call.arguments, "{\"text\": \"hi\"}");
/// ```
///
/// # Errors
/// The text contains no call, more than one, or one that names another skill. The message tells the model what to
/// write instead.
pub fn read(text: &str, skill: Option<&str>) -> Result<ToolCall, String> {
    if parse::strict(text).is_ok() {
        return from_json(text, skill, 0);
    }
    if !parse::is_small(text) {
        return Err("a call this large must be plain JSON".to_owned());
    }
    match wrapped::read(text)? {
        Some(wrapped) => check_name(from_wrapped(&wrapped, skill)?, skill),
        None => from_lenient_json(text, skill),
    }
}

/// Builds the call that the tags name. If they name none, the JSON between them must be a call.
fn from_wrapped(wrapped: &Wrapped<'_>, skill: Option<&str>) -> Result<ToolCall, String> {
    let arguments = wrapped.arguments;
    let mut call = match wrapped.names[..] {
        [] if parse::strict(arguments).is_ok() => from_json(arguments, skill, 0)?,
        [] => from_lenient_json(arguments, skill)?,
        [ref toolset @ .., skill] => ToolCall {
            toolset: toolset.first().map(|toolset| (*toolset).to_owned()),
            skill: Some(skill.to_owned()),
            arguments: arguments.to_owned(),
            ..ToolCall::default()
        },
    };
    if let Some(text) = wrapped.surrounded {
        let before = serde_json::Value::from(text).to_string();
        call.repairs.insert(0, Repair::new("", Kind::Extracted, Some(before), None));
    }
    Ok(call)
}

/// Reads JSON with the deviations that models make.
fn from_lenient_json(text: &str, skill: Option<&str>) -> Result<ToolCall, String> {
    let (tree, repairs) = parse::object(text)?;
    let mut call = from_json(&tree.write(), skill, 0)?;
    call.repairs.splice(0..0, repairs);
    Ok(call)
}

/// The fields of a call object, by name.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Reads a call from valid JSON.
fn from_json(text: &str, skill: Option<&str>, nesting: usize) -> Result<ToolCall, String> {
    if nesting > MAX_NESTING {
        return Err("the call is nested too deeply".to_owned());
    }
    let text = text.trim();
    if text.starts_with('[') {
        return only_call(text, skill, nesting);
    }
    if text.starts_with('"') {
        let inner: String = serde_json::from_str(text).map_err(|error| error.to_string())?;
        return from_string(&inner, text, skill);
    }
    let Ok(fields) = serde_json::from_str::<Fields<'_>>(text) else { return bare_arguments(text, skill) };
    let marked = nesting > 0 || is_marked(&fields);
    match (from_object(&fields, nesting, marked), skill) {
        (None, _) => bare_arguments(text, skill),
        (Some(call), None) => call,
        (Some(Ok(call)), Some(given)) if call.skill.as_deref().is_some_and(|it| split(it).0 == given) => Ok(call),
        // A call of another skill. An object without a name wraps a call that has one.
        (Some(Ok(call)), Some(_)) if marked || has_arguments(&fields) || !fields.contains_key("name") => {
            check_name(call, skill)
        }
        (Some(Err(reason)), Some(_)) if marked => Err(reason),
        // Looks like a call, but is the arguments of the skill that the caller named.
        (Some(_), Some(_)) => bare_arguments(text, skill),
    }
}

/// Whether an object has an object as its arguments, like a call.
fn has_arguments(fields: &Fields<'_>) -> bool {
    ARGUMENT_KEYS.iter().any(|key| fields.get(*key).is_some_and(|it| it.get().starts_with('{')))
}

/// Whether an object is marked as a call.
fn is_marked(fields: &Fields<'_>) -> bool {
    let kind = string(fields.get("type"));
    let has_arguments = ARGUMENT_KEYS.iter().chain(&["function"]).any(|key| fields.contains_key(*key));
    let is_call = matches!(kind.as_deref(), Some("tool_use" | "function_call" | "function" | "tool_call"));
    (has_arguments && is_call) || string(fields.get("method")).as_deref() == Some("tools/call")
}

/// Reads an object as a call. None if it is not one.
fn from_object(fields: &Fields<'_>, nesting: usize, marked: bool) -> Option<Result<ToolCall, String>> {
    if string(fields.get("method")).as_deref() == Some("tools/call") {
        return Some(from_json(fields.get("params")?.get(), None, nesting + 1));
    }
    let holders = ["tool_calls", "function_calls", "function", "functionCall", "function_call", "tool_call"];
    let is_call = |it: &&&RawValue| it.get().starts_with('[') || (it.get().starts_with('{') && has_name(it));
    let mut held = holders.iter().filter_map(|key| fields.get(*key).filter(is_call));
    let name = string(fields.get("name"));
    let Some(inner) = held.next() else { return named_call(fields, name?, marked) };
    if name.is_some() || held.next().is_some() {
        return Some(Err("found more than one call: send one at a time".to_owned()));
    }
    let id = string(fields.get("id")).or_else(|| string(fields.get("call_id")));
    let call = from_json(inner.get(), None, nesting + 1);
    Some(call.map(|call| ToolCall { call_id: call.call_id.or(id), ..call }))
}

/// Whether an object has a name, like the inner object of a call.
fn has_name(object: &RawValue) -> bool {
    serde_json::from_str::<Fields<'_>>(object.get()).is_ok_and(|fields| string(fields.get("name")).is_some())
}

/// Reads a call whose name and arguments are separate keys.
fn named_call(fields: &Fields<'_>, name: String, marked: bool) -> Option<Result<ToolCall, String>> {
    let mut given = ARGUMENT_KEYS.iter().filter_map(|key| fields.get(*key));
    let arguments = given.next();
    if given.next().is_some() {
        let keys = ARGUMENT_KEYS.join(", ");
        return Some(Err(format!("the arguments are under more than one key: keep one of {keys}")));
    }
    let other_keys = ["name", "type", "id", "call_id"];
    let known = |key: &String| other_keys.contains(&key.as_str()) || ARGUMENT_KEYS.contains(&key.as_str());
    // Providers add more keys to a marked call.
    let may_have_more = marked && arguments.is_some();
    if !may_have_more && !fields.keys().all(known) {
        return Some(Err(r#"put all arguments inside "arguments": {...}"#.to_owned()));
    }
    let call_id = string(fields.get("call_id")).or_else(|| string(fields.get("id")));
    let arguments = arguments.map_or_else(|| Ok("{}".to_owned()), |it| arguments_text(it));
    Some(arguments.map(|arguments| ToolCall { skill: Some(name), call_id, arguments, ..ToolCall::default() }))
}

/// Reads the only call in a list.
fn only_call(list: &str, skill: Option<&str>, nesting: usize) -> Result<ToolCall, String> {
    let items: Vec<&RawValue> = serde_json::from_str(list).map_err(|error| error.to_string())?;
    match items[..] {
        [one] if one.get().starts_with('{') => check_name(from_json(one.get(), None, nesting + 1)?, skill),
        [] => Err("the list of calls is empty".to_owned()),
        [_] => Err("the list contains no call".to_owned()),
        _ => Err(format!("found {} calls: send one at a time", items.len())),
    }
}

/// Reads a call that is encoded as a JSON string.
fn from_string(inner: &str, outer: &str, skill: Option<&str>) -> Result<ToolCall, String> {
    if inner.trim_start().starts_with('"') {
        return Err("the call is encoded as a string more than once".to_owned());
    }
    let mut call = read(inner, skill)?;
    let encoded = Repair::new("", Kind::DoubleEncoded, Some(outer.to_owned()), None);
    call.repairs.insert(0, encoded);
    Ok(call)
}

/// Uses the whole text as the arguments.
fn bare_arguments(text: &str, skill: Option<&str>) -> Result<ToolCall, String> {
    if skill.is_none() {
        let forms = r#"write {"name": "...", "arguments": {...}} or <toolset><skill>{...}</skill></toolset>"#;
        return Err(format!("the call names no skill: {forms}, or set skill_id"));
    }
    Ok(ToolCall { arguments: text.to_owned(), ..ToolCall::default() })
}

/// Returns the arguments as text: the content of a string, or the JSON itself.
fn arguments_text(arguments: &RawValue) -> Result<String, String> {
    match arguments.get() {
        text if text.starts_with('"') => serde_json::from_str(text).map_err(|error| error.to_string()),
        text => Ok(text.to_owned()),
    }
}

fn string(raw: Option<&&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

fn check_name(call: ToolCall, skill: Option<&str>) -> Result<ToolCall, String> {
    match (&call.skill, skill) {
        (Some(named), Some(given)) if split(named).0 != given => {
            let named: String = named.chars().take(64).collect();
            Err(format!("the call names the skill '{named}' but the request names '{given}': name only one"))
        }
        _ => Ok(call),
    }
}

#[cfg(test)]
mod tests;
