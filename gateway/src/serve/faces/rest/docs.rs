//! `GET /docs`: Swagger UI over `/openapi.json`. Its files are part of the binary; nothing is loaded from elsewhere.

use std::sync::{Arc, LazyLock};

use axum::extract::{Path, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use openskill_proto::v1::ErrorCode;
use utoipa_swagger_ui::Config;

use super::body;

static CONFIG: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("/openapi.json").try_it_out_enabled(true).display_request_duration(true)));

/// The page's own files, and nothing else.
const POLICY: &str =
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";

pub(super) async fn home() -> Redirect {
    Redirect::temporary("/docs/")
}

pub(super) async fn redirect() -> Redirect {
    Redirect::permanent("/docs/")
}

pub(super) async fn index(request: Request) -> Response {
    serve("index.html", &body::trace_id(&request))
}

pub(super) async fn file(Path(file): Path<String>, request: Request) -> Response {
    serve(&file, &body::trace_id(&request))
}

fn serve(file: &str, trace_id: &str) -> Response {
    match utoipa_swagger_ui::serve(file, Arc::clone(&CONFIG)) {
        Ok(Some(found)) => {
            let kind = HeaderValue::from_str(&found.content_type)
                .unwrap_or(HeaderValue::from_static("application/octet-stream"));
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
                (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            ];
            (headers, found.bytes.into_owned()).into_response()
        }
        _ => {
            body::refuse(StatusCode::NOT_FOUND, ErrorCode::NotFound, "there is no such page", trace_id).into_response()
        }
    }
}
