//! SearXNG: `GET /search?format=json`.

use reqwest::Method;
use serde::Deserialize;
use url::Url;

use super::results::{Asked, Found, url_of};
use crate::untrusted_json::parse;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    results: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    url: String,
    title: Option<String>,
    content: Option<String>,
}

/// The request of a query.
pub(super) fn ask(base: &Url, query: &str) -> Asked {
    let mut url = url_of(base, "/search");
    url.query_pairs_mut().clear().append_pair("q", query).append_pair("format", "json");
    Asked { method: Method::GET, url, header: None, body: None }
}

/// What was found. None: it is not an answer of this API.
pub(super) fn read(body: &[u8]) -> Option<Vec<Found>> {
    let answer: Answer = parse(body).ok()?;
    let found =
        |it: Entry| Found { url: it.url, title: it.title.unwrap_or_default(), snippet: it.content.unwrap_or_default() };
    Some(answer.results.into_iter().map(found).collect())
}
