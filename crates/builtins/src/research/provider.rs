//! Searches through the API of a search engine.

use std::time::Duration;

use bytes::Bytes;
use openskill_egress::allow::Allowed;
use openskill_model::Secret;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::budget::Budget;
use super::fetch::{Ask, Fetcher, follow_none};
use super::page::Hit;
use super::problem::ResearchProblem;
use crate::config::research::Allow;

mod brave;
mod results;
mod searxng;
mod tavily;

use results::{ApiRequest, SearchAnswer, hits, warning};

/// The maximum size of a search response, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The time limit of a query.
const QUERY_TIME: Duration = Duration::from_secs(8);

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
        fetcher: &Fetcher,
        budget: &Budget,
    ) -> Result<(Vec<Hit>, Option<String>), ResearchProblem> {
        let ApiRequest { method, url, header, body } = self.ask(query);
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
        let (max_bytes, time) = (MAX_ANSWER_BYTES, QUERY_TIME.min(budget.remaining() / 2));
        // A redirect could send the key elsewhere.
        let ask = Ask { method, url, headers, body, allow: &self.allow, follows: &follow_none, max_bytes, time };
        let answer = fetcher.fetch(ask, budget).await?;
        match answer.status {
            200..=299 => {
                let SearchAnswer { found, silent } = self.read(&answer.body).ok_or(ResearchProblem::Answer)?;
                Ok((hits(found), warning(&silent)))
            }
            429 => Err(ResearchProblem::TooMany),
            status => Err(ResearchProblem::Status(status)),
        }
    }

    fn ask(&self, query: &str) -> ApiRequest {
        let key = self.key.as_ref().map(Secret::expose).unwrap_or_default();
        match self.api {
            Api::Searxng => searxng::ask(&self.base, query),
            Api::Brave => brave::ask(&self.base, key, query),
            Api::Tavily => tavily::ask(&self.base, key, query),
        }
    }

    fn read(&self, body: &[u8]) -> Option<SearchAnswer> {
        match self.api {
            Api::Searxng => searxng::read(body),
            Api::Brave => brave::read(body),
            Api::Tavily => tavily::read(body),
        }
    }
}

/// Returns rules that allow the host and port of a URL in the operator's settings.
pub(super) fn own_host(url: &Url) -> Allowed {
    let entry = url.host_str().map(|host| format!("{host}:{}", url.port_or_known_default().unwrap_or_default()));
    Allow::parse(&entry.into_iter().collect::<Vec<_>>()).unwrap_or_default().0
}
