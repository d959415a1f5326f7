//! `GET /docs`: Swagger UI over `/openapi.json`. Its files are part of the binary; nothing is loaded from elsewhere.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use axum::extract::{Path, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use bytes::Bytes;
use openskill_proto::v1::ErrorCode;
use utoipa_swagger_ui::Config;

use super::body;
use super::documents::Document;

static CONFIG: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("/openapi.json").try_it_out_enabled(true).display_request_duration(true)));

/// The files that were asked for so far. Only files that there are get in.
static FILES: LazyLock<RwLock<HashMap<String, Document>>> = LazyLock::new(RwLock::default);

/// The page's own files, and nothing else. Nor may it be moved, framed, or send a form anywhere.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; \
                      base-uri 'none'; form-action 'none'";

pub(super) async fn home() -> Redirect {
    Redirect::temporary("/docs/")
}

pub(super) async fn redirect() -> Redirect {
    Redirect::permanent("/docs/")
}

pub(super) async fn index(request: Request) -> Response {
    serve("index.html", &request)
}

pub(super) async fn file(Path(file): Path<String>, request: Request) -> Response {
    serve(&file, &request)
}

fn serve(name: &str, request: &Request) -> Response {
    match find(name) {
        Some(file) => {
            let policy = (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
            ([policy], file.answer(request.headers())).into_response()
        }
        None => {
            let (message, trace_id) = ("there is no such page", body::trace_id(request));
            body::refuse(StatusCode::NOT_FOUND, ErrorCode::NotFound, message, &trace_id).into_response()
        }
    }
}

fn find(name: &str) -> Option<Document> {
    if let Some(file) = FILES.read().unwrap_or_else(PoisonError::into_inner).get(name) {
        return Some(file.clone());
    }
    let found = utoipa_swagger_ui::serve(name, Arc::clone(&CONFIG)).ok()??;
    let kind =
        HeaderValue::from_str(&found.content_type).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let bytes = match found.bytes {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => bytes.into(),
    };
    let file = Document::new(bytes, kind);
    FILES.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), file.clone());
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_and_what_is_no_file_is_not_kept() {
        let bundle = find("swagger-ui-bundle.js").unwrap();
        assert!(bundle.is_the_same(&find("swagger-ui-bundle.js").unwrap()));
        assert!(find("no-such-file.js").is_none());
        assert!(!FILES.read().unwrap().contains_key("no-such-file.js"));
    }
}
