//! The headers that repeat parts of a message, since revision 2026-07-28. Proxies route by them, so a request whose
//! headers and message differ is refused.

use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::jsonrpc::{Code, Params, RpcError};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The schema keyword that names a parameter's header.
const KEYWORD: &str = "x-mcp-header";

/// The maximum depth at which the schema is searched for parameters with headers.
const MAX_DEPTH: usize = 8;

/// The value of a header that may occur at most once.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Only<'a> {
    None,
    One(&'a str),
    /// More than one value, or one that is not visible ASCII.
    Several,
}

/// Reads a header, without surrounding spaces.
pub(super) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Only<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Only::None,
        (Some(value), None) => value.to_str().map_or(Only::Several, |it| Only::One(it.trim())),
        _ => Only::Several,
    }
}

/// Rejects a request whose `Mcp-Method` or `Mcp-Name` differs from its message.
pub(super) fn check(headers: &HeaderMap, method: &str, params: &Params) -> Result<(), RpcError> {
    if only(headers, &METHOD) != Only::One(method) {
        return Err(mismatch("Mcp-Method must be sent once and must equal the message's method"));
    }
    let named = match method {
        "tools/call" | "prompts/get" => params.name.as_deref(),
        "resources/read" => params.uri.as_deref(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => params.task_id.as_deref(),
        _ => None,
    };
    let Some(named) = named else { return Ok(()) };
    match only(headers, &NAME) {
        Only::One(value) if decode(value).as_deref() == Some(named) => Ok(()),
        _ => Err(mismatch("Mcp-Name must be sent once and must equal the message's name, uri or task")),
    }
}

/// Rejects a call whose parameter headers differ from its arguments, if the tool's schema declares such headers.
pub(super) fn check_arguments(headers: &HeaderMap, schema: Option<&Value>, arguments: &str) -> Result<(), RpcError> {
    let properties = schema.and_then(|it| it.get("properties")).and_then(Value::as_object);
    let Some(properties) = properties.filter(|it| has_keyword(it, 0)) else { return Ok(()) };
    // The call itself refuses arguments that are not a JSON object.
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
) -> Result<(), RpcError> {
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

fn check_one(headers: &HeaderMap, header: &str, argument: Option<&Value>) -> Result<(), RpcError> {
    // A parameter with an invalid header name has no header.
    let Ok(name) = HeaderName::try_from(format!("mcp-param-{header}")) else { return Ok(()) };
    let agrees = match (only(headers, &name), argument) {
        (Only::None, None | Some(Value::Null)) => true,
        (Only::One(value), Some(argument)) => decode(value).is_some_and(|value| is_same(&value, argument)),
        _ => false,
    };
    if agrees {
        Ok(())
    } else {
        Err(mismatch(&format!("{name} must be sent once and must equal the value of its argument")))
    }
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

/// Decodes a header value: `=?base64?…?=` is base64 of UTF-8, anything else is literal. None if the base64 is
/// invalid.
fn decode(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|it| it.strip_suffix("?=")) {
        Some(base64) => String::from_utf8(STANDARD.decode(base64).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

fn mismatch(message: &str) -> RpcError {
    RpcError::new(Code::HeaderMismatch, message)
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
