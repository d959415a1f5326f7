//! A server's prompts and resources: lists them, asks for their content, and records which resources have changed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::v1::{
    ConsultMethod, ConsultRequest, ErrorCode, Offering, OfferingKind, ResourceUpdate, SkillError,
};
use openskill_sandbox::untrusted_json::{is_heavy, off_shard};
use openskill_telemetry::log::admits;
use parking_lot::Mutex;
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::lists::{IncompleteList, Items, McpList, ask};
use super::message::TOO_LARGE;
use super::server::Server;
use super::texts::clean;
use crate::manifest::Manifest;
use crate::runners::http::secrets::Secrets;

/// Limits on each of a server's lists.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;
const MAX_KEY_BYTES: usize = 2048;

/// The maximum number of watched resources per server.
const MAX_WATCHED: usize = 1000;

/// The timeout for all lists together, and for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 12 * 1024 * 1024;

/// The maximum length of an error message, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The lists of a server, except for its tools.
const LISTS: [(OfferingKind, McpList); 3] = [
    (OfferingKind::Prompt, list("prompts/list", "prompts", "name")),
    (OfferingKind::Resource, list("resources/list", "resources", "uri")),
    (OfferingKind::Template, list("resources/templates/list", "resourceTemplates", "uriTemplate")),
];

const fn list(method: &'static str, field: &'static str, key: &'static str) -> McpList {
    McpList { method, field, key, max_key_bytes: MAX_KEY_BYTES, max_bytes: MAX_LIST_BYTES }
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

/// Asks the server, and returns its answer with secrets masked.
///
/// # Errors
/// Returns the reason, for people, if the server is unreachable or refuses.
pub(super) async fn consult(server: Arc<Server>, request: ConsultRequest) -> Result<String, SkillError> {
    let params: Value = serde_json::from_str(&request.params_json).unwrap_or_default();
    let method = match request.method() {
        ConsultMethod::Prompt => "prompts/get",
        ConsultMethod::Read => "resources/read",
        ConsultMethod::Complete => "completion/complete",
        ConsultMethod::Subscribe => "resources/subscribe",
    };
    let until = Instant::now() + PATIENCE;
    let reserved = server.reserve(until).await.map_err(|reason| SkillError::new(ErrorCode::Unavailable, reason))?;
    if request.method() == ConsultMethod::Subscribe {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        if !server.subscriptions.add(uri) {
            let message = "the server has too many subscriptions";
            return Err(SkillError::new(ErrorCode::Overloaded, message));
        }
    }
    let asked = tokio::time::timeout_at(until.into(), ask(&reserved.connection.peer, method, params)).await;
    match asked {
        Ok(Ok(result)) => {
            let secrets = Arc::clone(&server.secrets);
            let json = off_shard(is_heavy(&result), move || {
                let json = Some(result.to_string()).filter(|it| it.len() <= MAX_ANSWER_BYTES);
                json.map(|it| secrets.scrub_json(it))
            });
            json.await.ok_or_else(|| {
                let message = format!("the answer has more than {MAX_ANSWER_BYTES} bytes");
                SkillError::new(ErrorCode::OutputTooLarge, message)
            })
        }
        Ok(Err(ServiceError::McpError(error))) => {
            let code = match error.code.0 {
                -32002 | -32601 => ErrorCode::NotFound,
                -32602 => ErrorCode::InvalidArgument,
                TOO_LARGE => ErrorCode::OutputTooLarge,
                _ => ErrorCode::McpExecutionError,
            };
            let message = clean(&server.secrets.scrub_text(error.message.into_owned()), MAX_MESSAGE_BYTES);
            Err(SkillError::new(code, message))
        }
        Ok(Err(_)) => Err(SkillError::new(ErrorCode::Unavailable, "the connection to the server was lost")),
        Err(_) => Err(SkillError::new(ErrorCode::Unavailable, "the server did not answer in time")),
    }
}

/// Restores all subscriptions on a new connection.
pub(super) async fn subscribe_again(server: &Server, peer: &Peer<RoleClient>) {
    for uri in server.subscriptions.uris() {
        // If this fails, subscribers miss changes to the resource, but can still read it.
        let _ = tokio::time::timeout(PATIENCE, ask(peer, "resources/subscribe", json!({ "uri": uri }))).await;
        server.subscriptions.note_change(&uri);
    }
}

/// The watched resources, with the number of changes to each.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<BTreeMap<String, u64>>);

impl Subscriptions {
    /// Watches a resource. Returns false if too many are watched.
    pub(super) fn add(&self, uri: &str) -> bool {
        let mut watched = self.0.lock();
        if !watched.contains_key(uri) && (watched.len() >= MAX_WATCHED || uri.is_empty() || uri.len() > MAX_KEY_BYTES) {
            return false;
        }
        watched.entry(uri.to_owned()).or_default();
        true
    }

    /// Records a change to a resource. Returns whether the resource is watched.
    pub(super) fn note_change(&self, uri: &str) -> bool {
        self.0.lock().get_mut(uri).map(|count| *count += 1).is_some()
    }

    pub(super) fn uris(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }

    /// Returns the state of each watched resource, for gateways.
    pub(super) fn updates(&self, owner: &str) -> Vec<ResourceUpdate> {
        let update = |(uri, count): (&String, &u64)| ResourceUpdate {
            owner: owner.to_owned(),
            uri: uri.clone(),
            revision: count.to_string(),
        };
        self.0.lock().iter().map(update).collect()
    }
}

/// The resources that the server has reported as changed.
#[derive(Debug, Default)]
pub(super) struct ChangedResources {
    uris: Mutex<HashSet<String>>,
    pub(super) some: Notify,
}

impl ChangedResources {
    pub(super) fn add(&self, uri: String) {
        let mut uris = self.uris.lock();
        if uris.len() < MAX_WATCHED && uri.len() <= MAX_KEY_BYTES {
            uris.insert(uri);
            drop(uris);
            self.some.notify_one();
        }
    }

    pub(super) fn take(&self) -> HashSet<String> {
        std::mem::take(&mut *self.uris.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_watched_counts_and_its_number_is_bounded() {
        let subscriptions = Subscriptions::default();
        assert!(subscriptions.add("a:b") && !subscriptions.note_change("a:c") && subscriptions.note_change("a:b"));
        let [update] = &subscriptions.updates("s")[..] else { panic!() };
        assert_eq!((update.owner.as_str(), update.uri.as_str(), update.revision.as_str()), ("s", "a:b", "1"));
        assert!((0..MAX_WATCHED - 1).all(|it| subscriptions.add(&format!("a:{it}"))));
        assert!(!subscriptions.add("a:more") && subscriptions.add("a:b") && !subscriptions.add(""));
    }

    #[test]
    fn changes_are_taken_once() {
        let changed = ChangedResources::default();
        ["a:b", "a:b", "a:c"].into_iter().for_each(|it| changed.add(it.to_owned()));
        assert_eq!((changed.take().len(), changed.take().len()), (2, 0));
    }
}
