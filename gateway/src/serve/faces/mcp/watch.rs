//! Finds changes for a listener, other than in the list of tools: in the lists of prompts and resources, and in
//! subscribed resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::jsonrpc::{Filter, Id, RpcError, notification};
use super::offerings::{ListKind, Viewer, current, fault};
use crate::dispatch::consult::tell_all;
use crate::gateway::Shard;
use crate::mcp::pages::List;

/// The maximum number of resources that one listener watches.
pub(super) const MAX_WATCHED: usize = 64;

/// The maximum length of a watched resource's URI, in bytes.
pub(super) const MAX_URI: usize = 2048;

/// The state that a listener's client has seen.
#[derive(Default)]
pub(super) struct Watch {
    prompts: Option<Arc<List>>,
    resources: Option<(Arc<List>, Arc<List>)>,
    /// The last known state of each watched resource.
    watched: BTreeMap<String, String>,
    /// By URI, the workers that know about the subscription to a resource of their servers, as instance ids.
    notified_workers: BTreeMap<String, Vec<String>>,
}

impl Watch {
    /// Watches the changes that a client wants.
    ///
    /// # Errors
    /// The gateway sheds load.
    pub(super) async fn for_filter(shard: &Shard, viewer: Viewer<'_>, filter: &Filter) -> Result<Self, RpcError> {
        let (mut watched, mut notified_workers) = (BTreeMap::new(), BTreeMap::new());
        for uri in filter.resource_subscriptions.iter().take(MAX_WATCHED).filter(|it| it.len() <= MAX_URI) {
            let owners = owners(shard, viewer, uri);
            if let Some(state) = subscribe(shard, viewer, uri).await? {
                watched.insert(uri.clone(), state);
                notified_workers.insert(uri.clone(), owners);
            }
        }
        Ok(Self {
            prompts: filter.prompts_list_changed.then(|| prompts(shard, viewer)),
            resources: filter.resources_list_changed.then(|| resources(shard, viewer)),
            watched,
            notified_workers,
        })
    }

    /// Watches all changes for a client with a session, including the session's subscriptions.
    pub(super) fn for_session(shard: &Shard, viewer: Viewer<'_>) -> Self {
        let (prompts, resources) = (prompts(shard, viewer), resources(shard, viewer));
        Self { prompts: Some(prompts), resources: Some(resources), ..Self::default() }
    }

    /// Announces the subscriptions to new and restarted workers whose servers own the resources.
    pub(super) async fn renew(&mut self, shard: &Shard, viewer: Viewer<'_>) {
        let mut uris: Vec<String> = self.watched.keys().cloned().collect();
        if !viewer.session_id.is_empty() {
            uris.extend(shard.gateway.mcp.clients.subscribed_uris(viewer.principal.name(), viewer.session_id));
        }
        self.notified_workers.retain(|uri, _| uris.contains(uri));
        for uri in uris {
            let owners = owners(shard, viewer, &uri);
            let is_told = |it| self.notified_workers.get(&uri).is_some_and(|instances| instances.contains(it));
            // Without a permit, this is retried after the next change.
            if !owners.iter().all(is_told) && subscribe(shard, viewer, &uri).await.is_ok() {
                self.notified_workers.insert(uri, owners);
            }
        }
    }

    /// Whether the client watches no changes.
    pub(super) fn is_nothing(&self) -> bool {
        self.prompts.is_none() && self.resources.is_none() && self.watched.is_empty()
    }

    /// Returns the watched items, as fields of a filter.
    pub(super) fn filter_fields(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut granted = serde_json::Map::new();
        if self.prompts.is_some() {
            granted.insert("promptsListChanged".to_owned(), true.into());
        }
        if self.resources.is_some() {
            granted.insert("resourcesListChanged".to_owned(), true.into());
        }
        if !self.watched.is_empty() {
            granted.insert("resourceSubscriptions".to_owned(), self.watched.keys().cloned().collect());
        }
        granted
    }

    /// Returns notifications about changes since the last call. `id` is the subscription's.
    pub(super) fn changes(&mut self, shard: &Shard, viewer: Viewer<'_>, id: Option<&Id>) -> Vec<String> {
        let tag = id.map(|it| format!("\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{}}}", it.json()));
        let tag = tag.unwrap_or_default();
        let mut said = Vec::new();
        if let Some(seen) = &mut self.prompts {
            let now = prompts(shard, viewer);
            if *seen != now {
                *seen = now;
                said.push(notification("notifications/prompts/list_changed", &format!("{{{tag}}}")));
            }
        }
        if let Some(seen) = &mut self.resources {
            let now = resources(shard, viewer);
            if *seen != now {
                *seen = now;
                said.push(notification("notifications/resources/list_changed", &format!("{{{tag}}}")));
            }
        }
        let (shelf, skills) = (shard.gateway.catalog.offerings(), shard.gateway.catalog.snapshot());
        // Do not announce changes of a resource that the policy or the view no longer allows.
        let state = |uri: &str| {
            let item = shelf.resource(uri, |it| viewer.sees(it, &skills))?;
            Some(shelf.revision(item, uri).to_owned())
        };
        let mut changed = Vec::new();
        for (uri, seen) in &mut self.watched {
            if let Some(now) = state(uri)
                && *seen != now
            {
                *seen = now;
                changed.push(uri.clone());
            }
        }
        if !viewer.session_id.is_empty() {
            let clients = &shard.gateway.mcp.clients;
            changed.extend(clients.take_changed_uris(viewer.principal.name(), viewer.session_id, state));
        }
        said.extend(changed.into_iter().map(|uri| {
            let uri = json!(uri);
            let separator = if tag.is_empty() { "" } else { "," };
            notification("notifications/resources/updated", &format!("{{\"uri\":{uri}{separator}{tag}}}"))
        }));
        said
    }
}

/// Makes the owner of a resource report changes. Returns the resource's state. None if the viewer has no such
/// resource.
///
/// # Errors
/// The gateway sheds load.
pub(super) async fn subscribe(shard: &Shard, viewer: Viewer<'_>, uri: &str) -> Result<Option<String>, RpcError> {
    let shelf = shard.gateway.catalog.offerings();
    let skills = shard.gateway.catalog.snapshot();
    let Some(item) = shelf.resource(uri, |it| viewer.sees(it, &skills)) else { return Ok(None) };
    if item.offering.of_server {
        let params = json!({ "uri": uri });
        let request = super::offerings::request(openskill_proto::v1::ConsultMethod::Subscribe, item, &params);
        tell_all(shard, viewer.consult_scope(), item, &request).await.map_err(fault)?;
    }
    Ok(Some(shelf.revision(item, uri).to_owned()))
}

/// Returns the instance ids of the workers whose servers own a resource.
fn owners(shard: &Shard, viewer: Viewer<'_>, uri: &str) -> Vec<String> {
    let (shelf, skills) = (shard.gateway.catalog.offerings(), shard.gateway.catalog.snapshot());
    let item = shelf.resource(uri, |it| viewer.sees(it, &skills)).filter(|it| it.offering.of_server);
    item.map(|it| it.workers.iter().filter(|it| it.is_serving()).map(|it| it.instance()).collect()).unwrap_or_default()
}

fn prompts(shard: &Shard, viewer: Viewer<'_>) -> Arc<List> {
    current(shard, ListKind::Prompts, viewer)
}

fn resources(shard: &Shard, viewer: Viewer<'_>) -> (Arc<List>, Arc<List>) {
    (current(shard, ListKind::Resources, viewer), current(shard, ListKind::Templates, viewer))
}
