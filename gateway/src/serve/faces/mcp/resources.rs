//! Reading resources: those that skills and MCP servers declare, the artifacts of calls that are too large to be part of a
//! result, and long results. A result links to these.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_proto::v1::{
    ConsultMethod, ConsultRequest, ErrorCode, ReadArtifactRequest, ReadArtifactResponse, SkillError,
};
use serde_json::{Map, Value, json};

use super::content::ARTIFACTS;
use super::jsonrpc::{Code, Fault, Params};
use super::list::cacheable;
use super::long::{self, RESULTS};
use super::shelf::{self, Viewer};
use crate::call::principal::Principal;
use crate::dispatch::artifacts;
use crate::dispatch::consult::consult;
use crate::gateway::Shard;
use crate::mcp::revision::Revision;

/// The largest artifact that is read whole, in bytes. `GET /artifacts/{handle}` reads larger ones in ranges.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// How long a client may keep an artifact, in milliseconds: it does not change, and expires.
const TTL_MS: u64 = 60_000;

/// The same of a resource that may change.
const DECLARED_TTL_MS: u64 = 1_000;

fn more(shard: &Shard, revision: Revision, ttl_ms: u64) -> String {
    if revision.is_stateless() { cacheable(shard, ttl_ms) } else { String::new() }
}

/// The result of `resources/read`.
///
/// # Errors
/// There is no such resource for this viewer, or it is too large.
pub(super) async fn read(
    shard: &Shard,
    params: &Params,
    viewer: Viewer<'_>,
    revision: Revision,
) -> Result<String, Fault> {
    let Some(uri) = &params.uri else {
        return Err(Fault::new(Code::InvalidParams, "params.uri is missing: it says which resource to read"));
    };
    let code = if revision.is_stateless() { Code::InvalidParams } else { Code::NoResource };
    let missing = || Fault::new(code, "there is no such resource, or it has expired");
    let missing = || missing().with_data(json!({ "uri": uri }).to_string());
    if let Some(rest) = uri.strip_prefix(RESULTS) {
        let contents =
            long::read(&shard.gateway, (viewer.principal, &viewer.owner()), uri, rest)?.ok_or_else(missing)?;
        return Ok(contents_of(shard, &contents, revision));
    }
    let Some(handle) = uri.strip_prefix(ARTIFACTS) else {
        return declared(shard, uri, (viewer, revision), missing).await;
    };
    let (about, data) = whole(shard, viewer.principal, handle).await.map_err(|error| match error.code() {
        ErrorCode::NotFound => missing(),
        ErrorCode::OutputTooLarge => Fault::new(Code::InvalidParams, error.message),
        _ => shelf::fault(error),
    })?;
    let mut contents = json!({ "uri": uri, "mimeType": about.media_type });
    match String::from_utf8(data) {
        Ok(text) if about.media_type.starts_with("text/") => contents["text"] = text.into(),
        Ok(text) => contents["blob"] = STANDARD.encode(text).into(),
        Err(binary) => contents["blob"] = STANDARD.encode(binary.into_bytes()).into(),
    }
    Ok(contents_of(shard, &contents, revision))
}

/// The result with one resource, which is its caller's only.
fn contents_of(shard: &Shard, contents: &Value, revision: Revision) -> String {
    let more = more(shard, revision, TTL_MS).replace("\"cacheScope\":\"public\"", "\"cacheScope\":\"private\"");
    format!("{{\"contents\":[{contents}]{more}}}")
}

/// Reads a resource that a skill or an MCP server declares.
async fn declared(
    shard: &Shard,
    uri: &str,
    (viewer, revision): (Viewer<'_>, Revision),
    missing: impl Fn() -> Fault,
) -> Result<String, Fault> {
    let (shelf, skills) = (shard.gateway.catalog.shelf(), shard.gateway.catalog.snapshot());
    let item = shelf.resource(uri, |it| viewer.sees(it, &skills)).ok_or_else(&missing)?;
    let template = if item.offering.key == uri { String::new() } else { item.offering.key.clone() };
    let request = ConsultRequest { template, ..shelf::request(ConsultMethod::Read, item, &json!({ "uri": uri })) };
    let result = consult(shard, viewer.asks(), item, request).await.map_err(|error| match error.code() {
        ErrorCode::NotFound => missing(),
        _ => shelf::fault(error),
    })?;
    let mut fields: Map<String, Value> = serde_json::from_str(&result).unwrap_or_default();
    let Some(contents) = fields.remove("contents").filter(|it| it.as_array().is_some_and(|it| !it.is_empty())) else {
        return Err(missing());
    };
    Ok(format!("{{\"contents\":{contents}{}}}", more(shard, revision, DECLARED_TTL_MS)))
}

/// An artifact's description and all its bytes.
async fn whole(
    shard: &Shard,
    principal: &Principal,
    handle: &str,
) -> Result<(ReadArtifactResponse, Vec<u8>), SkillError> {
    let piece = |offset: u64| {
        let range = ReadArtifactRequest { handle: handle.to_owned(), offset, length: 0 };
        artifacts::read(shard, principal, range)
    };
    let first = piece(0).await?;
    if first.size_bytes > MAX_BYTES {
        let message = format!("the resource has {} bytes: read it in ranges with GET /artifacts", first.size_bytes);
        return Err(SkillError::new(ErrorCode::OutputTooLarge, message));
    }
    let mut data = first.data.to_vec();
    while (data.len() as u64) < first.size_bytes {
        let next = piece(data.len() as u64).await?;
        if next.data.is_empty() {
            return Err(SkillError::new(ErrorCode::NotFound, "the artifact has expired"));
        }
        data.extend_from_slice(&next.data);
    }
    Ok((first, data))
}
