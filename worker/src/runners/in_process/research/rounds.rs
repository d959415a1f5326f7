//! The rounds of a call: search, read, quote, find what is missing, and search for that.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use openskill_proto::v1::{Progress, execute_event::Event};
use openskill_research::document::Document;
use openskill_research::gaps::{missing, next_query};
use openskill_research::question::Question;
use openskill_research::quote::{Quote, choose, fit};
use openskill_research::rank::{Page as Candidate, Weights, pages, rank};
use openskill_research::rarity::Rarities;
use url::Url;

use super::arguments::Task;
use super::budget::Budget;
use super::fetch::follow_all;
use super::page::{Hit, Page};
use super::problem::Problem;
use super::read::Reader;
use super::source::Source;
use crate::events::EventSink;
use crate::manifest::http::Allowed;
use crate::runners::in_process::stop::Stop;

/// How many pages are read at a time.
const AT_A_TIME: usize = 4;

/// The most quotes of one page.
const OF_ONE_PAGE: usize = 3;

/// The most warnings.
const MAX_WARNINGS: usize = 20;

/// What a call has to do with.
pub(super) struct Tools<'a> {
    pub(super) source: &'a Source,
    pub(super) reader: &'a Reader,
    pub(super) allow: &'a Allowed,
    pub(super) budget: &'a Budget,
    pub(super) events: &'a EventSink,
    /// When ranking ends, with what there is.
    pub(super) stop: Stop,
}

/// What was found.
#[derive(Default)]
pub(super) struct Findings {
    /// The pages that were read, in the order of reading.
    pub(super) pages: Vec<Arc<Page>>,
    /// The best pages first, as places in `pages`.
    pub(super) order: Vec<usize>,
    /// The best first.
    pub(super) quotes: Vec<Quote>,
    pub(super) queries: Vec<String>,
    pub(super) loops: usize,
    pub(super) warnings: Vec<String>,
}

