//! Searches with the API of a search engine.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::budget::Budget;
use super::fetch::{Ask, Fetcher, follow_none};
use super::page::Hit;
use super::problem::Problem;
use crate::config::research::{Allow, Secret};
use crate::manifest::http::Allowed;

mod brave;
mod results;
mod searxng;
mod tavily;

use results::{Answered, Asked, hits, warning};

/// The longest answer to a query.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// How long a query may take.
const QUERY_TIME: Duration = Duration::from_secs(8);

/// A search engine.
#[derive(Debug, Clone, Copy)]
pub(super) enum Api {
    Searxng,
    Brave,
    Tavily,
}

/// A search engine at its place.
#[derive(Debug)]
pub(super) struct Engine {
    api: Api,
    base: Url,
    key: Secret,
    /// Its own host: the operator chose it, wherever it is.
    allow: Allowed,
}

impl Engine {
    pub(super) fn new(api: Api, base: Url, key: Secret) -> Self {
        let allow = own_host(&base);
        Self { api, base, key, allow }
    }

    /// The results of a query, the best first, and a warning if not all of its engines answered.
    ///
    /// # Errors
    /// The engine does not answer as it should. The key is in no message.
    pub(super) async fn search(
        &self,
        query: &str,
        fetcher: &Fetcher,
        budget: &Budget,
    ) -> Result<(Vec<Hit>, Option<String>), Problem> {
        let Asked { method, url, header, body } = self.ask(query);
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            let mut value = HeaderValue::from_str(&value).map_err(|_| Problem::Answer)?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let body = body.map(Bytes::from);
        let (max_bytes, time) = (MAX_ANSWER_BYTES, QUERY_TIME.min(budget.left() / 2));
        // A redirect would take the key elsewhere.
        let ask = Ask { method, url, headers, body, allow: &self.allow, follows: &follow_none, max_bytes, time };
        let answer = fetcher.fetch(ask, budget).await?;
        match answer.status {
            200..=299 => {
                let Answered { found, silent } = self.read(&answer.body).ok_or(Problem::Answer)?;
                Ok((hits(found), warning(&silent)))
            }
            429 => Err(Problem::TooMany),
            status => Err(Problem::Status(status)),
        }
    }

    fn ask(&self, query: &str) -> Asked {
        match self.api {
            Api::Searxng => searxng::ask(&self.base, query),
            Api::Brave => brave::ask(&self.base, self.key.reveal(), query),
            Api::Tavily => tavily::ask(&self.base, self.key.reveal(), query),
        }
    }

    fn read(&self, body: &[u8]) -> Option<Answered> {
        match self.api {
            Api::Searxng => searxng::read(body),
            Api::Brave => brave::read(body),
            Api::Tavily => tavily::read(body),
        }
    }
}

/// Allows the host and port of a URL that the operator gave.
pub(super) fn own_host(url: &Url) -> Allowed {
    let entry = url.host_str().map(|host| format!("{host}:{}", url.port_or_known_default().unwrap_or_default()));
    Allow::parse(&entry.into_iter().collect::<Vec<_>>()).unwrap_or_default().0
}
