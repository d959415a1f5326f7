//! Crawls sites from the start pages that the operator lists, as far as their `robots.txt` allows.
//!
//! The first call crawls them, and calls that arrive in the meantime wait. If a call ends during the crawl, its
//! pages are kept and the next call continues. Pages older than the configured age are read again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use openskill_net::egress::allow::Allowed;
use openskill_text::pages::index::Rarities;
use openskill_text::pages::question::Question;
use tokio::sync::Mutex;
use url::{Origin, Url};

use super::fetch::Ask;
use super::page::{Collection, Hit};
use super::problem::ResearchProblem;
use super::provider::own_host;
use super::read::{Read, Reader};
use crate::config::research::Site as Settings;

mod robots;

use robots::Robots;

/// The maximum number of pages read at the same time. A site that requests a delay is read one page at a time.
const AT_A_TIME: usize = 6;

/// The maximum total size of all texts, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// The maximum number of sitemaps.
const MAX_SITEMAPS: usize = 20;

/// A progress event is sent after each batch of this many pages.
const PAGES_OF_AN_EVENT: usize = 50;

/// The maximum number of requests for each page that may be kept. It is more than one, because not every URL is a
/// page.
const REQUESTS: usize = 3;

/// The fraction of a call's time that is reserved for its answer.
const FOR_THE_ANSWER: f64 = 0.25;

/// Web sites with the pages read so far.
pub(super) struct Site {
    settings: Settings,
    origins: Vec<Origin>,
    /// Allows only the hosts of the start pages, even on a private network, because the operator chose them.
    allow: Vec<Allowed>,
    crawl: Mutex<Crawl>,
}

/// The progress of a crawl.
#[derive(Default)]
struct Crawl {
    begun: Option<Instant>,
    frontier: Frontier,
    /// The URLs that a call is currently reading.
    in_flight: Vec<Url>,
    robots: Arc<HashMap<String, Robots>>,
    pages: Collection,
    failed: usize,
    requested: usize,
    last_problem: Option<(Url, ResearchProblem)>,
    is_done: bool,
}

impl Site {
    pub(super) fn new(settings: Settings) -> Self {
        let mut origins: Vec<Origin> = settings.starts.iter().map(Url::origin).collect();
        origins.dedup();
        let allow = settings.starts.iter().map(own_host).collect();
        Self { settings, origins, allow, crawl: Mutex::default() }
    }

    /// Returns the pages that contain words of a query, and a warning if not all pages were read. The call's
    /// events report the progress.
    ///
    /// # Errors
    /// No page could be read.
    pub(super) async fn search(
        &self,
        query: &str,
        reader: &Reader<'_>,
    ) -> Result<(Vec<Hit>, Option<String>), ResearchProblem> {
        let locked = tokio::time::timeout(reader.budget.remaining(), self.crawl.lock()).await;
        let mut crawl = locked.map_err(|_| ResearchProblem::Budget("time"))?;
        if crawl.begun.is_none_or(|it| crawl.is_done && it.elapsed() >= self.settings.fresh) {
            self.begin(&mut crawl, reader).await;
        }
        if !crawl.is_done {
            let going = self.go_on(&mut crawl, reader);
            let _ = tokio::time::timeout(reader.budget.remaining_before(FOR_THE_ANSWER), going).await;
        }
        if crawl.pages.len() == 0 {
            return Err(crawl.last_problem.take().map_or(ResearchProblem::Unreachable, |it| it.1));
        }
        let (read, failed) = (crawl.pages.len(), crawl.failed);
        let warning = match (crawl.is_done, &crawl.last_problem) {
            (false, _) => {
                Some(format!("only a part of the site has been read so far, {read} pages: the next call continues"))
            }
            (true, None) => None,
            (true, Some((url, problem))) => {
                Some(format!("unreadable pages of the site: {failed}, such as {url}: {problem}"))
            }
        };
        Ok((crawl.pages.find(query), warning))
    }

    /// Returns how rare the words of a question are on the sites.
    pub(super) async fn rarities(&self, question: &Question) -> Rarities {
        self.crawl.lock().await.pages.rarities(question)
    }

    async fn begin(&self, crawl: &mut Crawl, reader: &Reader<'_>) {
        *crawl = Crawl { frontier: Frontier::new(self.settings.pages), ..Crawl::default() };
        for start in &self.settings.starts {
            crawl.frontier.add(start.clone(), &self.origins);
        }
        for (origin, start) in self.origins.iter().zip(&self.settings.starts) {
            let robots = self.robots(start, reader).await;
            let mut maps: Vec<Url> = robots.sitemaps.iter().filter_map(|it| Url::parse(it).ok()).collect();
            maps.extend(start.join("/sitemap.xml").ok().filter(|_| maps.is_empty()));
            Arc::make_mut(&mut crawl.robots).insert(origin.ascii_serialization(), robots);
            self.sitemaps(maps, crawl, reader).await;
        }
        crawl.begun = Some(Instant::now());
    }

