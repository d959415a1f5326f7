//! `resources/read`: resources that skills and MCP servers declare, and artifacts and long results that are too
//! large for a result, which links to them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_identity::shares::Share;
use openskill_proto::v1::{
    ConsultMethod, ConsultRequest, ErrorCode, ReadArtifactRequest, ReadArtifactResponse, SkillError,
};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::client::cache_scope;
use super::content::ARTIFACTS;
use super::jsonrpc::{Code, Params, RpcError, escaped_bytes, invalid_params, string};
use super::list::cache_fields;
use super::long::{self, RESULTS};
use super::offerings::{self, Viewer};
use crate::call::principal::Principal;
use crate::dispatch::consult::consult;
use crate::gateway::Shard;
use crate::mcp::revision::Revision;
use crate::serve::artifacts;
use crate::state::limits::SharedLimit;

/// The maximum size of an artifact that is read as a whole, in bytes. `GET /artifacts/{handle}` reads larger ones
/// in ranges.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// A response exists twice while it is built: as the result, and within its message.
const COPIES: usize = 2;

/// How long a client may cache an artifact, in milliseconds. Artifacts are immutable but expire.
const TTL_MS: u64 = 60_000;

/// How long a client may cache a declared resource, in milliseconds. It may change.
const DECLARED_TTL_MS: u64 = 1_000;

/// Returns the result of `resources/read`.
///
/// # Errors
/// The viewer has no such resource, or it is too large.
pub(super) async fn read(
    shard: &Shard,
    params: &Params,
    viewer: Viewer<'_>,
    revision: Revision,
) -> Result<String, RpcError> {
    let Some(uri) = &params.uri else {
        return Err(invalid_params("params.uri is missing: set it to the resource to read"));
    };
    let code = if revision.is_stateless() { Code::InvalidParams } else { Code::NoResource };
    let missing = || RpcError::new(code, "there is no such resource, or it has expired");
    let missing = || missing().with_data(json!({ "uri": uri }).to_string());
    if let Some(rest) = uri.strip_prefix(RESULTS) {
        let contents = long::read(&shard.gateway, viewer.principal, &viewer.owner(), uri, rest)?.ok_or_else(missing)?;
        return Ok(format!("{{\"contents\":[{contents}]{}}}", private(revision)));
    }
    let Some(handle) = uri.strip_prefix(ARTIFACTS) else {
        return read_declared(shard, uri, viewer, revision, missing).await;
    };
    let fault = |error: SkillError| match error.code() {
        ErrorCode::NotFound => missing(),
        ErrorCode::OutputTooLarge => invalid_params(error.message),
        _ => offerings::fault(error),
    };
    let LoadedArtifact { media_type, data, mut share } = load(shard, viewer.principal, handle).await.map_err(fault)?;
    let (uri, more) = (uri.clone(), private(revision));
    let render = move || render_artifact(&uri, &media_type, data, &more, &mut share);
    let rendered = shard.gateway.blocking_pool.run(render).await;
    rendered.ok_or_else(|| offerings::fault(overload_error()))
}

/// Returns the cache fields of a response that is private to its caller.
fn private(revision: Revision) -> String {
    cache_fields(revision, "private", TTL_MS)
}

/// Renders the result with one artifact. None if its text needs more memory than `share` can get.
fn render_artifact(uri: &str, media_type: &str, data: Vec<u8>, more: &str, share: &mut Share) -> Option<String> {
    let mut text = format!("{{\"contents\":[{{\"uri\":{},\"mimeType\":{},", string(uri), string(media_type));
    match String::from_utf8(data) {
        Ok(data) if media_type.starts_with("text/") => {
            let escaped = escaped_bytes(&data);
            if !share.resize(data.len() + COPIES * escaped) {
                return None;
            }
            text.reserve_exact(escaped + more.len() + 16);
            text.push_str("\"text\":");
            text.push_str(&string(&data));
        }
        data => {
            let data = data.map_or_else(|binary| binary.into_bytes(), String::into_bytes);
            text.reserve_exact(data.len().div_ceil(3) * 4 + more.len() + 16);
            text.push_str("\"blob\":\"");
            STANDARD.encode_string(data, &mut text);
            text.push('"');
        }
    }
    text.push_str("}]");
    text.push_str(more);
    text.push('}');
    Some(text)
}

