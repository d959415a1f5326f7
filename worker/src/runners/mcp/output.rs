//! Turns a tool's result into a skill's data, with the secrets that went to its server masked. Pure.
//!
//! - Structured content is the data.
//! - Of a single text block the data is the text, a JSON string, even if the text is JSON itself.
//! - An empty result is `null`.
//! - Any other result is `{"content": [...]}`, with the blocks as the server sent them.

use openskill_proto::limits::MAX_OUTPUT_BYTES;
use openskill_proto::v1::{ErrorCode, SkillError};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use super::errors::{Fault, graded, hidden_in};
use crate::runner::RawOutput;
use crate::runners::http::secrets::Secrets;

/// The output of a tool's call. `asked`: the server asked for input that nobody could give.
pub(super) fn of(result: &CallToolResult, tool: &str, asked: bool, secrets: &Secrets) -> RawOutput {
    let text = secrets.scrub_text(text(&result.content));
    if result.is_error == Some(true) {
        return RawOutput::Failed(graded(Fault::Tool { text: &text }, asked));
    }
    let structured = result.structured_content.as_ref().filter(|it| !it.is_null());
    if structured.is_none() && matches!(result.content[..], [ContentBlock::Text(_)]) && hidden_in(&text, tool) {
        return RawOutput::Failed(graded(Fault::Tool { text: &text }, asked));
    }
    let data = match (structured, &result.content[..]) {
        (Some(structured), _) => structured.to_string(),
        (None, []) => "null".to_owned(),
        (None, [ContentBlock::Text(only)]) => Value::from(only.text.as_str()).to_string(),
        (None, blocks) => json!({ "content": blocks }).to_string(),
    };
    if data.len() > MAX_OUTPUT_BYTES {
        let message = format!("the tool's result has more than {MAX_OUTPUT_BYTES} bytes");
        return RawOutput::Failed(SkillError::new(ErrorCode::OutputTooLarge, message));
    }
    RawOutput::Report { data: secrets.scrub_json(data), text, truncated: false }
}

/// The whole result, as JSON text. None if it is too large.
pub(super) fn as_sent(result: &CallToolResult, secrets: &Secrets) -> Option<String> {
    let json = serde_json::to_string(result).ok().filter(|it| it.len() <= MAX_OUTPUT_BYTES)?;
    Some(secrets.scrub_json(json))
}

/// All text of a result, for a model.
fn text(content: &[ContentBlock]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => Some(text.as_str()),
            _ => None,
        },
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(result: Value) -> RawOutput {
        of(&serde_json::from_value(result).unwrap(), "add", false, &Secrets::made_of("s3cr3t-token"))
    }

    fn report(result: Value) -> (Value, String) {
        match judge(result) {
            RawOutput::Report { data, text, .. } => (serde_json::from_str(&data).unwrap(), text),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_kind_of_result_has_its_data() {
        let text = json!({"type": "text", "text": "{\"a\": 1}"});
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        assert_eq!(
            report(json!({"content": [text], "structuredContent": {"a": 1}})),
            (json!({"a": 1}), "{\"a\": 1}".to_owned())
        );
        assert_eq!(report(json!({"content": [text]})).0, json!("{\"a\": 1}"));
        assert_eq!(report(json!({"content": []})).0, Value::Null);
        let (data, joined) = report(json!({"content": [text, image, text]}));
        assert_eq!(data["content"][1]["mimeType"], "image/png");
        assert_eq!(joined, "{\"a\": 1}\n{\"a\": 1}");
    }

    #[test]
    fn every_form_of_error_is_an_error() {
        for (result, expected) in [
            (json!({"content": [{"type": "text", "text": "boom"}], "isError": true}), ErrorCode::McpExecutionError),
            (json!({"content": [{"type": "text", "text": "Unknown tool: add"}]}), ErrorCode::McpNotFound),
        ] {
            match judge(result) {
                RawOutput::Failed(error) => assert_eq!(error.code(), expected),
                other => panic!("{other:?}"),
            }
        }
        // The same words beside structured content are an answer.
        let answer = json!({"content": [{"type": "text", "text": "Unknown tool: add"}], "structuredContent": {"a": 1}});
        assert_eq!(report(answer).0, json!({"a": 1}));
    }

    #[test]
    fn an_echoed_secret_is_masked() {
        let echo = json!([{"type": "text", "text": "Bearer s3cr3t-token"}]);
        let (data, text) = report(json!({"content": echo, "structuredContent": {"s3cr3t-token": 1}}));
        assert_eq!((data, text.as_str()), (json!({"[secret]": 1}), "Bearer [secret]"));
        match judge(json!({"content": echo, "isError": true})) {
            RawOutput::Failed(error) => assert_eq!(error.message, "Bearer [secret]"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_huge_result_is_refused() {
        let text = "x".repeat(MAX_OUTPUT_BYTES + 1);
        assert!(matches!(judge(json!({"content": [{"type": "text", "text": text}]})),
            RawOutput::Failed(error) if error.code() == ErrorCode::OutputTooLarge));
    }
}
