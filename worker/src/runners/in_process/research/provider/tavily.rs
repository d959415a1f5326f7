//! Tavily's search API: `POST /search`.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::results::{Asked, Found, MAX_RESULTS, url_of};
use crate::untrusted_json::parse;

#[derive(Deserialize)]
struct Answer {
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
pub(super) fn ask(base: &Url, key: &str, query: &str) -> Asked {
    let url = url_of(base, "/search");
    let body = json!({ "query": query, "max_results": MAX_RESULTS, "include_answer": false });
    let header = Some(("authorization", format!("Bearer {key}")));
    Asked { method: Method::POST, url, header, body: Some(body.to_string()) }
}

/// What was found. None: it is not an answer of this API.
pub(super) fn read(body: &[u8]) -> Option<Vec<Found>> {
    let answer: Answer = parse(body).ok()?;
    let found =
        |it: Entry| Found { url: it.url, title: it.title.unwrap_or_default(), snippet: it.content.unwrap_or_default() };
    Some(answer.results.into_iter().map(found).collect())
}
