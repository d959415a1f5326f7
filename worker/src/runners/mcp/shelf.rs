//! Lists a server's prompts, resources and resource templates.

use std::collections::BTreeMap;
use std::time::Duration;

use openskill_log::admits;
use openskill_proto::v1::{Offering, OfferingKind};
use rmcp::model::{ClientRequest, CustomRequest, CustomResult, ServerResult};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value, json};

use crate::manifest::Manifest;
use crate::runners::http::secrets::Secrets;

/// Limits on each of a server's lists.
const MAX_PAGES: usize = 100;
const MAX_ITEMS: usize = 2000;
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;
const MAX_KEY_BYTES: usize = 2048;

/// The timeout for all lists together.
const PATIENCE: Duration = Duration::from_secs(10);

type Items = BTreeMap<String, Map<String, Value>>;

/// The most recent definitions from a server, by name, URI or template.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct McpOfferings {
    prompts: Items,
    resources: Items,
    templates: Items,
}

impl McpOfferings {
    /// Requests the lists that the server declares. A list that fails is empty, because the server's tools work
    /// without it.
    pub(super) async fn ask(peer: &Peer<RoleClient>) -> Self {
        let (has_prompts, has_resources) = peer.peer_info().map_or((false, false), |info| {
            (info.capabilities.prompts.is_some(), info.capabilities.resources.is_some())
        });
        let lists = async {
            let mut offerings = Self::default();
            if has_prompts {
                offerings.prompts = list(peer, "prompts/list", "prompts", "name").await;
            }
            if has_resources {
                offerings.resources = list(peer, "resources/list", "resources", "uri").await;
                offerings.templates = list(peer, "resources/templates/list", "resourceTemplates", "uriTemplate").await;
            }
            offerings
        };
        tokio::time::timeout(PATIENCE, lists).await.unwrap_or_default()
    }

    /// Returns whether all lists are empty.
    pub(super) fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.resources.is_empty() && self.templates.is_empty()
    }

    /// Converts the offerings to the form that is sent to the gateway.
    pub(super) fn to_proto(&self, server: &Manifest, secrets: &Secrets) -> Vec<Offering> {
        let all = [
            (OfferingKind::Prompt, &self.prompts),
            (OfferingKind::Resource, &self.resources),
            (OfferingKind::Template, &self.templates),
        ];
        let offering = |kind: OfferingKind, (key, definition): (&String, &Map<String, Value>)| Offering {
            kind: kind.into(),
            owner: server.id.clone(),
            toolset: server.toolset.clone(),
            key: key.clone(),
            definition_json: secrets.scrub_json(Value::Object(definition.clone()).to_string()),
            of_server: true,
        };
        all.into_iter().flat_map(|(kind, items)| items.iter().map(move |item| offering(kind, item))).collect()
    }
}

/// Reads all pages of a list, within the limits.
async fn list(peer: &Peer<RoleClient>, method: &str, field: &str, key: &str) -> Items {
    let (mut items, mut bytes, mut cursor) = (Items::new(), 0, None::<String>);
    for _ in 0..MAX_PAGES {
        let params = cursor.take().map_or_else(|| json!({}), |it| json!({ "cursor": it }));
        let Ok(page) = ask(peer, method, params).await else { break };
        for definition in page.get(field).and_then(Value::as_array).into_iter().flatten() {
            let Some(fields) = definition.as_object() else { continue };
            let name = fields.get(key).and_then(Value::as_str).unwrap_or_default();
            let is_usable = !name.is_empty() && name.len() <= MAX_KEY_BYTES && !name.chars().any(char::is_control);
            bytes += definition.to_string().len();
            if items.len() >= MAX_ITEMS || bytes > MAX_LIST_BYTES {
                if admits("the list of a server is truncated") {
                    tracing::warn!(method, "the list of an MCP server is truncated: it is too long");
                }
                return items;
            }
            if is_usable {
                let mut fields = fields.clone();
                // Clients would load icons, so only pinned ones are passed on, as for tools.
                fields.remove("icons");
                items.insert(name.to_owned(), fields);
            }
        }
        match page.get("nextCursor").and_then(Value::as_str).filter(|it| !it.is_empty()) {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    items
}

/// Sends a request, and returns its result unchanged.
///
/// # Errors
/// Fails if the server refuses the request or the connection is lost.
pub(super) async fn ask(peer: &Peer<RoleClient>, method: &str, params: Value) -> Result<Value, ServiceError> {
    let request = CustomRequest::new(method.to_owned(), Some(params));
    let result = peer.send_request(ClientRequest::CustomRequest(request)).await?;
    Ok(match result {
        ServerResult::CustomResult(CustomResult(Value::String(json))) => {
            serde_json::from_str(&json).unwrap_or_default()
        }
        ServerResult::CustomResult(result) => result.0,
        other => serde_json::to_value(other).unwrap_or_default(),
    })
}
