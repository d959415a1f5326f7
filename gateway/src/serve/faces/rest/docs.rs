//! `GET /docs`: Swagger UI for `/openapi.json`. Its files are embedded in the binary, so that nothing is loaded
//! from other servers.

mod archive;

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::extract::{Path, Request};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use openskill_proto::v1::ErrorCode;
use parking_lot::RwLock;
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;

use super::body;
use super::documents::HttpDocument;

/// The folder with the page's files in [`SWAGGER_UI_VENDORED`].
const FOLDER: &str = "swagger-ui-5.32.6/dist";

/// The page's files, and their media types.
const KINDS: [(&str, &str); 7] = [
    ("index.html", "text/html"),
    ("index.css", "text/css"),
    ("swagger-ui.css", "text/css"),
    ("swagger-ui-bundle.js", "text/javascript"),
    ("swagger-ui-standalone-preset.js", "text/javascript"),
    ("favicon-16x16.png", "image/png"),
    ("favicon-32x32.png", "image/png"),
];

/// Starts Swagger UI. Replaces the archive's own file, which shows a demo API.
const INITIALIZER: &str = include_str!("docs/initializer.js");

/// Caches files that were requested. Only existing files are cached.
static FILES: LazyLock<RwLock<HashMap<String, HttpDocument>>> = LazyLock::new(RwLock::default);

/// The content security policy: allows only the page's own files, and no framing, base URLs or form targets.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; \
                      base-uri 'none'; form-action 'none'";

pub(crate) async fn home() -> Redirect {
    Redirect::temporary("/docs/")
}

pub(crate) async fn redirect() -> Redirect {
    Redirect::permanent("/docs/")
}

pub(crate) async fn index(request: Request) -> Response {
    serve("index.html", &request)
}

pub(crate) async fn file(Path(file): Path<String>, request: Request) -> Response {
    serve(&file, &request)
}

fn serve(name: &str, request: &Request) -> Response {
    match find(name) {
        Some(file) => {
            let policy = (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
            ([policy], file.answer(request.headers())).into_response()
        }
        None => body::refuse(ErrorCode::NotFound, "there is no such page", request),
    }
}

fn find(name: &str) -> Option<HttpDocument> {
    if let Some(file) = FILES.read().get(name) {
        return Some(file.clone());
    }
    let file = if name == "swagger-initializer.js" {
        HttpDocument::new(INITIALIZER.into(), HeaderValue::from_static("text/javascript"))
    } else {
        let (_, kind) = KINDS.iter().find(|(file, _)| *file == name)?;
        let content = archive::read(SWAGGER_UI_VENDORED, &format!("{FOLDER}/{name}"))?;
        HttpDocument::new(content.into(), HeaderValue::from_static(kind))
    };
    FILES.write().insert(name.to_owned(), file.clone());
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_in_the_archive() {
        for (name, _) in KINDS {
            assert!(find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_file_is_read_once_and_what_is_no_file_is_not_kept() {
        let bundle = find("swagger-ui-bundle.js").unwrap();
        assert!(bundle.is_the_same(&find("swagger-ui-bundle.js").unwrap()));
        assert!(find("no-such-file.js").is_none());
        assert!(!FILES.read().contains_key("no-such-file.js"));
    }
}
