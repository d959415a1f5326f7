//! Renders an artifact as JSON: its content in base64, or its handle.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::v1::Artifact;
use crate::v1::artifact::Content;

#[derive(Serialize)]
pub(super) struct ArtifactJson<'a> {
    id: &'a str,
    name: &'a str,
    media_type: &'a str,
    size_bytes: u64,
    /// The content in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// The handle for `ReadArtifact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<&'a str>,
}

impl<'a> From<&'a Artifact> for ArtifactJson<'a> {
    fn from(artifact: &'a Artifact) -> Self {
        let (data, handle) = match &artifact.content {
            Some(Content::Data(bytes)) => (Some(STANDARD.encode(bytes)), None),
            Some(Content::Handle(handle)) => (None, Some(handle.as_str())),
            None => (None, None),
        };
        Self {
            id: &artifact.id,
            name: &artifact.name,
            media_type: &artifact.media_type,
            size_bytes: artifact.size_bytes,
            data,
            handle,
        }
    }
}
