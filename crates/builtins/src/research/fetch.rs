//! Fetches one URL within the egress rules. Names are resolved once and pinned, and each redirect is checked like
//! the first request.

use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use openskill_net::egress::allow::Allowed;
use openskill_net::egress::client::Clients;
use openskill_net::egress::reach::Reach;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, Response};
use url::Url;

use super::budget::Budget;
use super::problem::ResearchProblem;

/// The maximum number of redirects per request.
const MAX_REDIRECTS: usize = 5;

/// The maximum length of a URL, in bytes.
const MAX_URL_BYTES: usize = 4096;

/// An HTTP client that fetches URLs.
pub(super) struct Fetcher {
    pub(super) clients: Arc<Clients>,
}

/// Decides whether to follow a redirect to a URL. An error rejects it.
pub(super) type Follows<'a> = dyn Fn(&Url) -> Result<(), ResearchProblem> + Send + Sync + 'a;

/// Accepts every redirect that the egress rules allow.
pub(super) fn follow_all(_: &Url) -> Result<(), ResearchProblem> {
    Ok(())
}

/// Rejects every redirect, because redirects could send an API key elsewhere.
pub(super) fn follow_none(_: &Url) -> Result<(), ResearchProblem> {
    Err(ResearchProblem::Redirects)
}

/// A request, with its limits.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    /// Hosts outside the public internet that the request may reach.
    pub(super) allow: &'a Allowed,
    /// Decides whether to follow a redirect.
    pub(super) follows: &'a Follows<'a>,
    /// The maximum size of the response. The rest of a longer response is not read.
    pub(super) max_bytes: usize,
    /// The time limit of the request.
    pub(super) time: Duration,
}

impl<'a> Ask<'a> {
    /// Returns a request for a page.
    pub(super) fn page(url: Url, allow: &'a Allowed) -> Self {
        let (method, headers, max_bytes, time) = (Method::GET, HeaderMap::new(), MAX_PAGE_BYTES, PAGE_TIME);
        Self { method, url, headers, body: None, allow, follows: &follow_all, max_bytes, time }
    }
}

/// The maximum size of a page, both compressed and uncompressed, in bytes.
pub(super) const MAX_PAGE_BYTES: usize = 8 << 20;

/// The time limit for reading a page.
const PAGE_TIME: Duration = Duration::from_secs(10);

/// A received response.
#[derive(Debug)]
pub(super) struct FetchResponse {
    /// The URL after redirects.
    pub(super) url: Url,
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
    /// Whether the response was longer than the limit.
    pub(super) is_cut: bool,
    pub(super) at: SystemTime,
}

impl Fetcher {
    /// Fetches a URL. Follows redirects and accepts every other status. Dropping the future closes the connection.
    ///
    /// # Errors
    /// No response arrives within the limits, or the rules do not allow the request.
    pub(super) async fn fetch(&self, ask: Ask<'_>, budget: &Budget) -> Result<FetchResponse, ResearchProblem> {
        let time = ask.time.min(budget.remaining());
        match tokio::time::timeout(time, self.follow(ask, budget)).await {
            Ok(fetched) => fetched,
            Err(_) if budget.remaining().is_zero() => Err(ResearchProblem::Budget("time")),
            Err(_) => Err(ResearchProblem::TooSlow(time)),
        }
    }

    async fn follow(&self, mut ask: Ask<'_>, budget: &Budget) -> Result<FetchResponse, ResearchProblem> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&ask).await?;
            let status = response.status().as_u16();
            let location = response.headers().get(LOCATION).filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308));
            let Some(location) = location else { return read(response, ask, budget).await };
            ask.url = next(&ask, &String::from_utf8_lossy(location.as_bytes()))?;
        }
        Err(ResearchProblem::Redirects)
    }

    async fn send(&self, ask: &Ask<'_>) -> Result<Response, ResearchProblem> {
        let reach = Reach::for_url(&ask.url, ask.allow).map_err(|it| ResearchProblem::from(&it))?;
        let client = self.clients.get(reach).await.map_err(|error| {
            tracing::error!(error, "an HTTP client cannot be created");
            ResearchProblem::Unreachable
        })?;
        let mut request = reqwest::Request::new(ask.method.clone(), ask.url.clone());
        request.headers_mut().clone_from(&ask.headers);
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        *request.body_mut() = ask.body.clone().map(Into::into);
        client.execute(request).await.map_err(|it| ResearchProblem::from(&it))
    }
}

