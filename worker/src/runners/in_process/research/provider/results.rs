//! What the APIs of search engines have in common: a request, and a list.

use openskill_research::document::{clipped, collapsed};
use reqwest::Method;
use url::Url;

use crate::runners::in_process::research::page::Hit;

/// The most results of a query.
pub(super) const MAX_RESULTS: usize = 20;

/// A request.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) url: Url,
    /// The header with the key.
    pub(super) header: Option<(&'static str, String)>,
    /// JSON.
    pub(super) body: Option<String>,
}

/// A result as the API gives it. It is not trusted.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) url: String,
    pub(super) title: String,
    pub(super) snippet: String,
}

/// The URL of a path of the API, whose own URL may have a path too.
pub(super) fn url_of(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

/// The usable ones, each page once, scored by their order.
pub(super) fn hits(found: Vec<Found>) -> Vec<Hit> {
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
        let (title, snippet) = (clipped(&collapsed(&it.title), 300), clipped(&collapsed(&it.snippet), 1000));
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
        let of = |found: Option<Vec<Found>>| {
            let hits = hits(found.unwrap());
            (hits.len(), hits[0].url.clone(), hits[0].title.clone(), hits[0].snippet.clone())
        };
        let expected = (1, "http://a.example/x".to_owned(), "A B".to_owned(), "s".to_owned());
        let twice = |text: &str| format!(r#"[{},{},{{"url":"javascript:1"}}]"#, entry(text), entry(text));
        assert_eq!(of(searxng::read(format!(r#"{{"results":{}}}"#, twice("content")).as_bytes())), expected);
        let web = format!(r#"{{"web":{{"results":{}}}}}"#, twice("description"));
        assert_eq!(of(brave::read(web.as_bytes())), expected);
        assert_eq!(of(tavily::read(format!(r#"{{"results":{}}}"#, twice("content")).as_bytes())), expected);
        assert!(searxng::read(b"<html>").is_none() && tavily::read(b"{}").is_none());
        assert!(brave::read(b"{}").unwrap().is_empty());
    }

    #[test]
    fn a_query_is_encoded() {
        let base = Url::parse("http://s.example/sub/").unwrap();
        assert_eq!(searxng::ask(&base, "a&b=c").url.as_str(), "http://s.example/sub/search?q=a%26b%3Dc&format=json");
        assert_eq!(brave::ask(&base, "k", "x").header, Some(("x-subscription-token", "k".to_owned())));
        assert_eq!(tavily::ask(&base, "k", "x").header, Some(("authorization", "Bearer k".to_owned())));
    }
}