    /// Reads `robots.txt`. As RFC 9309 specifies, a missing file allows everything, and a failing server allows
    /// nothing.
    async fn robots(&self, start: &Url, reader: &Reader<'_>) -> Robots {
        let Ok(url) = start.join("/robots.txt") else { return Robots::nothing() };
        let allow = self.allow_for(&url);
        let follows = |url: &Url| self.is_own(url);
        let ask = Ask { follows: &follows, max_bytes: 512 * 1024, ..Ask::page(url, &allow) };
        match reader.fetcher.fetch(ask, reader.budget).await {
            Ok(it) if it.status < 300 => Robots::parse(&String::from_utf8_lossy(&it.body)),
            Ok(it) if it.status < 500 && it.status != 429 => Robots::default(),
            Err(ResearchProblem::OtherSite | ResearchProblem::Redirects) => Robots::default(),
            Ok(_) | Err(_) => Robots::nothing(),
        }
    }

    async fn sitemaps(&self, mut maps: Vec<Url>, crawl: &mut Crawl, reader: &Reader<'_>) {
        let mut read = 0;
        while let Some(url) = maps.pop().filter(|_| read < MAX_SITEMAPS) {
            if !self.origins.contains(&url.origin()) {
                continue;
            }
            read += 1;
            let allow = self.allow_for(&url);
            let follows = |url: &Url| self.is_own(url);
            let ask = Ask { follows: &follows, ..Ask::page(url, &allow) };
            let Ok(answer) = reader.fetcher.fetch(ask, reader.budget).await else { continue };
            if answer.status >= 300 {
                continue;
            }
            let (urls, is_index) = sitemap(&String::from_utf8_lossy(&answer.body));
            if is_index {
                maps.extend(urls.into_iter().take(MAX_SITEMAPS));
            } else {
                urls.into_iter().for_each(|it| crawl.frontier.add(it, &self.origins));
            }
        }
    }

    /// Reads pages until none are left, or until the rest of the call's time is reserved for the answer.
    async fn go_on(&self, crawl: &mut Crawl, reader: &Reader<'_>) {
        // A dropped call was reading these.
        for url in std::mem::take(&mut crawl.in_flight) {
            crawl.frontier.waiting.push_front(url);
        }
        let delay = crawl.robots.values().filter_map(|it| it.delay).max();
        let at_a_time = if delay.is_some() { 1 } else { AT_A_TIME };
        let mut running = FuturesUnordered::new();
        while reader.budget.exhausted_limit() != Some("bytes") {
            while running.len() < at_a_time
                && crawl.has_room(self.settings.pages, running.len())
                && let Some(url) = crawl.next()
            {
                running.push(self.one(url, Arc::clone(&crawl.robots), delay, reader));
            }
            let Some((url, read)) = running.next().await else {
                crawl.is_done = true;
                break;
            };
            crawl.in_flight.retain(|it| *it != url);
            let is_partial = |it: &Read| it.is_cut && reader.budget.exhausted_limit() == Some("bytes");
            if matches!(read, Err(ResearchProblem::Budget(_))) || read.as_ref().is_ok_and(is_partial) {
                crawl.frontier.waiting.push_front(url);
                continue;
            }
            crawl.take(url, read, &self.origins);
            if crawl.pages.len().is_multiple_of(PAGES_OF_AN_EVENT) {
                let message = format!("reading the site: {} pages", crawl.pages.len());
                reader.events.progress(0.0, message).await;
            }
        }
    }

    async fn one(
        &self,
        url: Url,
        robots: Arc<HashMap<String, Robots>>,
        delay: Option<Duration>,
        reader: &Reader<'_>,
    ) -> (Url, Result<Read, ResearchProblem>) {
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        let allow = self.allow_for(&url);
        let follows = |url: &Url| {
            self.is_own(url)?;
            if allows(&robots, url) { Ok(()) } else { Err(ResearchProblem::Robots) }
        };
        let read = reader.page(url.clone(), &allow, &follows).await;
        (url, read)
    }

    /// # Errors
    /// The URL does not belong to the sites.
    fn is_own(&self, url: &Url) -> Result<(), ResearchProblem> {
        if self.origins.contains(&url.origin()) { Ok(()) } else { Err(ResearchProblem::OtherSite) }
    }

    /// Returns the egress rules of the start page with the same origin.
    fn allow_for(&self, url: &Url) -> Allowed {
        let starts = self.settings.starts.iter().zip(&self.allow);
        let own = starts.into_iter().find(|(start, _)| start.origin() == url.origin());
        own.map(|(_, allow)| allow.clone()).unwrap_or_default()
    }
}

impl Crawl {
    fn has_room(&self, most: usize, running: usize) -> bool {
        self.pages.len() + running < most && self.requested < most * REQUESTS && self.pages.bytes < MAX_BYTES
    }

