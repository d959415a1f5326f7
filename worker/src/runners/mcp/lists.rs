//! Requests to a server whose results stay as the server sent them, and its lists, page by page.

use std::collections::BTreeMap;

use rmcp::model::{ClientRequest, CustomRequest, CustomResult, ServerResult};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value, json};

/// Limits on each of a server's lists.
pub(super) const MAX_PAGES: usize = 100;
pub(super) const MAX_ITEMS: usize = 2000;

/// The maximum length of a URI and of a prompt's name, in bytes.
pub(super) const MAX_KEY_BYTES: usize = 2048;

/// Definitions by name, URI or template, as the server sent them.
pub(super) type Items = BTreeMap<String, Map<String, Value>>;

/// One of a server's lists.
pub(super) struct McpList {
    /// The method that requests a page.
    pub(super) method: &'static str,
    /// The field of a page that contains definitions.
    pub(super) field: &'static str,
    /// The field of a definition that contains its key.
    pub(super) key: &'static str,
    /// Whether a page without definitions is an error.
    pub(super) is_required: bool,
    /// The maximum length of a key, in bytes.
    pub(super) max_key_bytes: usize,
    /// The maximum size of all definitions together, in bytes.
    pub(super) max_bytes: usize,
}

/// Why a list is incomplete.
pub(super) enum IncompleteList {
    /// The server refused a page, or the connection was lost.
    Failed(ServiceError),
    /// A page has no definitions.
    Malformed,
    /// The list exceeds [`MAX_ITEMS`] or its maximum size.
    TooLong,
    /// The list exceeds [`MAX_PAGES`].
    TooManyPages,
}

impl McpList {
    /// Reads all pages into `items`. Skips malformed definitions. Returns how many others it skips because their keys
    /// are unusable.
    pub(super) async fn read(&self, peer: &Peer<RoleClient>, items: &mut Items) -> Result<u32, IncompleteList> {
        let (mut bytes, mut unusable, mut cursor) = (0, 0, None::<String>);
        for _ in 0..MAX_PAGES {
            let params = cursor.take().map_or_else(|| json!({}), |it| json!({ "cursor": it }));
            let mut page = ask(peer, self.method, params).await.map_err(IncompleteList::Failed)?;
            let definitions = match page.get_mut(self.field).map(Value::take) {
                Some(Value::Array(definitions)) => definitions,
                _ if self.is_required => return Err(IncompleteList::Malformed),
                _ => Vec::new(),
            };
            for definition in definitions.into_iter().filter(Value::is_object) {
                bytes += definition.to_string().len();
                let key = definition.get(self.key).and_then(Value::as_str).unwrap_or_default().to_owned();
                if key.is_empty() || key.len() > self.max_key_bytes || key.chars().any(char::is_control) {
                    unusable += 1;
                    continue;
                }
                if items.len() >= MAX_ITEMS || bytes > self.max_bytes {
                    return Err(IncompleteList::TooLong);
                }
                if let Value::Object(fields) = definition {
                    items.insert(key, fields);
                }
            }
            match page.get("nextCursor").and_then(Value::as_str).filter(|it| !it.is_empty()) {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(unusable),
            }
        }
        Err(IncompleteList::TooManyPages)
    }
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
