//! `quick_research`, `research` and `comprehensive_research`: answers that quote what was read.
//!
//! ```text
//! question -> plan -> rounds: source -> read -> rank, quote -> gaps -> report
//! ```
//!
//! - [`arguments`]: what a caller asks for; [`budget`]: what a call may use; [`problem`]: why something was not read
//! - [`source`]: where pages are found: [`provider`] (search engines), [`folder`], [`site`]; [`collection`]: what those keep
//! - [`read`]: a page, by way of [`fetch`], [`inflate`], [`extract`] and [`pdf`]; [`page`]: what comes out
//! - [`mod@plan`], [`rounds`]: the work; [`model`]: plans and words it, if there is one
//! - [`mod@report`], [`timestamp`]: the result
//!
//! What a text says for a question is a matter of `openskill_research`, which does no I/O.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_research::support::{Supported, supported};

use super::host::{Host, Report};
use super::stop::Stop;
use crate::config::research::{NO_PROVIDER, Research as Settings};
use crate::runner::Invocation;
use crate::runners::http::client::{Clients, IDLE};

pub(super) mod arguments;
pub(super) mod budget;
mod collection;
mod extract;
pub(super) mod fetch;
mod folder;
mod inflate;
pub(super) mod model;
mod page;
mod pdf;
mod plan;
pub(super) mod problem;
mod provider;
mod read;
mod report;
mod rounds;
mod site;
mod source;
mod timestamp;

use arguments::{Task, Tool};
use budget::Budget;
use fetch::Fetcher;
use model::Model;
use pdf::PdfReader;
use plan::first_queries;
use read::Reader;
use report::Citation;
use report::{citations, report};
use rounds::{Findings, Rounds, Tools};
use source::Source;

/// How long before the deadline ranking ends.
const BEFORE_THE_DEADLINE: Duration = Duration::from_millis(50);

/// The part of a call's time that is kept for the model to word the answer.
const FOR_THE_MODEL: f64 = 0.3;

/// What the three tools share, and keep between calls.
pub(super) struct Research {
    settings: Settings,
    source: Option<Source>,
    clients: Arc<Clients>,
}

impl Research {
    pub(super) fn new(settings: Settings) -> Self {
        let source = settings.provider.as_ref().map(Source::new);
        Self { settings, source, clients: Arc::new(Clients::new()) }
    }

    /// Whether the tools can run here.
    ///
    /// # Errors
    /// The reason, with the settings that are missing.
    pub(super) fn admit(&self) -> Result<(), String> {
        if self.source.is_some() { Ok(()) } else { Err(NO_PROVIDER.to_owned()) }
    }

    /// Releases connections that were idle.
    pub(super) fn tidy(&self) {
        self.clients.tidy(IDLE);
    }

    /// Releases all connections.
    pub(super) fn close(&self) {
        self.clients.clear();
    }

    /// Runs a call. Dropping it closes all connections.
    ///
    /// # Errors
    /// The arguments are invalid. A source that fails is a warning in the result.
    pub(super) async fn run(&self, tool: Tool, host: Host, invocation: Invocation) -> Result<Report, SkillError> {
        let Some(source) = &self.source else { return Err(SkillError::new(ErrorCode::Unavailable, NO_PROVIDER)) };
        let task = Task::read(tool, &invocation.input, self.settings.limits)?;
        let budget = Budget::new(task.limits, Instant::now(), invocation.deadline);
        let ranked_by = invocation.deadline.checked_sub(BEFORE_THE_DEADLINE).unwrap_or(invocation.deadline);
        let (stop, _stop_on_drop) = Stop::at(ranked_by);
        let pdf = PdfReader { host, manifest: Arc::clone(&invocation.manifest) };
        let (fetcher, slot) = (Fetcher::new(Arc::clone(&self.clients)), invocation.slot.clone());
        let reader = Reader { fetcher, pdf, slot };
        let (allow, events) = (&self.settings.allow.0, &invocation.events);
        let tools = Tools { source, reader: &reader, allow, budget: &budget, events, stop };
        let model = self.settings.model.as_ref().map(|it| Model::new(it, &task.model));
        let work = async {
            budget.keep(if model.is_some() { FOR_THE_MODEL } else { 0.0 });
            let (planned, warning) = plan(model.as_ref(), &task, &reader.fetcher, &budget).await;
            let mut found = Rounds::new(tools, &task).run(planned).await;
            warning.into_iter().for_each(|it| found.warn(it));
            let citations = citations(&found);
            budget.keep(0.0);
            let worded = word(model.as_ref(), &task, &citations, &mut found, (&reader.fetcher, &budget)).await;
            (found, citations, worded)
        };
        let (mut found, citations, worded) = self.clients.for_skill(&invocation.manifest.id, work).await;
        if !task.model.is_empty() && model.is_none() {
            found.warn("no model is configured; the answer is extractive".to_owned());
        }
        report(found, citations, worded, &budget)
    }
}

/// The queries of the first round: those of the plan without a model, and the model's, unless the caller gave some.
async fn plan(model: Option<&Model>, task: &Task, fetcher: &Fetcher, budget: &Budget) -> (Vec<String>, Option<String>) {
    let mut queries = first_queries(task);
    let Some(model) = model.filter(|_| task.queries.is_empty()) else { return (queries, None) };
    match model.plan(&task.question, fetcher, budget).await {
        Ok(more) => {
            for query in more {
                if !queries.iter().any(|it| it.eq_ignore_ascii_case(&query)) {
                    queries.push(query);
                }
            }
            (queries, None)
        }
        Err(problem) => (queries, Some(format!("the model planned no queries: {problem}"))),
    }
}

/// The model's answer, as far as the quotes say it. None: the answer is made of the quotes.
async fn word(
    model: Option<&Model>,
    task: &Task,
    citations: &[Citation],
    found: &mut Findings,
    (fetcher, budget): (&Fetcher, &Budget),
) -> Option<String> {
    let model = model.filter(|_| !citations.is_empty())?;
    let quotes: Vec<&str> = citations.iter().map(|it| it.quote.as_str()).collect();
    let said = match model.word(&task.question, &quotes, fetcher, budget).await {
        Ok(said) => said,
        Err(problem) => {
            found.warn(format!("the model worded no answer: {problem}; the answer is extractive"));
            return None;
        }
    };
    let Supported { text, removed } = supported(&said, &quotes, &task.question);
    if removed > 0 {
        found.warn(format!("{removed} sentences of the model were removed: the quotes that they cite do not say them"));
    }
    if text.is_empty() {
        found.warn("no sentence of the model is left; the answer is extractive".to_owned());
    }
    Some(text).filter(|it| !it.is_empty())
}
