//! Templates of requests: the URL, texts, and the body. `{name}` is an argument of the call, and `${NAME}` a variable
//! in the worker's environment.
//!
//! `{{` and `}}` produce literal braces.

use serde::Deserialize;
use serde_json::Value;
use url::Url;

/// The maximum length of a URL template, in bytes.
const MAX_URL_BYTES: usize = 8 * 1024;

/// The maximum length of a template, in bytes.
const MAX_TEMPLATE_BYTES: usize = 8 * 1024;

/// The maximum size of a body template as JSON, in bytes. YAML aliases can expand a small file.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The maximum length of a name in a template, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPart {
    /// Text without placeholders.
    Literal(String),
    /// An argument of the call, by name.
    Argument(String),
    /// A variable in the worker's environment, by name. Its value is secret.
    Variable(String),
}

/// A template as a list of its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(pub Vec<TextPart>);

impl Text {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_TEMPLATE_BYTES {
            return Err(format!("must be at most {MAX_TEMPLATE_BYTES} bytes"));
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}', '$']) {
            literal.push_str(&rest[..at]);
            rest = &rest[at..];
            let is_variable = rest.starts_with("${") && !rest.starts_with("${{");
            if let Some(brace) = ["{{", "}}"].into_iter().find(|it| rest.starts_with(it)) {
                literal.push_str(&brace[1..]);
                rest = &rest[2..];
            } else if is_variable || rest.starts_with('{') {
                let (name, after) = name(&rest[if is_variable { 2 } else { 1 }..], text)?;
                if !literal.is_empty() {
                    parts.push(TextPart::Literal(std::mem::take(&mut literal)));
                }
                parts.push(if is_variable { TextPart::Variable(name) } else { TextPart::Argument(name) });
                rest = after;
            } else if rest.starts_with('$') {
                literal.push('$');
                rest = &rest[1..];
            } else {
                return Err(format!("'{text}': '}}' has no matching '{{'; write '}}}}' for a literal brace"));
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TextPart::Literal(literal));
        }
        Ok(Self(parts))
    }

    /// Returns the names of the arguments that the template uses.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            TextPart::Argument(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the names of the variables that the template uses.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            TextPart::Variable(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

/// Converts a scalar to a template. Numbers and booleans are literal.
pub(super) fn parse_scalar(value: &Value) -> Result<Text, String> {
    match value {
        Value::String(text) => Text::parse(text),
        Value::Number(_) | Value::Bool(_) => Text::parse(&value.to_string()),
        _ => Err("must be a string, a number or a boolean".to_owned()),
    }
}

/// Splits the text after `{` into the name and the text after the closing brace.
fn name<'a>(rest: &'a str, whole: &str) -> Result<(String, &'a str), String> {
    let (name, after) = rest.split_once('}').ok_or_else(|| format!("'{whole}': a '{{' is never closed"))?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(plain) {
        return Err(format!("'{whole}': a name in braces is made of letters, digits, '_', '-' and '.'"));
    }
    Ok((name.to_owned(), after))
}

/// The template of a request body.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// No body. Arguments that no template uses become query pairs.
    None,
    /// A JSON object of the arguments that no template uses.
    Json,
    /// A form of the arguments that no template uses.
    Form,
    /// JSON from the manifest. Arguments that no template uses are not sent.
    Template(Node),
}

/// A node of a JSON body template.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Literal JSON text.
    Literal(String),
    /// An argument with its JSON type. Omitted from its object or list if the call does not set it.
    Argument(String, Text),
    /// Text that contains values. Omitted like an argument.
    Text(Text),
    /// A list. Nodes without a value are omitted.
    List(Vec<Node>),
    /// An object with fixed keys.
    Object(Vec<(String, Node)>),
}

impl Body {
    /// Returns all text templates in the body.
    pub(super) fn texts(&self) -> Vec<&Text> {
        let mut found = Vec::new();
        if let Self::Template(node) = self {
            collect(node, &mut found);
        }
        found
    }
}

fn collect<'a>(node: &'a Node, found: &mut Vec<&'a Text>) {
    match node {
        Node::Literal(_) => {}
        Node::Argument(_, text) | Node::Text(text) => found.push(text),
        Node::List(items) => items.iter().for_each(|it| collect(it, found)),
        Node::Object(fields) => fields.iter().for_each(|it| collect(&it.1, found)),
    }
}

/// Parses a body template. Rejects a body that the method does not allow.
pub(super) fn parse_body(raw: Option<Value>, method: Method) -> Result<Body, String> {
    let can_have_one = !matches!(method, Method::Get | Method::Head);
    let body = match raw {
        None if matches!(method, Method::Post | Method::Put | Method::Patch) => Body::Json,
        None => Body::None,
        Some(Value::String(word)) => match word.as_str() {
            "json" => Body::Json,
            "form" => Body::Form,
            "none" => Body::None,
            _ => return Err(format!("'{word}' is not json, form, none, or an object that is a template")),
        },
        Some(template @ (Value::Object(_) | Value::Array(_))) => {
            if template.to_string().len() > MAX_BODY_BYTES {
                return Err(format!("a template must have at most {MAX_BODY_BYTES} bytes"));
            }
            Body::Template(node(template)?)
        }
        Some(_) => return Err("must be json, form, none, or an object that is a template".to_owned()),
    };
    if body != Body::None && !can_have_one {
        return Err("a GET or HEAD request has no body".to_owned());
    }
    Ok(body)
}

