//! A tool's result: parses it, converts it to the skill's data and artifacts, and masks the secrets that were sent to
//! its server. Pure.
//!
//! - Structured content, if any, becomes the data.
//! - The text of a single text block becomes a JSON string, even if the text is JSON itself.
//! - An empty result is `null`.
//! - Any other result is `{"content": [...]}`, with the blocks as the server sent them.
//! - Images, audio and files become artifacts. Their blocks also stay in the data, for clients without artifact
//!   support.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_proto::json::depth;
use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_OUTPUT_BYTES};
use openskill_proto::v1::{ErrorCode, SkillError};
use rmcp::model::{ContentBlock, ResourceContents};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::errors::{CallFault, classify, hidden_in};
use crate::runner::RawOutput;
use crate::runners::http::secrets::Secrets;

/// A result that borrows from the server's text.
pub(super) struct ToolResult<'a> {
    content: Vec<Block<'a>>,
    /// `None` if the field is missing or null.
    structured: Option<&'a RawValue>,
    is_error: bool,
}

/// A content block, in the server's text and parsed.
struct Block<'a> {
    json: &'a RawValue,
    /// `None` if the protocol does not define this type. The block is passed on unchanged.
    known: Option<ContentBlock>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultFields<'a> {
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    is_error: Option<bool>,
    #[serde(borrow)]
    result_type: Option<&'a RawValue>,
}

impl<'a> ResultFields<'a> {
    fn read(json: &'a str) -> Option<Self> {
        let fields: Self = serde_json::from_str(json).ok()?;
        let is_complete = fields.result_type.is_none_or(|it| it.get() == "\"complete\"");
        (is_complete && (fields.content.is_some() || fields.structured_content.is_some())).then_some(fields)
    }
}

impl<'a> ToolResult<'a> {
    /// Returns whether this is a tool's result rather than that of another request.
    pub(super) fn is_one(json: &str) -> bool {
        ResultFields::read(json).is_some()
    }

    /// Parses a result. Returns `None` if it is invalid.
    pub(super) fn read(json: &'a str) -> Option<Self> {
        let fields = ResultFields::read(json)?;
        let content = fields.content.unwrap_or_default().into_iter().map(Block::read).collect::<Option<_>>()?;
        Some(Self { content, structured: fields.structured_content, is_error: fields.is_error == Some(true) })
    }
}

impl<'a> Block<'a> {
    fn read(json: &'a RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Typed<'a> {
            #[serde(rename = "type")]
            name: &'a str,
        }
        let known = serde_json::from_str(json.get()).ok();
        let is_foreign = || {
            let typed = serde_json::from_str::<Typed<'_>>(json.get());
            typed.is_ok_and(|it| !["text", "image", "audio", "resource", "resource_link"].contains(&it.name))
        };
        (known.is_some() || is_foreign()).then_some(Self { json, known })
    }
}

/// Creates the output of a tool call. `asked`: the server asked for input that the caller could not give.
pub(super) fn output(result: &ToolResult<'_>, tool: &str, asked: bool, secrets: &Secrets) -> RawOutput {
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

/// An artifact, with the labels that the server gave it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Media {
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) data: Vec<u8>,
}

/// Extracts all blocks with base64 content. Malformed blocks become `None`.
pub(super) fn media(result: &ToolResult<'_>, secrets: &Secrets) -> Vec<Option<Media>> {
    let blocks = result.content.iter().filter_map(|block| match block.known.as_ref()? {
        ContentBlock::Image(it) => Some((file_name("image", &it.mime_type), it.mime_type.as_str(), &it.data)),
        ContentBlock::Audio(it) => Some((file_name("audio", &it.mime_type), it.mime_type.as_str(), &it.data)),
        ContentBlock::Resource(it) => match &it.resource {
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                Some((secrets.scrub_text(last_segment(uri)), mime_type.as_deref().unwrap_or_default(), blob))
            }
            _ => None,
        },
        _ => None,
    });
    let media = blocks.map(|(name, media_type, base64)| {
        let data = STANDARD.decode(base64).ok()?;
        let data = secrets.scrub_bytes(data.into()).into();
        Some(Media { name, media_type: media_type.to_owned(), data })
    });
    media.collect()
}

/// Returns a file name such as `image.png` for `image/png`.
fn file_name(kind: &str, media_type: &str) -> String {
    let subtype = media_type.split_once('/').map_or("", |it| it.1);
    let extension: String = subtype.chars().take_while(char::is_ascii_alphanumeric).take(8).collect();
    if extension.is_empty() { kind.to_owned() } else { format!("{kind}.{extension}") }
}

fn last_segment(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge(result: Value) -> RawOutput {
        output(&ToolResult::read(&result.to_string()).unwrap(), "add", false, &Secrets::made_of("s3cr3t-token"))
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
            let RawOutput::Report { data, .. } = output(&result, "t", false, &no_secrets) else { panic!("{expected}") };
            assert_eq!(data, expected);
        }
        for malformed in
            [r#"{"content":[{"type":"text"}]}"#, r#"{"content":["text"]}"#, r#"{"content":[{"text":"x"}]}"#]
        {
            assert!(ToolResult::read(malformed).is_none(), "{malformed}");
        }
        let deep = format!(r#"{{"structuredContent":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let output = output(&ToolResult::read(&deep).unwrap(), "t", false, &no_secrets);
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

    #[test]
    fn images_sounds_and_files_become_artifacts() {
        let result = json!({"content": [
            {"type": "text", "text": "a plot"},
            {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///tmp/a.pdf?x=1", "mimeType": "application/pdf", "blob": "aGk="}},
            {"type": "resource", "resource": {"uri": "file:///tmp/a.txt", "text": "hi"}},
            {"type": "image", "data": "not base64", "mimeType": "image/svg+xml"}
        ]});
        let media = media(&ToolResult::read(&result.to_string()).unwrap(), &Secrets::default());
        let labels: Vec<_> =
            media.iter().map(|it| it.as_ref().map(|it| (it.name.as_str(), it.media_type.as_str()))).collect();
        assert_eq!(
            labels,
            [
                Some(("image.png", "image/png")),
                Some(("audio.wav", "audio/wav")),
                Some(("a.pdf", "application/pdf")),
                None
            ]
        );
        assert_eq!(media[0].as_ref().unwrap().data, b"\x89PNG");
    }

    #[test]
    fn a_secret_that_a_server_echoes_in_a_file_is_masked() {
        let blob = STANDARD.encode("token: s3cr3t-token");
        let result = json!({"content": [{"type": "resource", "resource": {"uri": "a:b", "blob": blob}}]});
        let media = media(&ToolResult::read(&result.to_string()).unwrap(), &Secrets::made_of("s3cr3t-token"));
        assert_eq!(media[0].as_ref().unwrap().data, b"token: [secret]");
    }
}
