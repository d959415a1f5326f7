//! Searches through the API of a search engine.
//!
//! - SearXNG: `GET /search?format=json`
//! - Brave's web search API: `GET /res/v1/web/search`
//! - Tavily's search API: `POST /search`

use std::time::Duration;

use bytes::Bytes;
use openskill_model::Secret;
use openskill_net::egress::allow::Allowed;
use openskill_sandbox::untrusted_json::parse;
use openskill_text::pages::document::{clip_owned, collapse_whitespace};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use url::Url;

use super::fetch::{Ask, follow_none};
use super::page::Hit;
use super::problem::ResearchProblem;
use super::read::Reader;

/// The maximum size of a search response, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The time limit of a query.
const QUERY_TIME: Duration = Duration::from_secs(8);

/// The maximum number of results per query.
const MAX_RESULTS: usize = 20;

/// The maximum number of engines that a warning names.
const MAX_NAMED: usize = 10;

/// The supported search engine APIs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Api {
    Searxng,
    Brave,
    Tavily,
}

/// A search engine with its endpoint and key.
#[derive(Debug)]
pub(super) struct Engine {
    api: Api,
    base: Url,
    /// The API key, if the engine requires one.
    key: Option<Secret>,
    /// Allows only the engine's own host, even on a private network, because the operator chose it.
    allow: Allowed,
}

impl Engine {
    pub(super) fn new(api: Api, base: Url, key: Option<Secret>) -> Self {
        let allow = own_host(&base);
        Self { api, base, key, allow }
    }

    /// Searches for a query. Returns the results, best first, and a warning if some of the underlying engines did
    /// not answer.
    ///
    /// # Errors
    /// The engine did not return a valid response. The message never contains the key.
    pub(super) async fn search(
        &self,
        query: &str,
        reader: &Reader<'_>,
    ) -> Result<(Vec<Hit>, Option<String>), ResearchProblem> {
        let key = self.key.as_ref().map(Secret::expose).unwrap_or_default();
        let ApiRequest { method, url, header, body } = self.api.ask(&self.base, key, query);
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            let mut value = HeaderValue::from_str(&value).map_err(|_| ResearchProblem::Answer)?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let body = body.map(Bytes::from);
        let (max_bytes, time) = (MAX_ANSWER_BYTES, QUERY_TIME.min(reader.budget.remaining() / 2));
        // A redirect could send the key elsewhere.
        let ask = Ask { method, url, headers, body, allow: &self.allow, follows: &follow_none, max_bytes, time };
        let answer = reader.fetcher.fetch(ask, reader.budget).await?;
        match answer.status {
            200..=299 => {
                let SearchAnswer { found, silent } = self.api.read(&answer.body).ok_or(ResearchProblem::Answer)?;
                Ok((hits(found), warning(&silent)))
            }
            429 => Err(ResearchProblem::TooMany),
            status => Err(ResearchProblem::Status(status)),
        }
    }
}

/// A request to a search engine's API.
#[derive(Debug)]
struct ApiRequest {
    method: Method,
    url: Url,
    /// The header that contains the API key.
    header: Option<(&'static str, String)>,
    /// The JSON body.
    body: Option<String>,
}

/// A search engine's response. It is untrusted.
#[derive(Debug)]
struct SearchAnswer {
    found: Vec<ApiResult>,
    /// The underlying engines that did not answer, with reasons.
    silent: Vec<String>,
}

impl Api {
    /// Builds the request for a query.
    fn ask(self, base: &Url, key: &str, query: &str) -> ApiRequest {
        let mut url = base.clone();
        let path = if matches!(self, Self::Brave) { "/res/v1/web/search" } else { "/search" };
        // The base URL may have a path too.
        url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
        match self {
            Self::Searxng => {
                url.query_pairs_mut().clear().append_pair("q", query).append_pair("format", "json");
                ApiRequest { method: Method::GET, url, header: None, body: None }
            }
            Self::Brave => {
                url.query_pairs_mut().clear().append_pair("q", query).append_pair("count", &MAX_RESULTS.to_string());
                let header = Some(("x-subscription-token", key.to_owned()));
                ApiRequest { method: Method::GET, url, header, body: None }
            }
            Self::Tavily => {
                let body = json!({ "query": query, "max_results": MAX_RESULTS, "include_answer": false });
                let header = Some(("authorization", format!("Bearer {key}")));
                ApiRequest { method: Method::POST, url, header, body: Some(body.to_string()) }
            }
        }
    }

