//! SearXNG: `GET /search?format=json`.

use reqwest::Method;
use serde::Deserialize;
use url::Url;

use super::results::{Answered, Asked, Found, readable, url_of};
use crate::untrusted_json::parse;

#[derive(Deserialize)]
struct Answer {
    #[serde(default, deserialize_with = "readable")]
    results: Vec<Found>,
    /// Names and reasons.
    #[serde(default, deserialize_with = "readable")]
    unresponsive_engines: Vec<(String, String)>,
}

/// The request of a query.
pub(super) fn ask(base: &Url, query: &str) -> Asked {
    let mut url = url_of(base, "/search");
    url.query_pairs_mut().clear().append_pair("q", query).append_pair("format", "json");
    Asked { method: Method::GET, url, header: None, body: None }
}

/// What was found. None: it is not an answer of this API.
pub(super) fn read(body: &[u8]) -> Option<Answered> {
    let answer: Answer = parse(body).ok()?;
    let silent = answer.unresponsive_engines.into_iter().map(|(name, reason)| format!("{name} ({reason})"));
    Some(Answered { found: answer.results, silent: silent.collect() })
}
