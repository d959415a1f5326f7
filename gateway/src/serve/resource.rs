//! The gateway as an OAuth 2.1 resource server: where clients learn whom to ask for a token, and with which scopes (RFC 9728,
//! RFC 6750). Tokens themselves are checked in [`crate::identity`].

use std::sync::Arc;

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri, header};
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::identity::registry::Registry;
use crate::mcp::views::{View, Views};

/// Where MCP is served, and where the metadata of a path begins.
const MCP: &str = "/mcp";
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";

/// The longest host that is repeated, in bytes.
const MAX_HOST: usize = 255;

/// What a gateway that takes tokens says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    registry: Arc<Registry>,
    views: Arc<Views>,
    /// The URL of the gateway, if an operator says it.
    url: Option<String>,
    is_encrypted: bool,
}

impl Resource {
    /// None if no token counts at this gateway.
    pub(crate) fn of(gateway: &Gateway) -> Option<Self> {
        let registry = gateway.registry.as_ref().filter(|it| it.issuers().is_some())?;
        Some(Self {
            registry: Arc::clone(registry),
            views: Arc::clone(&gateway.mcp.views),
            url: gateway.config.public_url.clone(),
            is_encrypted: gateway.config.tls.is_some(),
        })
    }

    /// What a request at `path` without valid credentials is told. None if the path does not belong to MCP.
    pub(crate) fn challenge(&self, uri: &Uri, headers: &HeaderMap) -> Option<HeaderValue> {
        let name = view_of(uri.path())?;
        let view = self.views.get(name);
        // RFC 6750: a request that shows nothing is told no error.
        let error = headers.contains_key(header::AUTHORIZATION).then_some("invalid_token");
        let scopes = view.as_deref().map(|it| it.scopes.as_slice()).unwrap_or_default();
        bearer(error, scopes, self.metadata_url(uri, headers, name))
    }

    /// What a request is told whose token lacks scopes. `wanted`: all that it needs.
    pub(crate) fn insufficient(
        &self,
        (uri, headers): (&Uri, &HeaderMap),
        view: &View,
        wanted: &[String],
    ) -> Option<HeaderValue> {
        bearer(Some("insufficient_scope"), wanted, self.metadata_url(uri, headers, &view.name))
    }

    /// The metadata of a path. None if nothing is served there.
    pub(crate) fn metadata(&self, path: &str, uri: &Uri, headers: &HeaderMap) -> Option<Value> {
        let name = if path.is_empty() { "" } else { view_of(path)? };
        let view = self.views.get(name)?;
        let base = self.base(uri, headers)?;
        let scopes: Vec<_> = view.scopes.iter().chain(&view.write_scopes).collect();
        // Only an issuer that is a URL can be asked for a token.
        let issuers = self.registry.issuers().unwrap_or_default();
        let servers: Vec<_> = issuers.into_iter().filter(|it| it.starts_with("https://")).collect();
        let mut metadata = json!({
            // The gateway as a whole is not a resource: tokens are for its MCP endpoint.
            "resource": format!("{base}{}", if path.is_empty() { MCP } else { path }),
            "authorization_servers": servers,
            "bearer_methods_supported": ["header"],
            "resource_name": "openskill",
        });
        if !scopes.is_empty() {
            metadata["scopes_supported"] = json!(scopes);
        }
        Some(metadata)
    }

    fn metadata_url(&self, uri: &Uri, headers: &HeaderMap, view: &str) -> Option<String> {
        let base = self.base(uri, headers)?;
        let slash = if view.is_empty() { "" } else { "/" };
        Some(format!("{base}{METADATA}{MCP}{slash}{view}"))
    }

    /// The URL of the gateway as its client names it.
    fn base(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        if let Some(url) = &self.url {
            return Some(url.clone());
        }
        // HTTP/2 has the host in the URI, HTTP/1 in a header.
        let of_header = || headers.get(header::HOST).and_then(|it| it.to_str().ok());
        let host = uri.authority().map(Authority::as_str).or_else(of_header)?;
        let is_host = |it: u8| it.is_ascii_alphanumeric() || b".-:[]".contains(&it);
        if host.is_empty() || host.len() > MAX_HOST || !host.bytes().all(is_host) {
            return None;
        }
        let scheme = if self.is_encrypted { "https" } else { "http" };
        Some(format!("{scheme}://{host}"))
    }
}

/// The name of the view that a path of MCP is for.
fn view_of(path: &str) -> Option<&str> {
    match path.strip_prefix(MCP)? {
        "" => Some(""),
        rest => rest.strip_prefix('/').filter(|it| !it.is_empty() && !it.contains('/')),
    }
}

fn bearer(error: Option<&str>, scopes: &[String], metadata: Option<String>) -> Option<HeaderValue> {
    let scope = (!scopes.is_empty()).then(|| scopes.join(" "));
    let parts = [("error", error.map(str::to_owned)), ("scope", scope), ("resource_metadata", metadata)];
    let parts = parts.into_iter().filter_map(|(name, value)| Some(format!("{name}=\"{}\"", value?)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    HeaderValue::try_from(format!("Bearer {parts}").trim_end()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_mcp_have_views() {
        for (path, view) in [("/mcp", Some("")), ("/mcp/a", Some("a")), ("/mcp/", None), ("/mcp/a/b", None)] {
            assert_eq!(view_of(path), view, "{path}");
        }
        assert!(view_of("/mcps").is_none() && view_of("/skills").is_none());
    }

    #[test]
    fn a_challenge_says_what_there_is_to_say() {
        let scopes = ["a".to_owned(), "b".to_owned()];
        let full = bearer(Some("insufficient_scope"), &scopes, Some("https://h/m".to_owned())).unwrap();
        let expected = "Bearer error=\"insufficient_scope\", scope=\"a b\", resource_metadata=\"https://h/m\"";
        assert_eq!(full, expected);
        assert_eq!(bearer(None, &[], None).unwrap(), "Bearer");
    }
}
