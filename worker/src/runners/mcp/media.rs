//! Converts the images, audio and files in a tool's result to artifacts. Pure.
//!
//! The blocks also stay in the skill's data, for clients without artifact support.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{ContentBlock, ResourceContents};

use super::tool_result::ToolResult;
use crate::runners::http::secrets::Secrets;

/// An artifact, with the labels that the server gave it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Media {
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) data: Vec<u8>,
}

/// Extracts all blocks with base64 content. Malformed blocks become `None`.
pub(super) fn extract(result: &ToolResult<'_>, secrets: &Secrets) -> Vec<Option<Media>> {
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
    use super::*;
    use serde_json::json;

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
        let media = extract(&ToolResult::read(&result.to_string()).unwrap(), &Secrets::default());
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
        let media = extract(&ToolResult::read(&result.to_string()).unwrap(), &Secrets::made_of("s3cr3t-token"));
        assert_eq!(media[0].as_ref().unwrap().data, b"token: [secret]");
    }
}
