//! `tools/list`: all tools of the caller on one page, unless they are very many.

use std::sync::Arc;

use super::hello::{cache_scope, server_info};
use super::jsonrpc::{Code, Fault, Params, string};
use super::search;
use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::mcp::pages::List;
use crate::mcp::revision::Revision;
use crate::mcp::seal::Purpose;
use crate::mcp::views::{ListMode, View};
use crate::serve::tools;

/// How long a client may rely on a list, in milliseconds. One that listens for changes hears of them sooner.
pub(super) const TTL_MS: u64 = 5_000;

/// The tools of a principal in a view, as they are now.
pub(super) fn current(shard: &Shard, view: &Arc<View>, principal: &Principal) -> Arc<List> {
    let gateway = &shard.gateway;
    // Read first: a list that is newer than its number is written once more.
    let change = gateway.catalog.change();
    gateway.mcp.pages.get(principal, view, change, || {
        let mut listed = tools::of_mcp(gateway, principal, view);
        if view.list == ListMode::Search {
            listed.extend(search::own(view));
            listed.sort();
        }
        List::new(listed)
    })
}

/// The result of `tools/list`.
pub(super) fn tools(
    shard: &Shard,
    view: &Arc<View>,
    params: &Params,
    principal: &Principal,
    revision: Revision,
) -> Result<String, Fault> {
    let key = &shard.gateway.mcp.key;
    let after = match &params.cursor {
        None => None,
        Some(cursor) => {
            let name = key.open(Purpose::Cursor, principal.name(), cursor.as_bytes());
            let name = name.and_then(|it| String::from_utf8(it).ok());
            Some(name.ok_or_else(|| Fault::new(Code::InvalidParams, "the cursor is not one of this list"))?)
        }
    };
    let list = current(shard, view, principal);
    let page = list.page(after.as_deref());
    let mut text = String::with_capacity(page.tools.len() + 512);
    text.push_str("{\"tools\":[");
    text.push_str(std::str::from_utf8(page.tools).unwrap_or_default());
    text.push(']');
    if let Some(last) = page.last {
        text.push_str(",\"nextCursor\":");
        text.push_str(&string(&key.seal(Purpose::Cursor, principal.name(), last.as_bytes())));
    }
    if revision.is_stateless() {
        text.push_str(&cacheable(shard, TTL_MS));
    }
    text.push('}');
    Ok(text)
}

/// The fields of a result that clients may keep, since 2026-07-28.
pub(super) fn cacheable(shard: &Shard, ttl_ms: u64) -> String {
    let (scope, server) = (cache_scope(shard), server_info());
    format!(
        ",\"resultType\":\"complete\",\"ttlMs\":{ttl_ms},\"cacheScope\":\"{scope}\",\
         \"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{server}}}"
    )
}