/// Returns the target of a redirect. Rejects invalid and unsafe targets.
fn next(ask: &Ask<'_>, location: &str) -> Result<Url, ResearchProblem> {
    let mut url = ask.url.join(location).map_err(|_| ResearchProblem::Redirects)?;
    url.set_fragment(None);
    // A server must not choose credentials, or redirect a request that has a body.
    let is_plain = url.set_username("").is_ok() && url.set_password(None).is_ok();
    if !is_plain || url.as_str().len() > MAX_URL_BYTES || ask.body.is_some() {
        return Err(ResearchProblem::Redirects);
    }
    if ask.url.scheme() == "https" && url.scheme() == "http" {
        return Err(ResearchProblem::Refused("it redirects from https to http".to_owned()));
    }
    (ask.follows)(&url)?;
    Ok(url)
}

async fn read(mut response: Response, ask: Ask<'_>, budget: &Budget) -> Result<FetchResponse, ResearchProblem> {
    let header = |name| {
        let value = response.headers().get(name).map(|it: &HeaderValue| String::from_utf8_lossy(it.as_bytes()));
        value.map(|it| it.chars().take(200).collect::<String>().to_ascii_lowercase()).unwrap_or_default()
    };
    let (status, content_type, coding) = (response.status().as_u16(), header(CONTENT_TYPE), header(CONTENT_ENCODING));
    let (mut body, mut is_cut) = (Vec::new(), false);
    while !is_cut && let Some(chunk) = response.chunk().await.map_err(|_| ResearchProblem::BrokeOff)? {
        let wanted = chunk.len().min(ask.max_bytes - body.len());
        let taken = budget.take_bytes(wanted);
        body.extend_from_slice(chunk.get(..taken).unwrap_or_default());
        is_cut = taken < chunk.len();
    }
    // Closes the connection, so that an endless response stops.
    drop(response);
    let (body, is_cut) = match coding.as_str() {
        "" | "identity" => (body, is_cut),
        "gzip" | "x-gzip" => {
            let most = ask.max_bytes;
            let unzipped = tokio::task::spawn_blocking(move || unzip(&body, most, is_cut));
            unzipped.await.map_err(|_| ResearchProblem::Coding)??
        }
        _ => return Err(ResearchProblem::Coding),
    };
    Ok(FetchResponse { url: ask.url, status, content_type, body, is_cut, at: SystemTime::now() })
}

/// Decompresses a gzip body, which may decompress to any size. Returns its first `most` bytes and whether there are
/// more. A truncated body yields whatever can be decompressed.
fn unzip(body: &[u8], most: usize, is_cut: bool) -> Result<(Vec<u8>, bool), ResearchProblem> {
    let mut out = Vec::new();
    let read = MultiGzDecoder::new(body).take(most as u64 + 1).read_to_end(&mut out);
    if read.is_err() && !is_cut {
        return Err(ResearchProblem::Coding);
    }
    let is_longer = out.len() > most;
    out.truncate(most);
    Ok((out, is_longer || is_cut))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_bomb_is_cut() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        for _ in 0..64 {
            encoder.write_all(&[b'a'; 1 << 20]).unwrap();
        }
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 100_000);
        assert_eq!(unzip(&bomb, 1000, false).unwrap(), (vec![b'a'; 1000], true));
        assert!(unzip(&bomb[..bomb.len() / 2], usize::MAX - 1, true).unwrap().0.len() > 1000);
        assert_eq!(unzip(b"not gzip", 1000, false), Err(ResearchProblem::Coding));
    }
}
