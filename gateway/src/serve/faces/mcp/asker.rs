//! Who asks, and by which revision of the protocol. Clients of the newest revision say so in each request; older ones have a
//! session, or speak without one.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use openskill_proto::timestamp::Timestamp;

use super::answer::{SESSION, refuse};
use super::headers::{Only, only};
use super::jsonrpc::{Code, Fault, Params};
use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::mcp::revision::Revision;
use crate::mcp::session::{Abilities, Session};
use crate::serve::layers::request_context;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asker {
    pub(super) revision: Revision,
    /// None for a client of the newest revision, or an older one that goes without.
    pub(super) session: Option<Session>,
}

/// A request that is refused before its method counts.
pub(super) type Refused = (StatusCode, Fault);

impl Asker {
    /// Reads the revision and the session of a request. `params`: of its message; none for a request without a body.
    pub(super) fn of(
        shard: &Shard,
        headers: &HeaderMap,
        principal: &Principal,
        params: Option<&Params>,
    ) -> Result<Self, Refused> {
        let said = params.and_then(|it| it.meta.as_ref()?.version.as_deref());
        let agreed = agree(&only(headers, &VERSION), said).map_err(|fault| (StatusCode::BAD_REQUEST, fault))?;
        if let Some(revision) = agreed.filter(|it| it.is_stateless()) {
            return Ok(Self { revision, session: None });
        }
        let session = session(shard, headers, principal)?;
        let revision = session.map(|it| it.revision).or(agreed).unwrap_or(Revision::WITHOUT_HEADER);
        Ok(Self { revision, session })
    }

    /// The name of the session in this process. Empty if there is none.
    pub(super) fn session_name(&self) -> &str {
        self.session.as_ref().map(Session::name).unwrap_or_default()
    }
}

/// The revision that the header and the message name; none if neither does. The two must not differ: another program on the way
/// may have read only one.
fn agree(header: &Only<'_>, said: Option<&str>) -> Result<Option<Revision>, Fault> {
    let mismatch = |message: &str| Err(Fault::new(Code::HeaderMismatch, message));
    let newest = Revision::V2026_07_28.name();
    let name = match (header, said) {
        (Only::Several, _) => return mismatch("MCP-Protocol-Version is there more than once"),
        (Only::None, None) => return Ok(None),
        (Only::One(header), None) if *header == newest => {
            let field = "params._meta[\"io.modelcontextprotocol/protocolVersion\"]";
            return Err(Fault::new(Code::InvalidParams, format!("{field} is missing")));
        }
        (Only::One(header), None) => *header,
        (Only::None, Some(said)) if Revision::named(said).is_some_and(|it| !it.is_stateless()) => said,
        (Only::None, Some(_)) => return mismatch("the header MCP-Protocol-Version is missing"),
        (Only::One(header), Some(said)) if *header != said => {
            return mismatch("MCP-Protocol-Version differs from the version in params._meta");
        }
        (Only::One(_), Some(said)) => said,
    };
    Revision::named(name).map(Some).ok_or_else(|| unsupported(name))
}

fn unsupported(requested: &str) -> Fault {
    let supported: Vec<_> = Revision::ALL.iter().map(|it| it.name()).collect();
    let requested: String = requested.chars().take(64).collect();
    let data = serde_json::json!({ "supported": supported, "requested": requested });
    Fault::new(Code::UnsupportedVersion, "this version of the protocol is not supported").with_data(data.to_string())
}

/// The session that the headers name. A client that gets 404 begins a new one.
fn session(shard: &Shard, headers: &HeaderMap, principal: &Principal) -> Result<Option<Session>, Refused> {
    let state = &shard.gateway.mcp;
    let found = match only(headers, &SESSION) {
        Only::None => return Ok(None),
        Only::Several => None,
        Only::One(id) => Session::read(id.as_bytes(), &state.key, principal.name(), now_s()),
    };
    let found = found.filter(|it| !state.clients.has_ended(principal.name(), it.name()));
    found.map(Some).ok_or_else(|| {
        let message = "there is no such session, or it has ended: send initialize without Mcp-Session-Id";
        (StatusCode::NOT_FOUND, Fault::new(Code::InvalidRequest, message))
    })
}

/// Begins a session. Returns its id.
pub(super) fn begin(shard: &Shard, revision: Revision, abilities: Abilities, principal: &Principal) -> String {
    Session::begin(revision, abilities, now_s()).id(&shard.gateway.mcp.key, principal.name())
}

fn now_s() -> u64 {
    Timestamp::now().0 / 1_000_000
}

/// `DELETE /mcp`.
pub(super) fn delete(shard: &Shard, request: &Request) -> Response {
    let principal = request_context(request.extensions()).principal;
    match session(shard, request.headers(), &principal) {
        Ok(Some(session)) => {
            shard.gateway.mcp.clients.end(principal.name(), session.name());
            StatusCode::NO_CONTENT.into_response()
        }
        Ok(None) => {
            let fault = Fault::new(Code::InvalidRequest, "the header Mcp-Session-Id says which session to end");
            refuse(StatusCode::BAD_REQUEST, None, &fault)
        }
        Err((status, fault)) => refuse(status, None, &fault),
    }
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
        let data: serde_json::Value = serde_json::from_str(&unsupported("v999").data).unwrap();
        assert_eq!((&data["requested"], data["supported"].as_array().unwrap().len()), (&"v999".into(), 5));
    }
}
