//! Brave's web search API: `GET /res/v1/web/search`.

use reqwest::Method;
use serde::Deserialize;
use url::Url;

use super::results::{Answered, Asked, Found, MAX_RESULTS, readable, url_of};
use crate::untrusted_json::parse;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default, deserialize_with = "readable")]
    results: Vec<Found>,
}

/// The request of a query.
pub(super) fn ask(base: &Url, key: &str, query: &str) -> Asked {
    let mut url = url_of(base, "/res/v1/web/search");
    url.query_pairs_mut().clear().append_pair("q", query).append_pair("count", &MAX_RESULTS.to_string());
    Asked { method: Method::GET, url, header: Some(("x-subscription-token", key.to_owned())), body: None }
}

/// What was found. None: it is not an answer of this API.
pub(super) fn read(body: &[u8]) -> Option<Answered> {
    let answer: Answer = parse(body).ok()?;
    Some(Answered { found: answer.web.map(|it| it.results).unwrap_or_default(), silent: Vec::new() })
}
