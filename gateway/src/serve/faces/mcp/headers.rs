//! The headers that repeat parts of a message, since 2026-07-28: programs on the way route by them, so a request in which the
//! two differ is refused.

use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::jsonrpc::{Code, Fault, Params};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The word of a schema that names a parameter's header.
const KEYWORD: &str = "x-mcp-header";

/// How deep parameters with headers are looked for.
const MAX_DEPTH: usize = 8;

/// A header that should be there at most once.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Only<'a> {
    None,
    One(&'a str),
    /// More than one, or no visible ASCII.
    Several,
}

/// The value of a header, without the spaces around it.
pub(super) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Only<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Only::None,
        (Some(value), None) => value.to_str().map_or(Only::Several, |it| Only::One(it.trim())),
        _ => Only::Several,
    }
}

/// Compares `Mcp-Method` and `Mcp-Name` with the message.
pub(super) fn check(headers: &HeaderMap, method: &str, params: &Params) -> Result<(), Fault> {
    if only(headers, &METHOD) != Only::One(method) {
        return Err(mismatch("Mcp-Method must be there once, and be the method of the message"));
    }
    let named = match method {
        "tools/call" | "prompts/get" => params.name.as_deref(),
        "resources/read" => params.uri.as_deref(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => params.task_id.as_deref(),
        _ => None,
    };
    let Some(named) = named else { return Ok(()) };
    match only(headers, &NAME) {
        Only::One(value) if decoded(value).as_deref() == Some(named) => Ok(()),
        _ => Err(mismatch("Mcp-Name must be there once, and be the name, the uri or the task of the message")),
    }
}

/// Compares the headers of parameters with a call's arguments, where the tool's schema asks for such headers.
pub(super) fn check_arguments(headers: &HeaderMap, schema: Option<&Value>, arguments: &str) -> Result<(), Fault> {
    let properties = schema.and_then(|it| it.get("properties")).and_then(Value::as_object);
    let Some(properties) = properties.filter(|it| has_keyword(it, 0)) else { return Ok(()) };
    // Arguments that are no JSON object are refused by the call itself.
    let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
    check_object(headers, properties, Some(&arguments), 0)
}

fn has_keyword(properties: &Map<String, Value>, depth: usize) -> bool {
    let inner =
        |it: &Value| it.get("properties").and_then(Value::as_object).is_some_and(|it| has_keyword(it, depth + 1));
    depth < MAX_DEPTH && properties.values().any(|it| it.get(KEYWORD).is_some() || inner(it))
}

fn check_object(
    headers: &HeaderMap,
    properties: &Map<String, Value>,
    arguments: Option<&Map<String, Value>>,
    depth: usize,
) -> Result<(), Fault> {
    for (name, schema) in properties {
        let argument = arguments.and_then(|it| it.get(name));
        if let Some(header) = schema.get(KEYWORD).and_then(Value::as_str) {
            check_one(headers, header, argument)?;
        }
        if let Some(inner) = schema.get("properties").and_then(Value::as_object).filter(|_| depth < MAX_DEPTH) {
            check_object(headers, inner, argument.and_then(Value::as_object), depth + 1)?;
        }
    }
    Ok(())
}

fn check_one(headers: &HeaderMap, header: &str, argument: Option<&Value>) -> Result<(), Fault> {
    // A schema with a name that is none has no header.
    let Ok(name) = HeaderName::try_from(format!("mcp-param-{header}")) else { return Ok(()) };
    let agrees = match (only(headers, &name), argument) {
        (Only::None, None | Some(Value::Null)) => true,
        (Only::One(value), Some(argument)) => decoded(value).is_some_and(|value| is_same(&value, argument)),
        _ => false,
    };
    if agrees { Ok(()) } else { Err(mismatch(&format!("{name} must be there once, and be the value of its argument"))) }
}

fn is_same(header: &str, argument: &Value) -> bool {
    match argument {
        Value::String(text) => text == header,
        Value::Number(number) => {
            number.to_string() == header || header.parse::<f64>().is_ok_and(|it| number.as_f64() == Some(it))
        }
        Value::Bool(value) => header == if *value { "true" } else { "false" },
        _ => false,
    }
}

/// A header's value: `=?base64?…?=` is base64 of UTF-8, anything else stands for itself. None if it is broken base64.
fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|it| it.strip_suffix("?=")) {
        Some(base64) => String::from_utf8(STANDARD.decode(base64).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

fn mismatch(message: &str) -> Fault {
    Fault::new(Code::HeaderMismatch, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn method_and_name_have_to_be_those_of_the_message() {
        let params = Params { name: Some("echo".to_owned()), ..Params::default() };
        let fits = |given: &[(&'static str, &str)]| check(&headers(given), "tools/call", &params).is_ok();
        assert!(fits(&[("mcp-method", "tools/call"), ("mcp-name", "echo")]));
        assert!(fits(&[("mcp-method", " tools/call "), ("mcp-name", "=?base64?ZWNobw==?=")]));
        for given in [
            &[("mcp-method", "tools/call")][..],
            &[("mcp-name", "echo")],
            &[("mcp-method", "TOOLS/CALL"), ("mcp-name", "echo")],
            &[("mcp-method", "tools/call"), ("mcp-name", "other")],
            &[("mcp-method", "tools/call"), ("mcp-name", "echo"), ("mcp-name", "echo")],
            &[("mcp-method", "tools/call"), ("mcp-name", "=?base64?ZWNobw?=")],
        ] {
            assert!(!fits(given), "{given:?}");
        }
    }

    #[test]
    fn headers_of_parameters_have_to_be_their_arguments() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "page": {"properties": {"size": {"type": "integer", "x-mcp-header": "Size"}}},
            "text": {"type": "string"},
        }});
        let fits = |given: &[(&'static str, &str)], arguments: Value| {
            check_arguments(&headers(given), Some(&schema), &arguments.to_string()).is_ok()
        };
        assert!(fits(&[], json!({"text": "a"})) && fits(&[], json!({"region": null})));
        assert!(fits(&[("mcp-param-region", "eu")], json!({"region": "eu"})));
        assert!(fits(&[("mcp-param-region", "=?base64?w7w=?=")], json!({"region": "ü"})));
        assert!(fits(&[("mcp-param-size", "5")], json!({"page": {"size": 5}})));
        for (given, arguments) in [
            (&[][..], json!({"region": "eu"})),
            (&[("mcp-param-region", "us")], json!({"region": "eu"})),
            (&[("mcp-param-region", "eu")], json!({})),
            (&[("mcp-param-region", "=?base64?w7w?=")], json!({"region": "ü"})),
            (&[("mcp-param-region", "=?base64?!?=")], json!({"region": "!"})),
            (&[], json!({"page": {"size": 5}})),
        ] {
            assert!(!fits(given, arguments.clone()), "{given:?} {arguments}");
        }
    }
}
