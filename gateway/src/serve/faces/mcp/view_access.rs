//! Resolves the [view](crate::mcp::views) in a request's path, and checks that the caller's token may use it. Also
//! serves the metadata from which clients learn how to get a token.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::jsonrpc::{Code, Id, RpcError};
use super::response::refuse;
use crate::gateway::{Gateway, Shard};
use crate::identity::identified::Scopes;
use crate::mcp::views::View;
use crate::serve::resource::{MCP, METADATA, Resource};

/// A view, and what the caller may do in it.
#[derive(Debug, Clone)]
pub(crate) struct ViewAccess {
    pub(super) view: Arc<View>,
    /// The scopes of the token. None for a caller without a token, to whom only the policy applies.
    scopes: Option<Scopes>,
    uri: Uri,
}

/// The view's name in a path. None for `/mcp`.
type ViewName = Option<Path<String>>;

/// Finds the view, and checks the token's scopes. The rejection is the response.
impl FromRequestParts<Shard> for ViewAccess {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shard: &Shard) -> Result<Self, Response> {
        let name = ViewName::from_request_parts(parts, shard).await.map_err(IntoResponse::into_response)?;
        let Some(view) = shard.gateway.mcp.views.get(name.as_deref().map_or("", String::as_str)) else {
            let fault = RpcError::new(Code::InvalidRequest, "there is no view with this name");
            return Err(refuse(StatusCode::NOT_FOUND, None, &fault));
        };
        let access = Self { view, scopes: parts.extensions.get::<Scopes>().cloned(), uri: parts.uri.clone() };
        if !access.has(&access.view.scopes) {
            return Err(access.insufficient_scope(&shard.gateway, &parts.headers, None, &access.view.scopes));
        }
        Ok(access)
    }
}

impl ViewAccess {
    /// Drops the URI, which keeps the connection's whole read buffer in memory. Call it before the access outlives
    /// the request.
    pub(super) fn without_uri(self) -> Self {
        Self { uri: Uri::default(), ..self }
    }

    /// Returns access to the current version of the view. None if the view is gone, or if the token now lacks
    /// scopes.
    pub(super) fn renew(&self, gateway: &Gateway) -> Option<Self> {
        let view = gateway.mcp.views.get(&self.view.name)?;
        let access = Self { view, ..self.clone() };
        access.has(&access.view.scopes).then_some(access)
    }

    /// Returns the refusal of a call that may change something, if the token lacks the scopes. None if the call is
    /// allowed.
    pub(super) fn refuse_write(&self, gateway: &Gateway, headers: &HeaderMap, id: &Id) -> Option<Response> {
        if self.has(&self.view.write_scopes) {
            return None;
        }
        let wanted: Vec<_> = self.view.scopes.iter().chain(&self.view.write_scopes).cloned().collect();
        Some(self.insufficient_scope(gateway, headers, Some(id), &wanted))
    }

    fn has(&self, wanted: &[String]) -> bool {
        self.scopes.as_ref().is_none_or(|it| it.have(wanted))
    }

    fn insufficient_scope(
        &self,
        gateway: &Gateway,
        headers: &HeaderMap,
        id: Option<&Id>,
        wanted: &[String],
    ) -> Response {
        let message = format!("the token lacks scope: this request requires '{}'", wanted.join(" "));
        let mut response = refuse(StatusCode::FORBIDDEN, id, &RpcError::new(Code::InvalidRequest, message));
        let challenge =
            Resource::for_gateway(gateway).and_then(|it| it.insufficient_scope(&self.uri, headers, &self.view, wanted));
        response.headers_mut().extend(challenge.map(|it| (header::WWW_AUTHENTICATE, it)));
        response
    }
}

/// `GET /.well-known/oauth-protected-resource`, with or without the path of a view.
pub(crate) async fn metadata(State(shard): State<Shard>, view: ViewName, request: Request) -> Response {
    let path = match view {
        Some(Path(view)) => format!("{MCP}/{view}"),
        None => request.uri().path().strip_prefix(METADATA).unwrap_or_default().to_owned(),
    };
    let resource = Resource::for_gateway(&shard.gateway);
    match resource.and_then(|it| it.metadata(&path, request.uri(), request.headers())) {
        Some(metadata) => Json(metadata).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
