//! The rounds of a call: search, read, select quotes, find gaps, and search for what is missing.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use openskill_net::egress::allow::Allowed;
use openskill_text::pages::document::Document;
use openskill_text::pages::gaps::{missing, next_query};
use openskill_text::pages::index::Rarities;
use openskill_text::pages::question::Question;
use openskill_text::pages::quote::{Quote, choose, fit};
use openskill_text::pages::rank::{Candidate, Weights, page_scores, rank};
use url::Url;

use super::arguments::ResearchTask;
use super::fetch::follow_all;
use super::page::{Hit, Page};
use super::problem::ResearchProblem;
use super::read::Reader;
use super::source::Source;
use crate::stop::StopSignal;

/// The maximum number of pages read at the same time.
const AT_A_TIME: usize = 4;

/// The maximum number of quotes from one page.
const OF_ONE_PAGE: usize = 3;

/// The maximum number of warnings.
const MAX_WARNINGS: usize = 20;

/// The context of a call's rounds.
pub(super) struct RoundContext<'a> {
    pub(super) source: &'a Source,
    pub(super) reader: &'a Reader<'a>,
    pub(super) allow: &'a Allowed,
    /// Stops ranking early. Ranking then returns its results so far.
    pub(super) stop: StopSignal,
}

/// The results of the rounds.
#[derive(Default)]
pub(super) struct Findings {
    /// The pages, in the order in which they were read.
    pub(super) pages: Vec<Arc<Page>>,
    /// Indexes into `pages`, best page first.
    pub(super) order: Vec<usize>,
    /// The quotes, best first.
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

/// Runs the rounds. Dropping the future cancels all requests.
pub(super) struct Rounds<'a> {
    context: RoundContext<'a>,
    task: &'a ResearchTask,
    question: Question,
    found: Findings,
    /// The source's score for each page.
    scores: Vec<f64>,
    seen: HashSet<String>,
    /// Pages that were found but not yet read.
    left: Vec<Hit>,
    /// Whether the source has stopped accepting queries.
    is_blocked: bool,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(context: RoundContext<'a>, task: &'a ResearchTask) -> Self {
        let question = Question::new(&task.question);
        let question = if task.focus.is_empty() { question } else { question.with_focus(&task.focus) };
        let (found, scores, seen, left) = (Findings::default(), Vec::new(), HashSet::new(), Vec::new());
        Self { context, task, question, found, scores, seen, left, is_blocked: false }
    }

    /// Runs as many rounds as the budget allows. `first` contains the queries of the first round.
    pub(super) async fn run(mut self, first: Vec<String>) -> Findings {
        let mut queries = first;
        while (!queries.is_empty() || self.wants_more()) && self.found.loops < self.task.limits.loops {
            if let Some(what) = self.context.reader.budget.exhausted_limit() {
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

    /// Returns whether to read another of the pages found: something is missing, or the call is thorough.
    fn wants_more(&self) -> bool {
        let is_missing = || !missing(&self.question, &self.found.quotes).is_empty();
        self.found.loops > 0 && !self.left.is_empty() && (self.task.is_thorough || is_missing())
    }

    async fn say(&self, part: f64, message: String) {
        let rounds = self.task.limits.loops.max(1) as f64;
        let fraction = ((self.found.loops.saturating_sub(1) as f64 + part) / rounds).clamp(0.0, 1.0);
        self.context.reader.events.progress(fraction, message).await;
    }

    /// Searches for all queries. Returns the new pages, those that rank highest for any query first.
    async fn search(&mut self, queries: Vec<String>) -> Vec<Hit> {
        let mut hits: Vec<Hit> = std::mem::take(&mut self.left);
        for query in queries {
            if self.is_blocked || self.context.reader.budget.remaining().is_zero() {
                break;
            }
            self.say(0.0, format!("searching: {query}")).await;
            match self.context.source.search(&query, self.context.reader).await {
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
                    self.is_blocked = matches!(
                        problem,
                        ResearchProblem::TooMany | ResearchProblem::Unreachable | ResearchProblem::TooSlow(_)
                    );
                    self.found.warn(format!("the search for '{query}' failed: {problem}"));
                }
            }
            self.found.queries.push(query);
        }
        self.prefer(&mut hits);
        hits
    }

    /// Sorts hits by the source's score, and by how much of the question their titles and snippets contain.
    fn prefer(&self, hits: &mut [Hit]) {
        let shown = |hit: &Hit| {
            let words: HashSet<String> =
                openskill_text::words::terms(&format!("{} {}", hit.title, hit.snippet)).into_iter().collect();
            let has = self.question.terms.iter().filter(|it| words.contains(&it.term)).count();
            has as f64 / self.question.terms.len().max(1) as f64
        };
        hits.sort_by_cached_key(|hit| {
            let bonus = if hit.page.is_none() { 0.5 * shown(hit) } else { 0.0 };
            std::cmp::Reverse(((hit.score + bonus) * 1e6) as i64)
        });
    }

    /// Reads the best pages. The remaining rounds share the remaining pages evenly.
    async fn read(&mut self, mut hits: Vec<Hit>) {
        let rounds = (self.task.limits.loops - self.found.loops + 1).max(1);
        let share = self.context.reader.budget.pages_left().div_ceil(rounds);
        self.left = hits.split_off(share.min(hits.len()));
        let chosen = hits;
        let (total, mut done) = (chosen.len(), 0);
        for hit in &chosen {
            self.seen.insert(hit.url.clone());
        }
        let (reader, allow) = (self.context.reader, self.context.allow);
        let mut reading = futures_util::stream::iter(chosen)
            .map(|hit| async move {
                let read = one(&hit, reader, allow).await;
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

    /// Ranks all pages again on a blocking thread.
    async fn quote(&mut self) {
        let pages_read = self.found.pages.clone();
        let rarities = self.context.source.rarities(&self.question).await;
        let (question, scores, stop) = (self.question.clone(), self.scores.clone(), self.context.stop.clone());
        let most = self.task.quotes;
        let ranked = self.context.reader.slot.run_blocking(move || {
            let documents: Vec<&Document> = pages_read.iter().map(|it| &it.document).collect();
            let rarities = rarities.unwrap_or_else(|| Rarities::from_blocks(&question, &documents));
            let candidates: Vec<Candidate<'_>> = pages_read
                .iter()
                .zip(&scores)
                .map(|(page, score)| Candidate { document: &page.document, score: *score })
                .collect();
            let scored = rank(&question, &candidates, |it| rarities.get(it), &Weights::default(), || stop.is_due());
            let order = page_scores(&scored).into_iter().map(|it| it.0).collect();
            (choose(&documents, &fit(scored), most, OF_ONE_PAGE), order)
        });
        if let Ok((quotes, order)) = ranked.await {
            (self.found.quotes, self.found.order) = (quotes, order);
        }
    }
}

async fn one(hit: &Hit, reader: &Reader<'_>, allow: &Allowed) -> Result<Arc<Page>, ResearchProblem> {
    if let Some(what) = reader.budget.exhausted_limit().filter(|it| *it == "time" && hit.page.is_none()) {
        return Err(ResearchProblem::Budget(what));
    }
    if !reader.budget.take_page() {
        return Err(ResearchProblem::Budget("pages"));
    }
    if let Some(page) = &hit.page {
        return Ok(Arc::clone(page));
    }
    let url = Url::parse(&hit.url).map_err(|_| ResearchProblem::Redirects)?;
    reader.page(url, allow, &follow_all).await.map(|it| it.page)
}
