//! What a skill asks for: a form, or something else that callers who speak MCP can give.

use openskill_proto::v1::InputKind;
use serde_json::{Value, json};

/// A question, as its skill asks it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// What is asked for.
    pub kind: InputKind,
    /// The question, for a person. May be empty unless it is asked for a form or a URL.
    pub message: String,
    /// JSON Schema of a form's content, an object; without one any object is taken.
    pub schema: Option<Value>,
    /// The parameters of a kind that has some: `sampling/createMessage` as MCP writes them, or the `url`.
    pub params: Option<Value>,
    /// The skill's own name for the question. May be empty.
    pub key: String,
}

impl Ask {
    /// Asks the user to fill in a form.
    pub fn form(message: impl Into<String>, schema: Option<Value>) -> Self {
        Self { kind: InputKind::Form, message: message.into(), schema, params: None, key: String::new() }
    }

    /// Asks the caller's model for a message.
    pub fn sampling(params: Value) -> Self {
        Self { kind: InputKind::Sampling, params: Some(params), ..Self::form("", None) }
    }

    /// Asks for the folders that the user works in.
    pub fn roots() -> Self {
        Self { kind: InputKind::Roots, ..Self::form("", None) }
    }

    /// Asks the user to open a URL.
    pub fn url(message: impl Into<String>, url: &str) -> Self {
        Self { kind: InputKind::Url, params: Some(json!({ "url": url })), ..Self::form(message, None) }
    }

    /// What the content of an answer has to be. None: any object.
    pub(crate) fn answer_schema(&self) -> Option<Value> {
        match self.kind {
            InputKind::Form => self.schema.clone(),
            InputKind::Url => None,
            InputKind::Sampling => Some(json!({
                "type": "object",
                "properties": {"role": {"type": "string"}, "model": {"type": "string"}},
                "required": ["role", "content", "model"],
            })),
            InputKind::Roots => Some(json!({
                "type": "object",
                "properties": {"roots": {"type": "array", "items": {
                    "type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"],
                }}},
                "required": ["roots"],
            })),
        }
    }

    /// Why the question can't be asked, for the skill.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let param = |name: &str| self.params.as_ref().and_then(|it| it.get(name));
        let is_list = |name: &str| param(name).is_some_and(|it| it.as_array().is_some_and(|it| !it.is_empty()));
        match self.kind {
            InputKind::Sampling if !is_list("messages") => Some("params.messages must be a list of messages"),
            InputKind::Sampling if param("maxTokens").and_then(Value::as_u64).is_none() => {
                Some("params.maxTokens must be a whole number")
            }
            InputKind::Url if !param("url").and_then(Value::as_str).is_some_and(is_web) => {
                Some("params.url must be an https:// or http:// URL")
            }
            _ => None,
        }
    }
}

/// The capability of an MCP client that a kind of question needs, as it is named in errors.
pub(crate) fn capability(kind: InputKind) -> &'static str {
    match kind {
        InputKind::Form => "elicitation",
        InputKind::Sampling => "sampling",
        InputKind::Roots => "roots",
        InputKind::Url => "elicitation.url",
    }
}

/// A client opens what `url` names: no scheme but these two.
fn is_web(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|it| matches!(it.scheme(), "https" | "http") && it.has_host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_asked_says_why() {
        let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
        assert_eq!(Ask::sampling(json!({"messages": [message], "maxTokens": 10})).fault(), None);
        for params in [json!({}), json!({"messages": [], "maxTokens": 1}), json!({"messages": [message]}), json!(5)] {
            assert!(Ask::sampling(params.clone()).fault().is_some(), "{params}");
        }
        assert_eq!(Ask::url("Sign in", "https://example.com/x").fault(), None);
        for url in ["", "javascript:alert(1)", "file:///etc/passwd", "https:"] {
            assert!(Ask::url("Sign in", url).fault().is_some(), "{url}");
        }
        assert_eq!((Ask::roots().fault(), Ask::form("", None).fault()), (None, None));
    }
}