fn node(value: Value) -> Result<Node, String> {
    Ok(match value {
        Value::String(text) => {
            let parsed = Text::parse(&text)?;
            match &parsed.0[..] {
                [TextPart::Argument(name)] => Node::Argument(name.clone(), parsed),
                [] => Node::Literal("\"\"".to_owned()),
                [TextPart::Literal(text)] => Node::Literal(Value::from(text.as_str()).to_string()),
                _ => Node::Text(parsed),
            }
        }
        Value::Array(items) => Node::List(items.into_iter().map(node).collect::<Result<_, _>>()?),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| Ok((name, node(value)?)));
            Node::Object(fields.collect::<Result<_, String>>()?)
        }
        scalar => Node::Literal(scalar.to_string()),
    })
}

/// The HTTP methods that a skill may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads. Has no body.
    Get,
    /// Reads only headers. Has no body.
    Head,
    /// Performs an action.
    #[default]
    Post,
    /// Replaces a resource.
    Put,
    /// Changes a resource.
    Patch,
    /// Deletes a resource. Has a body only if the manifest declares one.
    Delete,
}

/// A URL template without its query.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The scheme, host and port, with the path `/`.
    pub origin: Url,
    /// The path segments in order. Literal parts are percent-encoded.
    pub path: Vec<Text>,
}

/// Parses a URL template into the target and the query pairs.
pub(super) fn parse_target(entry: &str) -> Result<(Target, Vec<(String, Text)>), String> {
    if entry.len() > MAX_URL_BYTES {
        return Err(format!("a URL must have at most {MAX_URL_BYTES} bytes"));
    }
    let is_plain = |it: char| !it.is_control() && !it.is_whitespace() && it != '\\' && it != '#';
    if !entry.chars().all(is_plain) {
        return Err("a URL must not contain a space, a control character, '\\' or '#'".to_owned());
    }
    let (before, query) = entry.split_once('?').unwrap_or((entry, ""));
    let after_scheme = before
        .strip_prefix("https://")
        .or_else(|| before.strip_prefix("http://"))
        .ok_or("must be a server URL that begins with https:// or http://")?;
    let scheme = &before[..before.len() - after_scheme.len()];
    let (authority, path) = after_scheme.split_once('/').unwrap_or((after_scheme, ""));
    if authority.contains(['{', '}', '$']) {
        return Err("the host and the port are fixed: an argument or a variable cannot be part of them".to_owned());
    }
    if authority.contains('@') {
        return Err("a URL must not contain a user or a password: use a header with ${NAME}".to_owned());
    }
    let origin = Url::parse(&format!("{scheme}{authority}/")).map_err(|error| format!("is not a URL: {error}"))?;
    let path = path.split('/').map(segment).collect::<Result<_, _>>()?;
    let pairs = query.split('&').filter(|it| !it.is_empty()).map(pair).collect::<Result<_, _>>()?;
    Ok((Target { origin, path }, pairs))
}

fn segment(text: &str) -> Result<Text, String> {
    let segment = Text::parse(text)?;
    let mut whole = String::new();
    for part in &segment.0 {
        match part {
            TextPart::Literal(text) if !text.bytes().all(stands_in_a_path) || !escapes_are_whole(text) => {
                return Err(format!("'{text}' is not valid in a path: percent-encode it"));
            }
            TextPart::Literal(text) => whole.push_str(text),
            TextPart::Argument(_) | TextPart::Variable(_) => whole.push('x'),
        }
    }
    if is_dots(&whole) {
        return Err("a path must not contain '.' or '..'".to_owned());
    }
    Ok(segment)
}

/// Returns whether a segment is `.` or `..`, including percent-encoded dots.
pub(crate) fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

fn stands_in_a_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%".contains(&byte)
}

fn escapes_are_whole(text: &str) -> bool {
    let hex = |rest: &str, at: usize| rest.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    text.split('%').skip(1).all(|rest| hex(rest, 0) && hex(rest, 1))
}

fn pair(text: &str) -> Result<(String, Text), String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    if key.contains(['{', '}']) {
        return Err(format!("'{key}': the names in a query must be fixed"));
    }
    let value = Text::parse(value)?.0.into_iter().map(|part| match part {
        TextPart::Literal(text) => TextPart::Literal(decode(&text)),
        other => other,
    });
    Ok((decode(key), Text(value.collect())))
}

/// Decodes one part of a query.
fn decode(text: &str) -> String {
    // The parser splits at '&' and '=', but a value may contain '='.
    let text = text.replace('=', "%3D");
    url::form_urlencoded::parse(text.as_bytes()).next().map(|(key, _)| key.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_and_braces_can_be_written() {
        let text = Text::parse("Bearer ${TOKEN}/{a}{b-c} {{x}} $5 ${{y}}").unwrap();
        let literal = |text: &str| TextPart::Literal(text.to_owned());
        assert_eq!(
            text.0,
            [
                literal("Bearer "),
                TextPart::Variable("TOKEN".to_owned()),
                literal("/"),
                TextPart::Argument("a".to_owned()),
                TextPart::Argument("b-c".to_owned()),
                literal(" {x} $5 ${y}"),
            ]
        );
        assert_eq!(Text::parse("").unwrap().0, []);
        assert_eq!(parse_scalar(&serde_json::json!(5)).unwrap().0, [literal("5")]);
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for bad in ["{", "}", "{a", "a}", "{}", "{a b}", "${}", "${A", "{a{b}}", "{a/b}"] {
            assert!(Text::parse(bad).is_err(), "{bad}");
        }
        assert!(Text::parse(&"x".repeat(9000)).is_err());
    }
}
