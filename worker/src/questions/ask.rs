//! A skill's request for a form, or for another kind of input that MCP clients can provide.

use openskill_proto::v1::InputKind;
use serde_json::{Value, json};

/// A question, or another request for input, from a skill.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The kind of input that the skill requests.
    pub kind: InputKind,
    /// The text of the question for people. May be empty except for forms and URLs.
    pub message: String,
    /// The JSON Schema of a form's content, which is an object. `None` accepts any object.
    pub schema: Option<Value>,
    /// The parameters of some kinds: those of MCP's `sampling/createMessage`, or the `url`.
    pub params: Option<Value>,
    /// The skill's name for the question. May be empty.
    pub key: String,
}

impl Ask {
    /// Creates a request to the user to fill in a form.
    pub fn form(message: impl Into<String>, schema: Option<Value>) -> Self {
        Self { kind: InputKind::Form, message: message.into(), schema, params: None, key: String::new() }
    }

    /// Creates a request to the caller's model for a message.
    pub fn sampling(params: Value) -> Self {
        Self { kind: InputKind::Sampling, params: Some(params), ..Self::form("", None) }
    }

    /// Creates a request for the folders that the user works in.
    pub fn roots() -> Self {
        Self { kind: InputKind::Roots, ..Self::form("", None) }
    }

    /// Creates a request to the user to open a URL.
    pub fn url(message: impl Into<String>, url: &str) -> Self {
        Self { kind: InputKind::Url, params: Some(json!({ "url": url })), ..Self::form(message, None) }
    }

    /// Returns the schema of the answer's content, or `None` if it accepts any object.
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

    /// Returns the reason, for the skill, if the question can't be asked.
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

/// Returns the MCP client capability that a kind of question requires, as errors name it.
pub(crate) fn capability(kind: InputKind) -> &'static str {
    match kind {
        InputKind::Form => "elicitation",
        InputKind::Sampling => "sampling",
        InputKind::Roots => "roots",
        InputKind::Url => "elicitation.url",
    }
}

/// Returns whether a URL has one of the two schemes that clients may open.
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
