//! The gateway as an OAuth 2.1 resource server: tells clients which issuer to ask for a token, and with which
//! scopes (RFC 9728, RFC 6750). [`crate::identity`] checks the tokens.

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri, header};
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::identity::registry::Registry;
use crate::mcp::views::View;

/// The MCP endpoint, which is also the first part of each view's path.
pub(crate) const MCP: &str = "/mcp";
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";

/// The maximum length of a host that is echoed, in bytes.
const MAX_HOST: usize = 255;

/// Describes a gateway that accepts tokens.
pub(crate) struct Resource<'a> {
    gateway: &'a Gateway,
    registry: &'a Registry,
}

impl<'a> Resource<'a> {
    /// None if the gateway accepts no tokens.
    pub(crate) fn for_gateway(gateway: &'a Gateway) -> Option<Self> {
        let registry = gateway.registry.as_ref().filter(|it| it.takes_tokens())?;
        Some(Self { gateway, registry })
    }

    /// Builds the challenge for a request without valid credentials. None if its path does not belong to MCP.
    pub(crate) fn challenge(&self, uri: &Uri, headers: &HeaderMap) -> Option<HeaderValue> {
        let name = view_name(uri.path())?;
        let view = self.gateway.mcp.views.get(name);
        // RFC 6750: a request without credentials gets no error code.
        let error = headers.contains_key(header::AUTHORIZATION).then_some("invalid_token");
        let scopes = view.as_deref().map(|it| it.scopes.as_slice()).unwrap_or_default();
        bearer(error, scopes, self.metadata_url(uri, headers, name))
    }

    /// Builds the challenge for a request whose token lacks scopes. `wanted` are all scopes that the request needs.
    pub(crate) fn insufficient_scope(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        view: &View,
        wanted: &[String],
    ) -> Option<HeaderValue> {
        bearer(Some("insufficient_scope"), wanted, self.metadata_url(uri, headers, &view.name))
    }

    /// Returns the metadata of a path. None if the path is not a resource.
    pub(crate) fn metadata(&self, path: &str, uri: &Uri, headers: &HeaderMap) -> Option<Value> {
        let name = if path.is_empty() { "" } else { view_name(path)? };
        let view = self.gateway.mcp.views.get(name)?;
        let base = self.base(uri, headers)?;
        let scopes: Vec<_> = view.scopes.iter().chain(&view.write_scopes).collect();
        // Clients can use only issuers that are URLs.
        let issuers = self.registry.issuers().into_iter().flatten();
        let servers: Vec<_> = issuers.filter(|it| it.starts_with("https://")).collect();
        let mut metadata = json!({
            // The resource is the MCP endpoint, for which tokens are issued, not the whole gateway.
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

    /// Returns the URL of the gateway, from the configuration or from the request.
    fn base(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        if let Some(url) = &self.gateway.config.public_url {
            return Some(url.clone());
        }
        // HTTP/2 has the host in the URI, HTTP/1 in a header.
        let of_header = || headers.get(header::HOST).and_then(|it| it.to_str().ok());
        let host = uri.authority().map(Authority::as_str).or_else(of_header)?;
        let is_host = |it: u8| it.is_ascii_alphanumeric() || b".-:[]".contains(&it);
        if host.is_empty() || host.len() > MAX_HOST || !host.bytes().all(is_host) {
            return None;
        }
        let scheme = if self.gateway.config.tls.is_some() { "https" } else { "http" };
        Some(format!("{scheme}://{host}"))
    }
}

/// Returns the name of the view in an MCP path.
fn view_name(path: &str) -> Option<&str> {
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
            assert_eq!(view_name(path), view, "{path}");
        }
        assert!(view_name("/mcps").is_none() && view_name("/skills").is_none());
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
