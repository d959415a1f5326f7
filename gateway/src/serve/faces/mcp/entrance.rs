//! Where a request enters: the [view](crate::mcp::views) that its path names, if its token may use it. And what clients read
//! to get such a token.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};

use super::answer::refuse;
use super::jsonrpc::{Code, Fault, Id};
use crate::gateway::{Gateway, Shard};
use crate::identity::identified::Scopes;
use crate::mcp::views::View;
use crate::serve::resource::Resource;

/// A view, and what its caller may do there.
#[derive(Debug, Clone)]
pub(super) struct Entrance {
    pub(super) view: Arc<View>,
    /// None if the caller shows no token: its policy says all.
    scopes: Option<Scopes>,
    uri: Uri,
}

/// The name in a path: none for `/mcp` itself.
pub(super) type ViewName = Option<Path<String>>;

impl Entrance {
    /// # Errors
    /// There is no such view, or the token lacks scopes: the answer.
    pub(super) fn of(shard: &Shard, name: ViewName, request: &Request) -> Result<Self, Box<Response>> {
        let name = name.map(|Path(name)| name).unwrap_or_default();
        let Some(view) = shard.gateway.mcp.views.get(&name) else {
            let fault = Fault::new(Code::InvalidRequest, "there is no view of this name");
            return Err(Box::new(refuse(StatusCode::NOT_FOUND, None, &fault)));
        };
        let scopes = request.extensions().get::<Scopes>().cloned();
        let entrance = Self { view, scopes, uri: request.uri().clone() };
        if !entrance.has(&entrance.view.scopes) {
            let wanted = entrance.view.scopes.clone();
            return Err(Box::new(entrance.insufficient(&shard.gateway, request.headers(), None, &wanted)));
        }
        Ok(entrance)
    }

    /// The same for longer than the request: its URI is a part of what was read from the connection, all of which it keeps in
    /// memory.
    pub(super) fn kept(self) -> Self {
        Self { uri: Uri::default(), ..self }
    }

    /// The same at the view as it is now. None if it is gone, or the token lacks scopes by now.
    pub(super) fn again(&self, gateway: &Gateway) -> Option<Self> {
        let view = gateway.mcp.views.get(&self.view.name)?;
        let entrance = Self { view, ..self.clone() };
        entrance.has(&entrance.view.scopes).then_some(entrance)
    }

    /// Refuses a call of what may change something, if the token lacks scopes for that.
    pub(super) fn refuse_write(&self, gateway: &Gateway, headers: &HeaderMap, id: &Id) -> Option<Response> {
        if self.has(&self.view.write_scopes) {
            return None;
        }
        let wanted: Vec<_> = self.view.scopes.iter().chain(&self.view.write_scopes).cloned().collect();
        Some(self.insufficient(gateway, headers, Some(id), &wanted))
    }

    fn has(&self, wanted: &[String]) -> bool {
        self.scopes.as_ref().is_none_or(|it| it.have(wanted))
    }

    fn insufficient(&self, gateway: &Gateway, headers: &HeaderMap, id: Option<&Id>, wanted: &[String]) -> Response {
        let message = format!("the token lacks scope: this needs '{}'", wanted.join(" "));
        let mut response = refuse(StatusCode::FORBIDDEN, id, &Fault::new(Code::InvalidRequest, message));
        let challenge = Resource::of(gateway).and_then(|it| it.insufficient((&self.uri, headers), &self.view, wanted));
        response.headers_mut().extend(challenge.map(|it| (header::WWW_AUTHENTICATE, it)));
        response
    }
}

/// `GET /.well-known/oauth-protected-resource`, and the same of a path.
pub(super) async fn metadata(State(shard): State<Shard>, path: Option<Path<String>>, request: Request) -> Response {
    let path = path.map(|Path(path)| format!("/{path}")).unwrap_or_default();
    let resource = Resource::of(&shard.gateway);
    match resource.and_then(|it| it.metadata(&path, request.uri(), request.headers())) {
        Some(metadata) => Json(metadata).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
