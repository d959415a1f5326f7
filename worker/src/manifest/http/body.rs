//! The template of a request body.

use serde_json::Value;

use super::method::Method;
use super::template::{Text, TextPart};

/// The maximum size of a body template as JSON, in bytes. YAML aliases can expand a small file.
const MAX_TEMPLATE_BYTES: usize = 64 * 1024;

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
pub(super) fn parse(raw: Option<Value>, method: Method) -> Result<Body, String> {
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
            if template.to_string().len() > MAX_TEMPLATE_BYTES {
                return Err(format!("a template must have at most {MAX_TEMPLATE_BYTES} bytes"));
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
                [] | [TextPart::Literal(_)] => Node::Literal(Value::String(literal(&parsed)).to_string()),
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

fn literal(text: &Text) -> String {
    let literals = text.0.iter().map(|part| match part {
        TextPart::Literal(text) | TextPart::Argument(text) | TextPart::Variable(text) => text.as_str(),
    });
    literals.collect()
}