    /// Returns the next URL that `robots.txt` allows.
    fn next(&mut self) -> Option<Url> {
        loop {
            let url = self.frontier.waiting.pop_front()?;
            if allows(&self.robots, &url) {
                self.requested += 1;
                self.in_flight.push(url.clone());
                return Some(url);
            }
            self.failed += 1;
            self.last_problem = Some((url, ResearchProblem::Robots));
        }
    }

    fn take(&mut self, url: Url, read: Result<Read, ResearchProblem>, origins: &[Origin]) {
        match read {
            Ok(read) => {
                // A redirect may lead to a page that was already read.
                if read.url != url && !self.frontier.seen.insert(read.url.as_str().to_owned()) {
                    return;
                }
                let document = &read.page.document;
                let base = read.url.join(&document.base).unwrap_or_else(|_| read.url.clone());
                for link in &document.links {
                    if let Ok(link) = base.join(link) {
                        self.frontier.add(link, origins);
                    }
                }
                if !read.page.document.text.is_empty() {
                    self.pages.add(read.page, &read.counts);
                }
            }
            Err(ResearchProblem::Kind(_) | ResearchProblem::OtherSite) => {}
            Err(problem) => {
                self.failed += 1;
                self.last_problem = Some((url, problem));
            }
        }
    }
}

/// Returns whether a site's `robots.txt` allows a URL. A site whose file was not fetched allows nothing.
fn allows(robots: &HashMap<String, Robots>, url: &Url) -> bool {
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    robots.get(&url.origin().ascii_serialization()).is_some_and(|it| it.allows(&path))
}

/// The maximum length of a URL, in bytes.
const MAX_URL_BYTES: usize = 1024;

/// The maximum number of queued URLs for each page that may be read.
const WAITING: usize = 20;

/// A queue of URLs without duplicates.
#[derive(Debug, Default)]
struct Frontier {
    waiting: VecDeque<Url>,
    seen: HashSet<String>,
    most: usize,
}

impl Frontier {
    /// Creates a queue for reading this many pages.
    fn new(pages: usize) -> Self {
        Self { most: pages.saturating_mul(WAITING), ..Self::default() }
    }

    /// Adds a URL, unless its origin is not in `origins` or it was seen before.
    fn add(&mut self, mut url: Url, origins: &[Origin]) {
        url.set_fragment(None);
        let is_plain = url.set_username("").is_ok() && url.set_password(None).is_ok();
        let is_fit = is_plain && url.as_str().len() <= MAX_URL_BYTES && origins.contains(&url.origin());
        if is_fit && self.seen.len() < self.most && is_page(url.path()) && self.seen.insert(url.as_str().to_owned()) {
            self.waiting.push_back(url);
        }
    }
}

/// Returns whether a path's extension suggests a page with text.
fn is_page(path: &str) -> bool {
    const OTHERS: [&str; 28] = [
        "png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "css", "js", "mjs", "json", "xml", "zip", "gz", "tgz",
        "bz2", "xz", "7z", "tar", "exe", "dmg", "mp3", "mp4", "webm", "woff", "woff2", "ttf", "iso",
    ];
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').is_none_or(|(_, ending)| !OTHERS.contains(&ending.to_ascii_lowercase().as_str()))
}

/// Parses a sitemap. Returns its URLs, and whether they are sitemaps themselves.
fn sitemap(text: &str) -> (Vec<Url>, bool) {
    let locations = text.split("<loc>").skip(1).filter_map(|it| it.split("</loc>").next());
    let urls = locations.take(50_000).filter_map(|it| Url::parse(it.trim().replace("&amp;", "&").as_str()).ok());
    (urls.collect(), text.contains("<sitemapindex"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_of_the_site_is_read_once() {
        let url = |text: &str| Url::parse(text).unwrap();
        let origins = [url("http://a.example/").origin()];
        let mut frontier = Frontier::new(1);
        for text in [
            "http://a.example/x#1",
            "http://a.example/x#2",
            "http://b.example/",
            "https://a.example/",
            "http://a.example/y.png",
            "http://me:pw@a.example/z",
        ] {
            frontier.add(url(text), &origins);
        }
        assert_eq!(frontier.waiting.pop_front().unwrap().as_str(), "http://a.example/x");
        assert_eq!(frontier.waiting.pop_front().unwrap().as_str(), "http://a.example/z");
        assert!(frontier.waiting.pop_front().is_none());
        for number in 0..100 {
            frontier.add(url(&format!("http://a.example/{number}")), &origins);
        }
        assert_eq!(frontier.waiting.len(), WAITING - 2);
    }

    #[test]
    fn a_sitemap_is_read() {
        let (urls, is_index) = sitemap("<urlset><url><loc> http://a.example/?a=1&amp;b=2 </loc></url></urlset>");
        assert_eq!((urls[0].as_str(), is_index), ("http://a.example/?a=1&b=2", false));
    }
}
