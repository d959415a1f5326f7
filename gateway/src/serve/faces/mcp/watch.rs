//! What a listener hears of beside the list of tools: changes of the lists of prompts and resources, and of resources that it
//! subscribed to.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::jsonrpc::{Fault, Filter, Id, notification};
use super::shelf::{Listed, Viewer, current, fault};
use crate::dispatch::consult::tell_all;
use crate::gateway::Shard;
use crate::mcp::pages::List;

/// How many resources one listener watches.
pub(super) const MAX_WATCHED: usize = 64;

/// The longest URI of a resource that is watched, in bytes.
pub(super) const MAX_URI: usize = 2048;

/// What a listener knows.
#[derive(Default)]
pub(super) struct Watch {
    prompts: Option<Arc<List>>,
    resources: Option<(Arc<List>, Arc<List>)>,
    /// Resources and their states.
    watched: BTreeMap<String, String>,
    /// The workers that were told of a subscription to a resource of their servers, by instance.
    told: BTreeMap<String, Vec<String>>,
}

impl Watch {
    /// Watches what a client asks for.
    ///
    /// # Errors
    /// The gateway sheds load.
    pub(super) async fn of(shard: &Shard, viewer: Viewer<'_>, filter: &Filter) -> Result<Self, Fault> {
        let (mut watched, mut told) = (BTreeMap::new(), BTreeMap::new());
        for uri in filter.resource_subscriptions.iter().take(MAX_WATCHED).filter(|it| it.len() <= MAX_URI) {
            let owners = owners(shard, viewer, uri);
            if let Some(state) = subscribe(shard, viewer, uri).await? {
                watched.insert(uri.clone(), state);
                told.insert(uri.clone(), owners);
            }
        }
        Ok(Self {
            prompts: filter.prompts_list_changed.then(|| prompts(shard, viewer)),
            resources: filter.resources_list_changed.then(|| resources(shard, viewer)),
            watched,
            told,
        })
    }

    /// Watches everything that a client with a session hears of. Its subscriptions are its session's.
    pub(super) fn of_session(shard: &Shard, viewer: Viewer<'_>) -> Self {
        let (prompts, resources) = (prompts(shard, viewer), resources(shard, viewer));
        Self { prompts: Some(prompts), resources: Some(resources), ..Self::default() }
    }

    /// Tells workers that came since, or started again, of the subscriptions to resources of their servers.
    pub(super) async fn renew(&mut self, shard: &Shard, viewer: Viewer<'_>) {
        let mut uris: Vec<String> = self.watched.keys().cloned().collect();
        if !viewer.session_id.is_empty() {
            uris.extend(shard.gateway.mcp.clients.subscribed(viewer.principal.name(), viewer.session_id));
        }
        self.told.retain(|uri, _| uris.contains(uri));
        for uri in uris {
            let owners = owners(shard, viewer, &uri);
            let is_told = |it| self.told.get(&uri).is_some_and(|told| told.contains(it));
            // Without a permit, it is tried again after the next change.
            if !owners.iter().all(is_told) && subscribe(shard, viewer, &uri).await.is_ok() {
                self.told.insert(uri, owners);
            }
        }
    }

    /// Whether there is anything to watch.
    pub(super) fn is_nothing(&self) -> bool {
        self.prompts.is_none() && self.resources.is_none() && self.watched.is_empty()
    }

    /// What is watched, as fields of a filter.
    pub(super) fn granted(&self) -> serde_json::Map<String, serde_json::Value> {
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

    /// The notifications of what has changed since. `id`: of the subscription.
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
        let (shelf, skills) = (shard.gateway.catalog.shelf(), shard.gateway.catalog.snapshot());
        // A resource that the policy or the view no longer allows is not announced.
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
            changed.extend(clients.changed(viewer.principal.name(), viewer.session_id, state));
        }
        said.extend(changed.into_iter().map(|uri| {
            let uri = json!(uri);
            let separator = if tag.is_empty() { "" } else { "," };
            notification("notifications/resources/updated", &format!("{{\"uri\":{uri}{separator}{tag}}}"))
        }));
        said
    }
}

/// Has the owner of a resource tell of its changes from now on. Returns its state; none if it does not exist for the viewer.
///
/// # Errors
/// The gateway sheds load.
pub(super) async fn subscribe(shard: &Shard, viewer: Viewer<'_>, uri: &str) -> Result<Option<String>, Fault> {
    let shelf = shard.gateway.catalog.shelf();
    let skills = shard.gateway.catalog.snapshot();
    let Some(item) = shelf.resource(uri, |it| viewer.sees(it, &skills)) else { return Ok(None) };
    if item.offering.of_server {
        let params = json!({ "uri": uri });
        let request = super::shelf::request(openskill_proto::v1::ConsultMethod::Subscribe, item, &params);
        tell_all(shard, viewer.asks(), item, &request).await.map_err(fault)?;
    }
    Ok(Some(shelf.revision(item, uri).to_owned()))
}

/// The workers at whose servers a resource is subscribed to, by instance.
fn owners(shard: &Shard, viewer: Viewer<'_>, uri: &str) -> Vec<String> {
    let (shelf, skills) = (shard.gateway.catalog.shelf(), shard.gateway.catalog.snapshot());
    let item = shelf.resource(uri, |it| viewer.sees(it, &skills)).filter(|it| it.offering.of_server);
    item.map(|it| it.workers.iter().filter(|it| it.is_serving()).map(|it| it.instance()).collect()).unwrap_or_default()
}

fn prompts(shard: &Shard, viewer: Viewer<'_>) -> Arc<List> {
    current(shard, Listed::Prompts, viewer)
}

fn resources(shard: &Shard, viewer: Viewer<'_>) -> (Arc<List>, Arc<List>) {
    (current(shard, Listed::Resources, viewer), current(shard, Listed::Templates, viewer))
}
