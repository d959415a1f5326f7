//! The common parts of search engine APIs: a request and a list of results.

use openskill_research::document::{clip_owned, collapse_whitespace};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::Url;

use crate::research::page::Hit;

/// The maximum number of results per query.
pub(super) const MAX_RESULTS: usize = 20;

/// The maximum number of engines that a warning names.
const MAX_NAMED: usize = 10;

/// A request to a search engine's API.
#[derive(Debug)]
pub(super) struct ApiRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    /// The header that contains the API key.
    pub(super) header: Option<(&'static str, String)>,
    /// The JSON body.
    pub(super) body: Option<String>,
}

/// A search engine's response. It is untrusted.
#[derive(Debug)]
pub(super) struct SearchAnswer {
    pub(super) found: Vec<ApiResult>,
    /// The underlying engines that did not answer, with reasons.
    pub(super) silent: Vec<String>,
}

/// A search result in the API's format.
#[derive(Debug, Deserialize)]
pub(super) struct ApiResult {
    url: String,
    title: Option<String>,
    content: Option<String>,
    /// Brave's name for `content`.
    description: Option<String>,
}

/// Deserializes the valid entries of a list and skips the others, so that one malformed entry does not affect the
/// rest.
pub(super) fn skip_malformed<'de, D: Deserializer<'de>, T: DeserializeOwned>(list: D) -> Result<Vec<T>, D::Error> {
    let entries = Vec::<Value>::deserialize(list)?;
    Ok(entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect())
}

/// Returns a warning about engines that did not answer, or `None` if all did.
pub(super) fn warning(silent: &[String]) -> Option<String> {
    let named: Vec<_> = silent.iter().take(MAX_NAMED).map(|it| clip_owned(&collapse_whitespace(it), 100)).collect();
    let more = if silent.len() > MAX_NAMED { ", and others" } else { "" };
    (!named.is_empty()).then(|| format!("engines that did not answer: {}{more}", named.join(", ")))
}

/// Appends an API path to the base URL, which may have a path too.
pub(super) fn url_of(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

/// Returns the usable results without duplicate pages, scored by their position.
pub(super) fn hits(found: Vec<ApiResult>) -> Vec<Hit> {
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

#[cfg(test)]
mod tests {
    use super::super::{brave, searxng, tavily};
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
        assert_eq!(of(searxng::read(format!(r#"{{"results":{}}}"#, twice("content")).as_bytes())), expected);
        let web = format!(r#"{{"web":{{"results":{}}}}}"#, twice("description"));
        assert_eq!(of(brave::read(web.as_bytes())), expected);
        assert_eq!(of(tavily::read(format!(r#"{{"results":{}}}"#, twice("content")).as_bytes())), expected);
        assert!(searxng::read(b"<html>").is_none() && tavily::read(b"{}").is_none());
        assert!(brave::read(b"{}").unwrap().found.is_empty());
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
            for answered in
                [searxng::read(results.as_bytes()), tavily::read(results.as_bytes()), brave::read(web.as_bytes())]
            {
                let urls: Vec<_> = hits(answered.unwrap().found).into_iter().map(|it| it.url).collect();
                assert_eq!(urls, ["http://a.example/"], "{bad}");
            }
        }
        for no_list in [r#"{"results": null}"#, r#"{"results": "x"}"#] {
            assert!(tavily::read(no_list.as_bytes()).is_none(), "{no_list}");
        }
    }

    #[test]
    fn engines_that_did_not_answer_are_named() {
        let silent = |text: &str| warning(&searxng::read(text.as_bytes()).unwrap().silent);
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
        assert_eq!(searxng::ask(&base, "a&b=c").url.as_str(), "http://s.example/sub/search?q=a%26b%3Dc&format=json");
        assert_eq!(brave::ask(&base, "k", "x").header, Some(("x-subscription-token", "k".to_owned())));
        assert_eq!(tavily::ask(&base, "k", "x").header, Some(("authorization", "Bearer k".to_owned())));
    }
}
