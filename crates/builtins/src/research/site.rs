//! Crawls sites from the start pages that the operator lists, as far as their `robots.txt` allows.
//!
//! The first call crawls them, and calls that arrive in the meantime wait. If a call ends during the crawl, its
//! pages are kept and the next call continues. Pages older than the configured age are read again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use openskill_egress::allow::Allowed;
use openskill_research::question::Question;
use openskill_research::rarity::Rarities;
use tokio::sync::{Mutex, MutexGuard};
use url::{Origin, Url};

use super::budget::Budget;
use super::collection::Collection;
use super::fetch::Ask;
use super::page::Hit;
use super::problem::ResearchProblem;
use super::provider::own_host;
use super::read::{Read, Reader};
use crate::call::CallEvents;
use crate::config::research::{Allow, Site as Settings};

mod frontier;
mod robots;

use frontier::{Frontier, sitemap};
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

    /// Returns the pages that contain words of a query, and a warning if not all pages were read. Events report
    /// the progress.
    ///
    /// # Errors
    /// No page could be read.
    pub(super) async fn search(
        &self,
        query: &str,
        reader: &Reader,
        budget: &Budget,
        events: &dyn CallEvents,
    ) -> Result<(Vec<Hit>, Option<String>), ResearchProblem> {
        let mut crawl = self.lock(budget).await?;
        if crawl.begun.is_none_or(|it| crawl.is_done && it.elapsed() >= self.settings.fresh) {
            self.begin(&mut crawl, reader, budget).await;
        }
        if !crawl.is_done {
            let going = self.go_on(&mut crawl, reader, budget, events);
            let _ = tokio::time::timeout(budget.remaining_before(FOR_THE_ANSWER), going).await;
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

    async fn lock(&self, budget: &Budget) -> Result<MutexGuard<'_, Crawl>, ResearchProblem> {
        tokio::time::timeout(budget.remaining(), self.crawl.lock()).await.map_err(|_| ResearchProblem::Budget("time"))
    }

    async fn begin(&self, crawl: &mut Crawl, reader: &Reader, budget: &Budget) {
        *crawl = Crawl { frontier: Frontier::new(self.settings.pages), ..Crawl::default() };
        for start in &self.settings.starts {
            crawl.frontier.add(start.clone(), &self.origins);
        }
        for (origin, start) in self.origins.iter().zip(&self.settings.starts) {
            let robots = self.robots(start, reader, budget).await;
            let mut maps: Vec<Url> = robots.sitemaps.iter().filter_map(|it| Url::parse(it).ok()).collect();
            maps.extend(start.join("/sitemap.xml").ok().filter(|_| maps.is_empty()));
            Arc::make_mut(&mut crawl.robots).insert(origin.ascii_serialization(), robots);
            self.sitemaps(maps, crawl, reader, budget).await;
        }
        crawl.begun = Some(Instant::now());
    }

    /// Reads `robots.txt`. As RFC 9309 specifies, a missing file allows everything, and a failing server allows
    /// nothing.
    async fn robots(&self, start: &Url, reader: &Reader, budget: &Budget) -> Robots {
        let Ok(url) = start.join("/robots.txt") else { return Robots::nothing() };
        let allow = self.allow_for(&url);
        let follows = |url: &Url| self.is_own(url);
        let ask = Ask { follows: &follows, max_bytes: 512 * 1024, ..Ask::page(url, &allow) };
        match reader.fetcher.fetch(ask, budget).await {
            Ok(it) if it.status < 300 => Robots::parse(&String::from_utf8_lossy(&it.body)),
            Ok(it) if it.status < 500 && it.status != 429 => Robots::default(),
            Err(ResearchProblem::OtherSite | ResearchProblem::Redirects) => Robots::default(),
            Ok(_) | Err(_) => Robots::nothing(),
        }
    }

    async fn sitemaps(&self, mut maps: Vec<Url>, crawl: &mut Crawl, reader: &Reader, budget: &Budget) {
        let mut read = 0;
        while let Some(url) = maps.pop().filter(|_| read < MAX_SITEMAPS) {
            if !self.origins.contains(&url.origin()) {
                continue;
            }
            read += 1;
            let allow = self.allow_for(&url);
            let follows = |url: &Url| self.is_own(url);
            let ask = Ask { follows: &follows, ..Ask::page(url, &allow) };
            let Ok(answer) = reader.fetcher.fetch(ask, budget).await else { continue };
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
    async fn go_on(&self, crawl: &mut Crawl, reader: &Reader, budget: &Budget, events: &dyn CallEvents) {
        // A dropped call was reading these.
        for url in std::mem::take(&mut crawl.in_flight) {
            crawl.frontier.put_back(url);
        }
        let delay = crawl.robots.values().filter_map(|it| it.delay).max();
        let at_a_time = if delay.is_some() { 1 } else { AT_A_TIME };
        let mut running = FuturesUnordered::new();
        while budget.exhausted_limit() != Some("bytes") {
            while running.len() < at_a_time
                && crawl.has_room(self.settings.pages, running.len())
                && let Some(url) = crawl.next()
            {
                running.push(self.one(url, Arc::clone(&crawl.robots), delay, reader, budget));
            }
            let Some((url, read)) = running.next().await else {
                crawl.is_done = true;
                break;
            };
            crawl.in_flight.retain(|it| *it != url);
            let is_partial = |it: &Read| it.is_cut && budget.exhausted_limit() == Some("bytes");
            if matches!(read, Err(ResearchProblem::Budget(_))) || read.as_ref().is_ok_and(is_partial) {
                crawl.frontier.put_back(url);
                continue;
            }
            crawl.take(url, read, &self.origins);
            if crawl.pages.len().is_multiple_of(PAGES_OF_AN_EVENT) {
                let message = format!("reading the site: {} pages", crawl.pages.len());
                events.progress(0.0, message).await;
            }
        }
    }

    async fn one(
        &self,
        url: Url,
        robots: Arc<HashMap<String, Robots>>,
        delay: Option<Duration>,
        reader: &Reader,
        budget: &Budget,
    ) -> (Url, Result<Read, ResearchProblem>) {
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        let allow = self.allow_for(&url);
        let follows = |url: &Url| {
            self.is_own(url)?;
            if allows(&robots, url) { Ok(()) } else { Err(ResearchProblem::Robots) }
        };
        let read = reader.page(url.clone(), &allow, &follows, budget).await;
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
        own.map_or_else(|| Allow::default().0, |(_, allow)| allow.clone())
    }
}

impl Crawl {
    fn has_room(&self, most: usize, running: usize) -> bool {
        self.pages.len() + running < most && self.requested < most * REQUESTS && self.pages.bytes() < MAX_BYTES
    }

    /// Returns the next URL that `robots.txt` allows.
    fn next(&mut self) -> Option<Url> {
        loop {
            let url = self.frontier.next()?;
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
                if read.url != url && !self.frontier.mark(&read.url) {
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
