//! Converts a tool's result to the skill's data, and masks the secrets that were sent to its server. Pure.
//!
//! - Structured content, if any, becomes the data.
//! - The text of a single text block becomes a JSON string, even if the text is JSON itself.
//! - An empty result is `null`.
//! - Any other result is `{"content": [...]}`, with the blocks as the server sent them.

use openskill_proto::json::depth;
use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_OUTPUT_BYTES};
use openskill_proto::v1::{ErrorCode, SkillError};
use rmcp::model::{ContentBlock, ResourceContents};
use serde_json::Value;
use serde_json::value::RawValue;

use super::errors::{CallFault, classify, hidden_in};
use super::tool_result::{Block, ToolResult};
use crate::runner::RawOutput;
use crate::runners::http::secrets::Secrets;

/// Creates the output of a tool call. `asked`: the server asked for input that the caller could not give.
pub(super) fn from_result(result: &ToolResult<'_>, tool: &str, asked: bool, secrets: &Secrets) -> RawOutput {
    let text = secrets.scrub_text(text(&result.content));
    let only = match &result.content[..] {
        [Block { known: Some(ContentBlock::Text(only)), .. }] => Some(only.text.as_str()),
        _ => None,
    };
    let is_hidden = || result.structured.is_none() && only.is_some() && hidden_in(&text, tool);
    if result.is_error || is_hidden() {
        return RawOutput::Failed(classify(CallFault::Tool { text: &text }, asked));
    }
    let data = match (result.structured, only) {
        (Some(structured), _) => structured.get().to_owned(),
        (None, Some(only)) => Value::from(only).to_string(),
        (None, None) if result.content.is_empty() => "null".to_owned(),
        (None, None) => {
            let blocks: Vec<&RawValue> = result.content.iter().map(|block| block.json).collect();
            format!("{{\"content\":{}}}", serde_json::to_string(&blocks).unwrap_or_default())
        }
    };
    if data.len() > MAX_OUTPUT_BYTES {
        let message = format!("the tool's result has more than {MAX_OUTPUT_BYTES} bytes");
        return RawOutput::Failed(SkillError::new(ErrorCode::OutputTooLarge, message));
    }
    if depth(data.as_bytes()) > MAX_JSON_DEPTH {
        return RawOutput::Failed(classify(CallFault::NoResult, asked));
    }
    RawOutput::Report { data: secrets.scrub_json(data), text, truncated: false }
}

/// Returns the whole result, redacted. Returns `None` if it is too large.
pub(super) fn as_sent(json: &str, secrets: &Secrets) -> Option<String> {
    (json.len() <= MAX_OUTPUT_BYTES).then(|| secrets.scrub_json(json.to_owned()))
}

/// Joins all text in a result, for a model.
fn text(content: &[Block<'_>]) -> String {
    let texts = content.iter().filter_map(|block| match block.known.as_ref()? {
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
    use serde_json::json;

    use super::*;

    fn judge(result: Value) -> RawOutput {
        from_result(&ToolResult::read(&result.to_string()).unwrap(), "add", false, &Secrets::made_of("s3cr3t-token"))
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
    fn what_the_server_wrote_is_passed_on_as_it_wrote_it() {
        let no_secrets = Secrets::default();
        for (result, expected) in [
            (
                r#"{"structuredContent": {"wei": 12345678901234567890123, "x": 1.10}}"#,
                r#"{"wei": 12345678901234567890123, "x": 1.10}"#,
            ),
            (
                r#"{"content":[{"type":"hologram","depth":0.1234567890123456789012}]}"#,
                r#"{"content":[{"type":"hologram","depth":0.1234567890123456789012}]}"#,
            ),
        ] {
            let result = ToolResult::read(result).unwrap();
            let RawOutput::Report { data, .. } = from_result(&result, "t", false, &no_secrets) else {
                panic!("{expected}")
            };
            assert_eq!(data, expected);
        }
        for malformed in
            [r#"{"content":[{"type":"text"}]}"#, r#"{"content":["text"]}"#, r#"{"content":[{"text":"x"}]}"#]
        {
            assert!(ToolResult::read(malformed).is_none(), "{malformed}");
        }
        let deep = format!(r#"{{"structuredContent":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let output = from_result(&ToolResult::read(&deep).unwrap(), "t", false, &no_secrets);
        assert!(matches!(output, RawOutput::Failed(error) if error.code() == ErrorCode::McpParseError));
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
        // Next to structured content, the same text is an answer.
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
