//! The client of a request: its protocol revision and its session. Clients of the newest revision name it in each
//! request. Older clients have a session, or work without one.
//!
//! Also answers `initialize` and `server/discover`, with which the server describes itself.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use openskill_proto::timestamp::Timestamp;
use serde_json::{Value, json};

use super::headers::{Only, only};
use super::jsonrpc::{Code, Params, RpcError, invalid_params};
use super::response::{SESSION, refuse};
use super::view_access::ViewAccess;
use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::mcp::revision::Revision;
use crate::mcp::session::{Capabilities, Session, TASKS};
use crate::serve::layers::request_context;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// What one request tells about its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct McpClient {
    pub(super) revision: Revision,
    /// None for a client of the newest revision, or an older one without a session.
    pub(super) session: Option<Session>,
}

/// The status and error of a request that is refused before its method is called.
pub(super) type Rejection = (StatusCode, RpcError);

impl McpClient {
    /// Reads the revision and the session of a request. `params` are those of its message, or None if it has no
    /// body.
    pub(super) fn identify(
        shard: &Shard,
        headers: &HeaderMap,
        principal: &Principal,
        params: Option<&Params>,
    ) -> Result<Self, Rejection> {
        let said = params.and_then(|it| it.meta.as_ref()?.version.as_deref());
        let agreed = agree(&only(headers, &VERSION), said).map_err(|fault| (StatusCode::BAD_REQUEST, fault))?;
        if let Some(revision) = agreed.filter(|it| it.is_stateless()) {
            return Ok(Self { revision, session: None });
        }
        let session = session(shard, headers, principal)?;
        let revision = session.map(|it| it.revision).or(agreed).unwrap_or(Revision::WITHOUT_HEADER);
        Ok(Self { revision, session })
    }

    /// The name of the session in this process. Empty if the client has none.
    pub(super) fn session_name(&self) -> &str {
        self.session.as_ref().map(Session::name).unwrap_or_default()
    }
}

/// Returns the revision that header and message name. None if neither names one. Rejects different ones, because a
/// proxy may have read only one of them.
fn agree(header: &Only<'_>, said: Option<&str>) -> Result<Option<Revision>, RpcError> {
    let mismatch = |message: &str| Err(RpcError::new(Code::HeaderMismatch, message));
    let newest = Revision::V2026_07_28.name();
    let name = match (header, said) {
        (Only::Several, _) => return mismatch("MCP-Protocol-Version is given more than once"),
        (Only::None, None) => return Ok(None),
        (Only::One(header), None) if *header == newest => {
            let field = "params._meta[\"io.modelcontextprotocol/protocolVersion\"]";
            return Err(invalid_params(format!("{field} is missing")));
        }
        (Only::One(header), None) => *header,
        (Only::None, Some(said)) if Revision::from_name(said).is_some_and(|it| !it.is_stateless()) => said,
        (Only::None, Some(_)) => return mismatch("the header MCP-Protocol-Version is missing"),
        (Only::One(header), Some(said)) if *header != said => {
            return mismatch("MCP-Protocol-Version differs from the version in params._meta");
        }
        (Only::One(_), Some(said)) => said,
    };
    Revision::from_name(name).map(Some).ok_or_else(|| unsupported_version(name))
}

fn unsupported_version(requested: &str) -> RpcError {
    let supported: Vec<_> = Revision::ALL.iter().map(|it| it.name()).collect();
    let requested: String = requested.chars().take(64).collect();
    let data = serde_json::json!({ "supported": supported, "requested": requested });
    RpcError::new(Code::UnsupportedVersion, "this version of the protocol is not supported").with_data(data.to_string())
}

/// Finds the session that the headers name. An unknown session gets 404, which makes the client start a new one.
fn session(shard: &Shard, headers: &HeaderMap, principal: &Principal) -> Result<Option<Session>, Rejection> {
    let state = &shard.gateway.mcp;
    let found = match only(headers, &SESSION) {
        Only::None => return Ok(None),
        Only::Several => None,
        Only::One(id) => Session::read(id.as_bytes(), &state.key, principal.name(), now_s()),
    };
    let found = found.filter(|it| !state.clients.has_ended(principal.name(), it.name()));
    found.map(Some).ok_or_else(|| {
        let message = "there is no such session, or it has ended: send initialize without Mcp-Session-Id";
        (StatusCode::NOT_FOUND, RpcError::new(Code::InvalidRequest, message))
    })
}

