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

const PROMPTS: &str = "prompts";
const RESOURCES: &str = "resources";

/// The state that a listener's client has seen.
#[derive(Default)]
pub(super) struct Watch {
    /// The watched lists, by the name in their notifications.
    lists: BTreeMap<&'static str, Vec<Arc<List>>>,
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
        let wanted = [(PROMPTS, filter.prompts_list_changed), (RESOURCES, filter.resources_list_changed)];
        let wanted = wanted.into_iter().filter(|(_, is_wanted)| *is_wanted);
        let lists = wanted.map(|(name, _)| (name, lists(shard, viewer, name))).collect();
        Ok(Self { lists, watched, notified_workers })
    }

    /// Watches all changes for a client with a session, including the session's subscriptions.
    pub(super) fn for_session(shard: &Shard, viewer: Viewer<'_>) -> Self {
        let lists = [PROMPTS, RESOURCES].map(|name| (name, lists(shard, viewer, name))).into();
        Self { lists, ..Self::default() }
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
        self.lists.is_empty() && self.watched.is_empty()
    }

    /// Returns the watched items, as fields of a filter.
    pub(super) fn filter_fields(&self) -> serde_json::Map<String, serde_json::Value> {
        let granted = self.lists.keys().map(|name| (format!("{name}ListChanged"), true.into()));
        let mut granted: serde_json::Map<_, _> = granted.collect();
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
        for (name, seen) in &mut self.lists {
            let now = lists(shard, viewer, name);
            if *seen != now {
                *seen = now;
                said.push(notification(&format!("notifications/{name}/list_changed"), &format!("{{{tag}}}")));
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

/// Returns the current lists behind the name of a notification. The one of resources is also that of templates.
fn lists(shard: &Shard, viewer: Viewer<'_>, name: &str) -> Vec<Arc<List>> {
    let kinds = if name == PROMPTS { &[ListKind::Prompts][..] } else { &[ListKind::Resources, ListKind::Templates] };
    kinds.iter().map(|kind| current(shard, *kind, viewer)).collect()
}
