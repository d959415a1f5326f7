//! Brave's web search API: `GET /res/v1/web/search`.

use openskill_sandbox::untrusted_json::parse;
use reqwest::Method;
use serde::Deserialize;
use url::Url;

use super::results::{ApiRequest, ApiResult, MAX_RESULTS, SearchAnswer, skip_malformed, url_of};

#[derive(Deserialize)]
struct BraveResponse {
    #[serde(default)]
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default, deserialize_with = "skip_malformed")]
    results: Vec<ApiResult>,
}

/// Builds the request for a query.
pub(super) fn ask(base: &Url, key: &str, query: &str) -> ApiRequest {
    let mut url = url_of(base, "/res/v1/web/search");
    url.query_pairs_mut().clear().append_pair("q", query).append_pair("count", &MAX_RESULTS.to_string());
    ApiRequest { method: Method::GET, url, header: Some(("x-subscription-token", key.to_owned())), body: None }
}

/// Parses the results. Returns `None` if the body is not a response of this API.
pub(super) fn read(body: &[u8]) -> Option<SearchAnswer> {
    let answer: BraveResponse = parse(body).ok()?;
    Some(SearchAnswer { found: answer.web.map(|it| it.results).unwrap_or_default(), silent: Vec::new() })
}