fn now_s() -> u64 {
    Timestamp::now().0 / 1_000_000
}

/// `DELETE /mcp`: ends a session.
pub(crate) async fn delete(State(shard): State<Shard>, _: ViewAccess, request: Request) -> Response {
    let principal = request_context(request.extensions()).principal;
    match session(&shard, request.headers(), &principal) {
        Ok(Some(session)) => {
            shard.gateway.mcp.clients.end(principal.name(), session.name());
            StatusCode::NO_CONTENT.into_response()
        }
        Ok(None) => {
            let message = "the header Mcp-Session-Id is missing: set it to the session to end";
            refuse(StatusCode::BAD_REQUEST, None, &RpcError::new(Code::InvalidRequest, message))
        }
        Err((status, fault)) => refuse(status, None, &fault),
    }
}

/// How long a client may cache `server/discover`, in milliseconds.
const DISCOVER_TTL_MS: u64 = 60_000;

/// The name and version of this program, for results.
pub(super) fn server_info() -> Value {
    json!({ "name": "openskill", "version": env!("CARGO_PKG_VERSION") })
}

fn capabilities() -> Value {
    json!({
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true },
        "completions": {},
        "logging": {},
    })
}

/// The cache scope of results. Private if keys are required, because principals see different skills.
pub(super) fn cache_scope(shard: &Shard) -> &'static str {
    if shard.gateway.registry.is_some() { "private" } else { "public" }
}

/// `initialize`: returns the result, and the id of the new session.
pub(super) fn initialize(shard: &Shard, params: &Params, principal: &Principal) -> Result<(String, String), RpcError> {
    let Some(asked) = &params.protocol_version else { return Err(invalid_params("params.protocolVersion is missing")) };
    let known = Revision::from_name(asked).filter(|it| !it.is_stateless());
    let revision = known.unwrap_or(Revision::NEWEST_WITH_SESSIONS);
    let abilities = params.capabilities.as_ref().map(Capabilities::abilities).unwrap_or_default();
    let result = json!({
        "protocolVersion": revision.name(),
        "capabilities": capabilities(),
        "serverInfo": server_info(),
    });
    let session = Session::begin(revision, abilities, now_s()).id(&shard.gateway.mcp.key, principal.name());
    Ok((result.to_string(), session))
}

/// `server/discover`: returns the result.
pub(super) fn discover(shard: &Shard) -> String {
    let supported: Vec<_> = Revision::ALL.iter().map(|it| it.name()).collect();
    let mut capabilities = capabilities();
    capabilities["extensions"] = json!({ TASKS: {} });
    let result = json!({
        "resultType": "complete",
        "supportedVersions": supported,
        "capabilities": capabilities,
        "ttlMs": DISCOVER_TTL_MS,
        "cacheScope": cache_scope(shard),
        "_meta": { "io.modelcontextprotocol/serverInfo": server_info() },
    });
    result.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_message_have_to_agree() {
        use Code::{HeaderMismatch, InvalidParams, UnsupportedVersion};
        let (new, old) = ("2026-07-28", "2025-06-18");
        for (header, said, expected) in [
            (None, None, Ok(None)),
            (Some(old), None, Ok(Some(Revision::V2025_06_18))),
            (None, Some(old), Ok(Some(Revision::V2025_06_18))),
            (Some(new), Some(new), Ok(Some(Revision::V2026_07_28))),
            (Some(new), None, Err(InvalidParams)),
            (None, Some(new), Err(HeaderMismatch)),
            (Some(old), Some(new), Err(HeaderMismatch)),
            (Some(new), Some("v999"), Err(HeaderMismatch)),
            (Some("v999"), Some("v999"), Err(UnsupportedVersion)),
            (Some("v999"), None, Err(UnsupportedVersion)),
        ] {
            let header = header.map_or(Only::None, Only::One);
            assert_eq!(agree(&header, said).map_err(|it| it.code), expected, "{header:?} {said:?}");
        }
        assert_eq!(agree(&Only::Several, Some(new)).unwrap_err().code, HeaderMismatch);
    }

    #[test]
    fn an_unsupported_version_is_named_beside_those_that_are_supported() {
        let data: serde_json::Value = serde_json::from_str(&unsupported_version("v999").data).unwrap();
        assert_eq!((&data["requested"], data["supported"].as_array().unwrap().len()), (&"v999".into(), 5));
    }
}
