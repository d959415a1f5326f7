//! A model's call as it wrote it: which skill, and with what arguments.
//!
//! Read are the tool-call objects of OpenAI (chat and Responses), Anthropic, Gemini and MCP, a bare `{"name": ...,
//! "arguments": ...}`, and XML-wrapped JSON: `<toolset><skill>{...}</skill></toolset>`. The arguments come out as text, byte
//! for byte as they stood there.

use serde::Deserialize;
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
    if let Some(call) = wrapped::read(text, skill)? {
        return check_name(call, skill);
    }
    let (tree, repairs) = parse::object(text)?;
    let mut call = from_json(&tree.write(), skill, 0)?;
    call.repairs.splice(0..0, repairs);
    Ok(call)
}

/// The fields of a call object, as far as any provider has them.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<&'a RawValue>,
    #[serde(borrow, rename = "functionCall", alias = "function_call", alias = "tool_call")]
    inner: Option<&'a RawValue>,
    #[serde(borrow, alias = "function_calls")]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

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
    let id = string(fields.id).or_else(|| string(fields.call_id));
    let with_id = |call: ToolCall| ToolCall { call_id: call.call_id.or(id.clone()), ..call };
    if let Some(inner) = fields.tool_calls.filter(|it| it.get().starts_with('[')) {
        return one_of(inner.get(), skill, nesting);
    }
    if let Some(inner) = fields.inner.or(fields.function).filter(|it| it.get().starts_with('{')) {
        return from_json(inner.get(), None, nesting + 1).and_then(|call| check_name(with_id(call), skill));
    }
    if string(fields.method).as_deref() == Some("tools/call")
        && let Some(inner) = fields.params
    {
        return from_json(inner.get(), None, nesting + 1).and_then(|call| check_name(call, skill));
    }
    let kind = string(fields.kind);
    let is_call = matches!(kind.as_deref(), Some("tool_use" | "function_call" | "function" | "tool_call"));
    let Some(name) = string(fields.name) else { return plain(text, skill) };
    // `{"name": "Ada", "input": "x"}` may as well be the arguments of a skill that the caller gave.
    if !is_call && skill.is_some_and(|skill| skill != name) {
        return plain(text, skill);
    }
    let mut given =
        ARGUMENTS.into_iter().zip([fields.arguments, fields.input, fields.parameters, fields.args, fields.params]);
    let arguments = given.find_map(|(_, it)| it).map_or_else(|| Ok("{}".to_owned()), written)?;
    let call_id = string(fields.call_id).or_else(|| string(fields.id));
    check_name(ToolCall { skill: Some(name), call_id, arguments, ..ToolCall::default() }, skill)
}

/// The only call of a list.
fn one_of(list: &str, skill: Option<&str>, nesting: usize) -> Result<ToolCall, String> {
    let items: Vec<&RawValue> = serde_json::from_str(list).map_err(|error| error.to_string())?;
    match items[..] {
        [one] if one.get().starts_with('{') => {
            let call = from_json(one.get(), None, nesting + 1)?;
            check_name(call, skill)
        }
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
        "null" => Ok("{}".to_owned()),
        text if text.starts_with('"') => {
            let text: String = serde_json::from_str(text).map_err(|error| error.to_string())?;
            // Some models write nothing where a tool takes nothing.
            Ok(if text.trim().is_empty() { "{}".to_owned() } else { text })
        }
        text => Ok(text.to_owned()),
    }
}

fn string(raw: Option<&RawValue>) -> Option<String> {
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
