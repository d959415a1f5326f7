//! A server's prompts, resources and templates, as the worker offers them.

use std::time::Duration;

use openskill_proto::v1::{Offering, OfferingKind};
use openskill_telemetry::log::admits;
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value};

use super::lists::{IncompleteList, Items, MAX_KEY_BYTES, McpList};
use crate::manifest::Manifest;
use crate::runners::http::secrets::Secrets;

/// The maximum size of a list, in bytes.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// The timeout for all lists together.
const PATIENCE: Duration = Duration::from_secs(10);

/// The lists of a server, except for its tools.
const LISTS: [(OfferingKind, McpList); 3] = [
    (OfferingKind::Prompt, list("prompts/list", "prompts", "name")),
    (OfferingKind::Resource, list("resources/list", "resources", "uri")),
    (OfferingKind::Template, list("resources/templates/list", "resourceTemplates", "uriTemplate")),
];

const fn list(method: &'static str, field: &'static str, key: &'static str) -> McpList {
    McpList { method, field, key, is_required: false, max_key_bytes: MAX_KEY_BYTES, max_bytes: MAX_LIST_BYTES }
}

/// The most recent definitions from a server, for each of [`LISTS`].
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct McpOfferings([Items; LISTS.len()]);

impl McpOfferings {
    /// Requests the lists that the server declares. A list that fails is empty, because the server's tools work
    /// without it.
    pub(super) async fn ask(peer: &Peer<RoleClient>) -> Self {
        let Some(info) = peer.peer_info() else { return Self::default() };
        let lists = async {
            let mut offerings = Self::default();
            for (items, (kind, list)) in offerings.0.iter_mut().zip(LISTS) {
                let is_declared = match kind {
                    OfferingKind::Prompt => info.capabilities.prompts.is_some(),
                    _ => info.capabilities.resources.is_some(),
                };
                if is_declared
                    && let Err(IncompleteList::TooLong) = list.read(peer, items).await
                    && admits("the list of a server is truncated")
                {
                    tracing::warn!(method = list.method, "the list of an MCP server is truncated: it is too long");
                }
                // Clients would load icons, so only pinned ones are passed on, as for tools.
                items.values_mut().for_each(|fields| drop(fields.remove("icons")));
            }
            offerings
        };
        tokio::time::timeout(PATIENCE, lists).await.unwrap_or_default()
    }

    /// Returns whether all lists are empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Items::is_empty)
    }

    /// Converts the offerings to the form that is sent to the gateway.
    pub(super) fn to_proto(&self, server: &Manifest, secrets: &Secrets) -> Vec<Offering> {
        let offering = |kind: OfferingKind, (key, definition): (&String, &Map<String, Value>)| Offering {
            kind: kind.into(),
            owner: server.id.clone(),
            toolset: server.toolset.clone(),
            key: key.clone(),
            definition_json: secrets.scrub_json(Value::Object(definition.clone()).to_string()),
            of_server: true,
        };
        let all = LISTS.into_iter().zip(&self.0);
        all.flat_map(|((kind, _), items)| items.iter().map(move |item| offering(kind, item))).collect()
    }
}