    /// Parses the results. Returns `None` if the body is not a response of this API.
    fn read(self, body: &[u8]) -> Option<SearchAnswer> {
        let (found, silent) = match self {
            Self::Searxng => {
                let Results { results, unresponsive_engines } = parse(body).ok()?;
                (results, unresponsive_engines)
            }
            Self::Brave => {
                let BraveResponse { web } = parse(body).ok()?;
                (web.unwrap_or_default().results, Vec::new())
            }
            Self::Tavily => {
                let TavilyResponse { results } = parse(body).ok()?;
                (results, Vec::new())
            }
        };
        let silent = silent.into_iter().map(|(name, reason)| format!("{name} ({reason})")).collect();
        Some(SearchAnswer { found, silent })
    }
}

/// A response of SearXNG, and the part of one of Brave.
#[derive(Default, Deserialize)]
struct Results {
    #[serde(default, deserialize_with = "skip_malformed")]
    results: Vec<ApiResult>,
    /// Engine names with the reasons why they did not respond.
    #[serde(default, deserialize_with = "skip_malformed")]
    unresponsive_engines: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct BraveResponse {
    web: Option<Results>,
}

#[derive(Deserialize)]
struct TavilyResponse {
    #[serde(deserialize_with = "skip_malformed")]
    results: Vec<ApiResult>,
}

/// A search result in the API's format.
#[derive(Debug, Deserialize)]
struct ApiResult {
    url: String,
    title: Option<String>,
    content: Option<String>,
    /// Brave's name for `content`.
    description: Option<String>,
}

/// Deserializes the valid entries of a list and skips the others, so that one malformed entry does not affect the
/// rest.
fn skip_malformed<'de, D: Deserializer<'de>, T: DeserializeOwned>(list: D) -> Result<Vec<T>, D::Error> {
    let entries = Vec::<Value>::deserialize(list)?;
    Ok(entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect())
}

/// Returns a warning about engines that did not answer, or `None` if all did.
fn warning(silent: &[String]) -> Option<String> {
    let named: Vec<_> = silent.iter().take(MAX_NAMED).map(|it| clip_owned(&collapse_whitespace(it), 100)).collect();
    let more = if silent.len() > MAX_NAMED { ", and others" } else { "" };
    (!named.is_empty()).then(|| format!("engines that did not answer: {}{more}", named.join(", ")))
}

/// Returns the usable results without duplicate pages, scored by their position.
fn hits(found: Vec<ApiResult>) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    for it in found {
        if hits.len() >= MAX_RESULTS {
            break;
        }
        let Ok(mut url) = Url::parse(it.url.trim()) else { continue };
        url.set_fragment(None);
        let url: String = url.into();
        let is_web = url.starts_with("http://") || url.starts_with("https://");
        if !is_web || url.len() > 2048 || hits.iter().any(|hit| hit.url == url) {
            continue;
        }
        let score = 1.0 / (1.0 + 0.15 * hits.len() as f64);
        let shown = |text: Option<&str>, length| clip_owned(&collapse_whitespace(text.unwrap_or_default()), length);
        let title = shown(it.title.as_deref(), 300);
        let snippet = shown(it.content.as_deref().or(it.description.as_deref()), 1000);
        hits.push(Hit { url, title, snippet, score, page: None });
    }
    hits
}

/// Returns rules that allow the host and port of a URL in the operator's settings.
pub(super) fn own_host(url: &Url) -> Allowed {
    let entry = url.host_str().map(|host| format!("{host}:{}", url.port_or_known_default().unwrap_or_default()));
    Allowed::parse(&entry.into_iter().collect::<Vec<_>>()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_the_apis_are_read() {
        let entry = |text: &str| format!(r#"{{"url":"http://a.example/x#f","title":"A\nB","{text}":"s"}}"#);
        let of = |answered: Option<SearchAnswer>| {
            let hits = hits(answered.unwrap().found);
            (hits.len(), hits[0].url.clone(), hits[0].title.clone(), hits[0].snippet.clone())
        };
        let expected = (1, "http://a.example/x".to_owned(), "A B".to_owned(), "s".to_owned());
        let twice = |text: &str| format!(r#"[{},{},{{"url":"javascript:1"}}]"#, entry(text), entry(text));
        assert_eq!(of(Api::Searxng.read(format!(r#"{{"results":{}}}"#, twice("content")).as_bytes())), expected);
        let web = format!(r#"{{"web":{{"results":{}}}}}"#, twice("description"));
        assert_eq!(of(Api::Brave.read(web.as_bytes())), expected);
        assert_eq!(of(Api::Tavily.read(format!(r#"{{"results":{}}}"#, twice("content")).as_bytes())), expected);
        assert!(Api::Searxng.read(b"<html>").is_none() && Api::Tavily.read(b"{}").is_none());
        assert!(Api::Brave.read(b"{}").unwrap().found.is_empty());
    }

    #[test]
    fn a_bad_result_is_skipped_and_the_others_count() {
        let good = r#"{"url": "http://a.example/", "title": null}"#;
        for bad in [
            r#"{"url": null, "title": "n"}"#,
            r#"{"title": "n"}"#,
            r#"{"url": ["x"]}"#,
            "null",
            "7",
            r#"{"url": "x", "title": 1}"#,
        ] {
            let results = format!(r#"{{"results": [{bad}, {good}]}}"#);
            let web = format!(r#"{{"web": {results}}}"#);
            for answered in [
                Api::Searxng.read(results.as_bytes()),
                Api::Tavily.read(results.as_bytes()),
                Api::Brave.read(web.as_bytes()),
            ] {
                let urls: Vec<_> = hits(answered.unwrap().found).into_iter().map(|it| it.url).collect();
                assert_eq!(urls, ["http://a.example/"], "{bad}");
            }
        }
        for no_list in [r#"{"results": null}"#, r#"{"results": "x"}"#] {
            assert!(Api::Tavily.read(no_list.as_bytes()).is_none(), "{no_list}");
        }
    }

    #[test]
    fn engines_that_did_not_answer_are_named() {
        let silent = |text: &str| warning(&Api::Searxng.read(text.as_bytes()).unwrap().silent);
        let text =
            r#"{"results": [], "unresponsive_engines": [["google", "CAPTCHA"], 7, ["bing"], ["qwant", "too\nmany"]]}"#;
        assert_eq!(silent(text).unwrap(), "engines that did not answer: google (CAPTCHA), qwant (too many)");
        assert_eq!(silent(r#"{"results": [], "unresponsive_engines": []}"#), None);
        let many = vec!["x".repeat(1000); 500];
        assert!(warning(&many).unwrap().len() < 1500);
    }

    #[test]
    fn a_query_is_encoded() {
        let base = Url::parse("http://s.example/sub/").unwrap();
        let url = Api::Searxng.ask(&base, "", "a&b=c").url;
        assert_eq!(url.as_str(), "http://s.example/sub/search?q=a%26b%3Dc&format=json");
        assert_eq!(Api::Brave.ask(&base, "k", "x").header, Some(("x-subscription-token", "k".to_owned())));
        assert_eq!(Api::Tavily.ask(&base, "k", "x").header, Some(("authorization", "Bearer k".to_owned())));
    }
}