impl Findings {
    pub(super) fn warn(&mut self, warning: String) {
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// Runs the rounds. Dropping it ends all requests.
pub(super) struct Rounds<'a> {
    tools: Tools<'a>,
    task: &'a Task,
    question: Question,
    found: Findings,
    /// What the source thinks of each page.
    scores: Vec<f64>,
    seen: HashSet<String>,
    /// Pages that were found and not read yet.
    left: Vec<Hit>,
    /// The source refuses queries.
    is_blocked: bool,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(tools: Tools<'a>, task: &'a Task) -> Self {
        let question = Question::new(&task.question);
        let question = if task.focus.is_empty() { question } else { question.focused(&task.focus) };
        let (found, scores, seen, left) = (Findings::default(), Vec::new(), HashSet::new(), Vec::new());
        Self { tools, task, question, found, scores, seen, left, is_blocked: false }
    }

    /// At most as many rounds as the budget has. `first`: the queries of the first.
    pub(super) async fn run(mut self, first: Vec<String>) -> Findings {
        let mut queries = first;
        while (!queries.is_empty() || self.wants_more()) && self.found.loops < self.task.limits.loops {
            if let Some(what) = self.tools.budget.exhausted() {
                self.found.warn(format!("the budget of {what} was used up after {} rounds", self.found.loops));
                break;
            }
            self.found.loops += 1;
            let hits = self.search(queries).await;
            self.read(hits).await;
            self.quote().await;
            let next = next_query(&self.question, &self.found.quotes, &self.found.queries);
            queries = next.filter(|_| !self.is_blocked).into_iter().collect();
        }
        self.found
    }

    /// Whether there is a page that may have something that is missing, or that is to be read anyway.
    fn wants_more(&self) -> bool {
        let is_missing = || !missing(&self.question, &self.found.quotes).is_empty();
        self.found.loops > 0 && !self.left.is_empty() && (self.task.is_thorough || is_missing())
    }

    async fn say(&self, part: f64, message: String) {
        let rounds = self.task.limits.loops.max(1) as f64;
        let fraction = ((self.found.loops.saturating_sub(1) as f64 + part) / rounds).clamp(0.0, 1.0);
        self.tools.events.send(Event::Progress(Progress { fraction, message })).await;
    }

    /// The new pages of all queries, those first that are best for one of them.
    async fn search(&mut self, queries: Vec<String>) -> Vec<Hit> {
        let mut hits: Vec<Hit> = std::mem::take(&mut self.left);
        for query in queries {
            if self.is_blocked || self.tools.budget.left().is_zero() {
                break;
            }
            self.say(0.0, format!("searching: {query}")).await;
            let tools = &self.tools;
            let searched = tools.source.search(&query, tools.reader, tools.budget, tools.events).await;
            match searched {
                Ok((found, warning)) => {
                    warning.into_iter().for_each(|it| self.found.warn(it));
                    for hit in found {
                        match hits.iter_mut().find(|it| it.url == hit.url) {
                            Some(known) => known.score = known.score.max(hit.score),
                            None if self.seen.contains(&hit.url) => {}
                            None => hits.push(hit),
                        }
                    }
                }
                Err(problem) => {
                    self.is_blocked = matches!(problem, Problem::TooMany | Problem::Unreachable | Problem::TooSlow(_));
                    self.found.warn(format!("the search for '{query}' failed: {problem}"));
                }
            }
            self.found.queries.push(query);
        }
        self.prefer(&mut hits);
        hits
    }

    /// By what the source thinks of them, and how much of the question their titles and snippets have.
    fn prefer(&self, hits: &mut [Hit]) {
        let shown = |hit: &Hit| {
            let words: HashSet<String> =
                openskill_research::words::terms(&format!("{} {}", hit.title, hit.snippet)).into_iter().collect();
            let has = self.question.terms.iter().filter(|it| words.contains(&it.term)).count();
            has as f64 / self.question.terms.len().max(1) as f64
        };
        hits.sort_by_cached_key(|hit| {
            let bonus = if hit.page.is_none() { 0.5 * shown(hit) } else { 0.0 };
            std::cmp::Reverse(((hit.score + bonus) * 1e6) as i64)
        });
    }

    /// Reads the best pages: an even share of those that are left for each round that is left.
    async fn read(&mut self, mut hits: Vec<Hit>) {
        let rounds = (self.task.limits.loops - self.found.loops + 1).max(1);
        let share = self.tools.budget.pages_left().div_ceil(rounds);
        self.left = hits.split_off(share.min(hits.len()));
        let chosen = hits;
        let (total, mut done) = (chosen.len(), 0);
        for hit in &chosen {
            self.seen.insert(hit.url.clone());
        }
        let (reader, allow, budget) = (self.tools.reader, self.tools.allow, self.tools.budget);
        let mut reading = futures_util::stream::iter(chosen)
            .map(|hit| async move {
                let read = one(&hit, reader, allow, budget).await;
                (hit, read)
            })
            .buffered(AT_A_TIME);
        while let Some((hit, read)) = reading.next().await {
            done += 1;
            match read {
                Ok(page) => {
                    let is_known = self.found.pages.iter().any(|it| it.url == page.url);
                    self.seen.insert(page.url.clone());
                    if !is_known && !page.document.text.is_empty() {
                        self.found.pages.push(page);
                        self.scores.push(hit.score);
                    }
                }
                Err(problem) => self.found.warn(format!("{} was not read: {problem}", hit.url)),
            }
            let part = 0.2 + 0.7 * f64::from(done) / total.max(1) as f64;
            self.say(part, format!("reading {done} of {total}")).await;
        }
    }

    /// Ranks all pages anew, on a blocking thread.
    async fn quote(&mut self) {
        let pages_read = self.found.pages.clone();
        let rarities = self.tools.source.rarities(&self.question).await;
        let (question, scores, stop) = (self.question.clone(), self.scores.clone(), self.tools.stop.clone());
        let (most, slot) = (self.task.quotes, self.tools.reader.slot.clone());
        let ranked = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            let documents: Vec<&Document> = pages_read.iter().map(|it| &it.document).collect();
            let rarities = rarities.unwrap_or_else(|| Rarities::of_blocks(&question, &documents));
            let candidates: Vec<Candidate<'_>> = pages_read
                .iter()
                .zip(&scores)
                .map(|(page, score)| Candidate { document: &page.document, score: *score })
                .collect();
            let scored = rank(&question, &candidates, |it| rarities.of(it), &Weights::default(), || stop.is_due());
            let order = pages(&scored).into_iter().map(|it| it.0).collect();
            (choose(&documents, &fit(scored), most, OF_ONE_PAGE), order)
        });
        if let Ok((quotes, order)) = ranked.await {
            (self.found.quotes, self.found.order) = (quotes, order);
        }
    }
}

async fn one(hit: &Hit, reader: &Reader, allow: &Allowed, budget: &Budget) -> Result<Arc<Page>, Problem> {
    if let Some(what) = budget.exhausted().filter(|it| *it == "time" && hit.page.is_none()) {
        return Err(Problem::Budget(what));
    }
    if !budget.take_page() {
        return Err(Problem::Budget("pages"));
    }
    if let Some(page) = &hit.page {
        return Ok(Arc::clone(page));
    }
    let url = Url::parse(&hit.url).map_err(|_| Problem::Redirects)?;
    reader.page(url, allow, &follow_all, budget).await.map(|it| it.page)
}
