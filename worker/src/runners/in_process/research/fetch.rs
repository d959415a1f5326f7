//! Reads one URL, within the rules of egress: names are resolved once and pinned, and each redirect is checked like the first
//! request.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, Response};
use url::Url;

use super::budget::Budget;
use super::inflate::unzip;
use super::problem::Problem;
use crate::manifest::http::Allowed;
use crate::runners::http::client::Clients;
use crate::runners::http::egress::Reach;

/// How often a request is redirected.
const MAX_REDIRECTS: usize = 5;

/// The longest URL that is followed.
const MAX_URL_BYTES: usize = 4096;

/// Reads URLs.
pub(in crate::runners::in_process) struct Fetcher {
    clients: Arc<Clients>,
}

/// Whether a redirect to a URL is followed, or why not.
pub(super) type Follows<'a> = dyn Fn(&Url) -> Result<(), Problem> + Send + Sync + 'a;

/// Every redirect is followed that the rules of egress allow.
pub(super) fn follow_all(_: &Url) -> Result<(), Problem> {
    Ok(())
}

/// None is followed: it would take a key elsewhere.
pub(super) fn follow_none(_: &Url) -> Result<(), Problem> {
    Err(Problem::Redirects)
}

/// A request.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    /// The hosts outside the public internet that it may reach.
    pub(super) allow: &'a Allowed,
    /// Whether a redirect is followed.
    pub(super) follows: &'a Follows<'a>,
    /// The rest of a longer answer is not read.
    pub(super) max_bytes: usize,
    /// How long it may take.
    pub(super) time: Duration,
}

impl<'a> Ask<'a> {
    /// A page.
    pub(super) fn page(url: Url, allow: &'a Allowed) -> Self {
        let (headers, method) = (HeaderMap::new(), Method::GET);
        Self {
            method,
            url,
            headers,
            body: None,
            allow,
            follows: &follow_all,
            max_bytes: MAX_PAGE_BYTES,
            time: PAGE_TIME,
        }
    }
}

/// How much of a page is read, packed and unpacked.
pub(super) const MAX_PAGE_BYTES: usize = 8 << 20;

/// How long reading a page may take.
const PAGE_TIME: Duration = Duration::from_secs(10);

/// An answer.
#[derive(Debug)]
pub(super) struct Fetched {
    /// After redirects.
    pub(super) url: Url,
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
    /// Whether there was more.
    pub(super) is_cut: bool,
    pub(super) at: SystemTime,
}

impl Fetcher {
    pub(in crate::runners::in_process) fn new(clients: Arc<Clients>) -> Self {
        Self { clients }
    }

    /// Reads an answer of any status but a redirect. Dropping this closes the connection.
    ///
    /// # Errors
    /// There is none within the bounds, or it may not be read.
    pub(super) async fn fetch(&self, ask: Ask<'_>, budget: &Budget) -> Result<Fetched, Problem> {
        let time = ask.time.min(budget.left());
        match tokio::time::timeout(time, self.follow(ask, budget)).await {
            Ok(fetched) => fetched,
            Err(_) if budget.left().is_zero() => Err(Problem::Budget("time")),
            Err(_) => Err(Problem::TooSlow(time)),
        }
    }

    async fn follow(&self, mut ask: Ask<'_>, budget: &Budget) -> Result<Fetched, Problem> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&ask).await?;
            let status = response.status().as_u16();
            let location = response.headers().get(LOCATION).filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308));
            let Some(location) = location else { return read(response, ask, budget).await };
            ask.url = next(&ask, &String::from_utf8_lossy(location.as_bytes()))?;
        }
        Err(Problem::Redirects)
    }

    async fn send(&self, ask: &Ask<'_>) -> Result<Response, Problem> {
        let reach = Reach::of(&ask.url, ask.allow).map_err(|it| Problem::from(&it))?;
        let client = self.clients.get(reach).await.map_err(|error| {
            tracing::error!(error, "an HTTP client cannot be created");
            Problem::Unreachable
        })?;
        let mut request = reqwest::Request::new(ask.method.clone(), ask.url.clone());
        request.headers_mut().clone_from(&ask.headers);
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        *request.body_mut() = ask.body.clone().map(Into::into);
        client.execute(request).await.map_err(|it| Problem::from(&it))
    }
}

/// Where a redirect leads.
fn next(ask: &Ask<'_>, location: &str) -> Result<Url, Problem> {
    let mut url = ask.url.join(location).map_err(|_| Problem::Redirects)?;
    url.set_fragment(None);
    // A server must not choose credentials, nor take a request with a body elsewhere.
    let is_plain = url.set_username("").is_ok() && url.set_password(None).is_ok();
    if !is_plain || url.as_str().len() > MAX_URL_BYTES || ask.body.is_some() {
        return Err(Problem::Redirects);
    }
    if ask.url.scheme() == "https" && url.scheme() == "http" {
        return Err(Problem::Refused("it redirects from https to http".to_owned()));
    }
    (ask.follows)(&url)?;
    Ok(url)
}

async fn read(mut response: Response, ask: Ask<'_>, budget: &Budget) -> Result<Fetched, Problem> {
    let header = |name| {
        let value = response.headers().get(name).map(|it: &HeaderValue| String::from_utf8_lossy(it.as_bytes()));
        value.map(|it| it.chars().take(200).collect::<String>().to_ascii_lowercase()).unwrap_or_default()
    };
    let (status, content_type, coding) = (response.status().as_u16(), header(CONTENT_TYPE), header(CONTENT_ENCODING));
    let (mut body, mut is_cut) = (Vec::new(), false);
    while !is_cut && let Some(chunk) = response.chunk().await.map_err(|_| Problem::BrokeOff)? {
        let wanted = chunk.len().min(ask.max_bytes - body.len());
        let taken = budget.take_bytes(wanted);
        body.extend_from_slice(chunk.get(..taken).unwrap_or_default());
        is_cut = taken < chunk.len();
    }
    // The connection of an answer that has no end is closed.
    drop(response);
    let (body, is_cut) = match coding.as_str() {
        "" | "identity" => (body, is_cut),
        "gzip" | "x-gzip" => {
            let most = ask.max_bytes;
            let unzipped = tokio::task::spawn_blocking(move || unzip(&body, most, is_cut));
            unzipped.await.map_err(|_| Problem::Coding)??
        }
        _ => return Err(Problem::Coding),
    };
    Ok(Fetched { url: ask.url, status, content_type, body, is_cut, at: SystemTime::now() })
}
