//! What the server says of itself: `initialize` and `server/discover`.

use serde_json::{Value, json};

use super::asker;
use super::capabilities::{Capabilities, TASKS};
use super::jsonrpc::{Code, Fault, Params};
use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::mcp::revision::Revision;

/// How long a client may rely on `server/discover`, in milliseconds.
const DISCOVER_TTL_MS: u64 = 60_000;

/// The program, as results name it.
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

/// Who may share a result: with keys, each principal sees its own skills.
pub(super) fn cache_scope(shard: &Shard) -> &'static str {
    if shard.gateway.registry.is_some() { "private" } else { "public" }
}

/// `initialize`: the result, and the id of the session that begins.
pub(super) fn initialize(shard: &Shard, params: &Params, principal: &Principal) -> Result<(String, String), Fault> {
    let Some(asked) = &params.protocol_version else {
        return Err(Fault::new(Code::InvalidParams, "params.protocolVersion is missing"));
    };
    let known = Revision::named(asked).filter(|it| !it.is_stateless());
    let revision = known.unwrap_or(Revision::NEWEST_WITH_SESSIONS);
    let abilities = params.capabilities.as_ref().map(Capabilities::abilities).unwrap_or_default();
    let result = json!({
        "protocolVersion": revision.name(),
        "capabilities": capabilities(),
        "serverInfo": server_info(),
    });
    Ok((result.to_string(), asker::begin(shard, revision, abilities, principal)))
}

/// `server/discover`.
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
