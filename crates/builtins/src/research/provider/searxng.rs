//! SearXNG: `GET /search?format=json`.

use openskill_sandbox::untrusted_json::parse;
use reqwest::Method;
use serde::Deserialize;
use url::Url;

use super::results::{ApiRequest, ApiResult, SearchAnswer, skip_malformed, url_of};

#[derive(Deserialize)]
struct SearxngResponse {
    #[serde(default, deserialize_with = "skip_malformed")]
    results: Vec<ApiResult>,
    /// Engine names with the reasons why they did not respond.
    #[serde(default, deserialize_with = "skip_malformed")]
    unresponsive_engines: Vec<(String, String)>,
}

/// Builds the request for a query.
pub(super) fn ask(base: &Url, query: &str) -> ApiRequest {
    let mut url = url_of(base, "/search");
    url.query_pairs_mut().clear().append_pair("q", query).append_pair("format", "json");
    ApiRequest { method: Method::GET, url, header: None, body: None }
}

/// Parses the results. Returns `None` if the body is not a response of this API.
pub(super) fn read(body: &[u8]) -> Option<SearchAnswer> {
    let answer: SearxngResponse = parse(body).ok()?;
    let silent = answer.unresponsive_engines.into_iter().map(|(name, reason)| format!("{name} ({reason})"));
    Some(SearchAnswer { found: answer.results, silent: silent.collect() })
}