/// Reads a resource that a skill or an MCP server declares.
async fn read_declared(
    shard: &Shard,
    uri: &str,
    viewer: Viewer<'_>,
    revision: Revision,
    missing: impl Fn() -> RpcError,
) -> Result<String, RpcError> {
    let (shelf, skills) = (shard.gateway.catalog.offerings(), shard.gateway.catalog.snapshot());
    let item = shelf.resource(uri, |it| viewer.sees(it, &skills)).ok_or_else(&missing)?;
    let template = if item.offering.key == uri { String::new() } else { item.offering.key.clone() };
    let request = ConsultRequest { template, ..offerings::request(ConsultMethod::Read, item, &json!({ "uri": uri })) };
    let result = consult(shard, viewer.consult_scope(), item, request).await.map_err(|error| match error.code() {
        ErrorCode::NotFound => missing(),
        _ => offerings::fault(error),
    })?;
    let read: DeclaredContents<'_> = serde_json::from_str(&result).map_err(|_| missing())?;
    match read.contents.get() {
        contents if contents.starts_with('[') && contents[1..].trim_start() != "]" => {
            Ok(format!("{{\"contents\":{contents}{}}}", cache_fields(revision, cache_scope(shard), DECLARED_TTL_MS)))
        }
        _ => Err(missing()),
    }
}

/// The response of a resource's owner. Only `contents` is forwarded.
#[derive(Deserialize)]
struct DeclaredContents<'a> {
    #[serde(borrow)]
    contents: &'a RawValue,
}

/// An artifact, with the share that it and its response occupy.
struct LoadedArtifact {
    media_type: String,
    data: Vec<u8>,
    share: Share,
}

/// Loads a whole artifact. Reserves memory for it and its response first.
async fn load(shard: &Shard, principal: &Principal, handle: &str) -> Result<LoadedArtifact, SkillError> {
    let piece = |offset: u64, length: u64| {
        let range = ReadArtifactRequest { handle: handle.to_owned(), offset, length };
        artifacts::read(shard, principal, range)
    };
    // A read of the first byte also returns the size.
    let ReadArtifactResponse { size_bytes, media_type, .. } = piece(0, 1).await?;
    if size_bytes > MAX_BYTES {
        let message = format!("the resource has {size_bytes} bytes: read it in ranges with GET /artifacts");
        return Err(SkillError::new(ErrorCode::OutputTooLarge, message));
    }
    let size = size_bytes as usize;
    // The size as base64. Text may need more, which is reserved once its size is known.
    let needed = size + COPIES * (size.div_ceil(3) * 4);
    let share = shard.gateway.limits.reserve(SharedLimit::Responses, &principal.shared_name(), needed).await;
    let share = share.ok_or_else(overload_error)?;
    let mut data = Vec::with_capacity(size);
    while data.len() < size {
        let next = piece(data.len() as u64, 0).await?;
        if next.data.is_empty() {
            return Err(SkillError::new(ErrorCode::NotFound, "the artifact has expired"));
        }
        data.extend_from_slice(&next.data);
    }
    Ok(LoadedArtifact { media_type, data, share })
}

pub(super) fn overload_error() -> SkillError {
    SkillError::overloaded("this caller, or others, have too many responses that they do not read: read them first")
}

#[cfg(test)]
mod tests {
    use openskill_identity::shares::Pool;
    use serde_json::Value;

    use super::*;

    #[test]
    fn text_stays_text_other_bytes_are_base64_and_what_takes_too_much_is_not_written() {
        let pool = Pool::new(1000);
        let write = |media_type: &str, data: &[u8]| {
            let text = render_artifact("a:\"b", media_type, data.to_vec(), "", &mut pool.share("ada"))?;
            Some(serde_json::from_str::<Value>(&text).unwrap()["contents"][0].clone())
        };
        let text = write("text/plain", b"a\"b").unwrap();
        assert_eq!(
            (&text["uri"], &text["text"], &text["mimeType"]),
            (&json!("a:\"b"), &json!("a\"b"), &json!("text/plain"))
        );
        assert_eq!(write("image/png", b"hi").unwrap()["blob"], "aGk=");
        assert_eq!(write("text/plain", &[0xff]).unwrap()["blob"], "/w==");
        assert!(write("text/plain", &[b'x'; 100]).is_some());
        assert!(write("text/plain", &[1; 100]).is_none(), "each is six bytes in JSON");
    }
}
