//! Tavily's search API: `POST /search`.

use openskill_sandbox::untrusted_json::parse;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::results::{ApiRequest, ApiResult, MAX_RESULTS, SearchAnswer, skip_malformed, url_of};

#[derive(Deserialize)]
struct TavilyResponse {
    #[serde(deserialize_with = "skip_malformed")]
    results: Vec<ApiResult>,
}

/// Builds the request for a query.
pub(super) fn ask(base: &Url, key: &str, query: &str) -> ApiRequest {
    let url = url_of(base, "/search");
    let body = json!({ "query": query, "max_results": MAX_RESULTS, "include_answer": false });
    let header = Some(("authorization", format!("Bearer {key}")));
    ApiRequest { method: Method::POST, url, header, body: Some(body.to_string()) }
}

/// Parses the results. Returns `None` if the body is not a response of this API.
pub(super) fn read(body: &[u8]) -> Option<SearchAnswer> {
    let answer: TavilyResponse = parse(body).ok()?;
    Some(SearchAnswer { found: answer.results, silent: Vec::new() })
}
