//! Tavily's search API: `POST /search`.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::results::{Answered, Asked, Found, MAX_RESULTS, readable, url_of};
use crate::untrusted_json::parse;

#[derive(Deserialize)]
struct Answer {
    #[serde(deserialize_with = "readable")]
    results: Vec<Found>,
}

/// The request of a query.
pub(super) fn ask(base: &Url, key: &str, query: &str) -> Asked {
    let url = url_of(base, "/search");
    let body = json!({ "query": query, "max_results": MAX_RESULTS, "include_answer": false });
    let header = Some(("authorization", format!("Bearer {key}")));
    Asked { method: Method::POST, url, header, body: Some(body.to_string()) }
}

/// What was found. None: it is not an answer of this API.
pub(super) fn read(body: &[u8]) -> Option<Answered> {
    let answer: Answer = parse(body).ok()?;
    Some(Answered { found: answer.results, silent: Vec::new() })
}
