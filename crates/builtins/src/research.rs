//! `quick_research`, `research` and `comprehensive_research`: answer questions with quotes from web pages or documents.
//!
//! ```text
//! question -> plan -> rounds: source -> read -> rank, quote -> gaps -> report
//! ```
//!
//! - [`arguments`]: the arguments of a call; [`budget`]: its limits; [`problem`]: why a search or a page failed
//! - [`source`]: finds pages: [`provider`] (search engines), [`folder`], [`site`]
//! - [`read`]: reads a page with [`fetch`] and [`pdf`](super::pdf); [`page`]: the result, and an index of pages
//! - [`rounds`]: search and reading; [`model`]: plans queries and writes the answer, if configured
//! - [`mod@report`]: the result
//!
//! `openskill_text::pages`, which does no I/O, ranks texts by their relevance to the question.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_net::egress::client::{Clients, IDLE};
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_text::pages::support::{Supported, keep_supported};

use super::host::{FunctionOutput, Host};
use super::pdf::PdfReader;
use super::stop::StopSignal;
use crate::call::Invocation;
use crate::config::research::{NO_PROVIDER, Research as Settings};

pub(super) mod arguments;
pub(super) mod budget;
mod fetch;
mod folder;
pub(super) mod model;
mod page;
pub(super) mod problem;
mod provider;
mod read;
mod report;
mod rounds;
mod site;
mod source;

use arguments::{ResearchTask, ResearchTool, first_queries};
use budget::Budget;
use fetch::Fetcher;
use model::Model;
use read::Reader;
use report::{Citation, citations, report};
use rounds::{Findings, RoundContext, Rounds};
use source::Source;

/// How long before the call's deadline ranking stops.
const BEFORE_THE_DEADLINE: Duration = Duration::from_millis(50);

/// The fraction of a call's time that is reserved for the model to write the answer.
const FOR_THE_MODEL: f64 = 0.3;

/// The state that the three tools share between calls.
pub(super) struct Research {
    settings: Settings,
    source: Option<Source>,
    /// The model that plans queries and writes answers. `None` means that answers consist only of quotes.
    model: Option<Model>,
    clients: Arc<Clients>,
}

impl Research {
    pub(super) fn new(settings: Settings) -> Self {
        let source = settings.provider.as_ref().map(Source::new);
        let model = settings.model.as_ref().map(Model::new);
        Self { settings, source, model, clients: Arc::new(Clients::default()) }
    }

    /// Checks whether the tools can run.
    ///
    /// # Errors
    /// The reason why they can't, with the missing settings.
    pub(super) fn admit(&self) -> Result<(), String> {
        if self.source.is_some() { Ok(()) } else { Err(NO_PROVIDER.to_owned()) }
    }

    /// Closes connections that were idle for too long.
    pub(super) fn tidy(&self) {
        self.clients.tidy(IDLE);
    }

    /// Closes all connections.
    pub(super) fn close(&self) {
        self.clients.clear();
    }

    /// Runs a call. Dropping the future closes all its connections.
    ///
    /// # Errors
    /// The arguments are invalid. A source that fails only adds a warning to the result.
    pub(super) async fn run(
        &self,
        tool: ResearchTool,
        host: Host,
        invocation: Invocation,
    ) -> Result<FunctionOutput, SkillError> {
        let Some(source) = &self.source else { return Err(SkillError::new(ErrorCode::Unavailable, NO_PROVIDER)) };
        let task = ResearchTask::read(tool, &invocation.input, self.settings.limits)?;
        let budget = Budget::new(task.limits, Instant::now(), invocation.deadline);
        let ranked_by = invocation.deadline.checked_sub(BEFORE_THE_DEADLINE).unwrap_or(invocation.deadline);
        let (stop, _stop_on_drop) = StopSignal::at(ranked_by);
        let pdf = PdfReader { host, level: invocation.skill.level };
        let (fetcher, slot) = (Fetcher { clients: Arc::clone(&self.clients) }, invocation.slot.clone());
        let reader = Reader { fetcher, pdf, slot, budget: &budget, events: invocation.events.as_ref() };
        let context = RoundContext { source, reader: &reader, allow: &self.settings.allow, stop };
        let model = self.model.as_ref().map(|it| it.named(&task.model));
        let work = async {
            budget.keep(if model.is_some() { FOR_THE_MODEL } else { 0.0 });
            let (planned, warning) = plan(model.as_ref(), &task, &budget).await;
            let mut found = Rounds::new(context, &task).run(planned).await;
            warning.into_iter().for_each(|it| found.warn(it));
            let citations = citations(&found);
            budget.keep(0.0);
            let worded = compose_answer(model.as_ref(), &task, &citations, &mut found, &budget).await;
            (found, citations, worded)
        };
        let (mut found, citations, worded) = self.clients.for_skill(&invocation.skill.id, work).await;
        if !task.model.is_empty() && model.is_none() {
            found.warn("no model is configured; the answer is extractive".to_owned());
        }
        Ok(report(found, citations, worded, &budget))
    }
}

/// Returns the queries of the first round: the caller's, or otherwise those of the plan and the model.
async fn plan(model: Option<&Model>, task: &ResearchTask, budget: &Budget) -> (Vec<String>, Option<String>) {
    let mut queries = first_queries(task);
    let Some(model) = model.filter(|_| task.queries.is_empty()) else { return (queries, None) };
    match model.plan(&task.question, budget).await {
        Ok(more) => {
            for query in more {
                if !queries.iter().any(|it| it.eq_ignore_ascii_case(&query)) {
                    queries.push(query);
                }
            }
            (queries, None)
        }
        Err(problem) => (queries, Some(format!("the model returned no queries: {problem}"))),
    }
}

/// Asks the model for an answer and keeps what the quotes support. Returns `None` if the answer must consist of
/// quotes.
async fn compose_answer(
    model: Option<&Model>,
    task: &ResearchTask,
    citations: &[Citation],
    found: &mut Findings,
    budget: &Budget,
) -> Option<String> {
    let model = model.filter(|_| !citations.is_empty())?;
    let quotes: Vec<&str> = citations.iter().map(|it| it.quote.as_str()).collect();
    let said = match model.word(&task.question, &quotes, budget).await {
        Ok(said) => said,
        Err(problem) => {
            found.warn(format!("the model wrote no answer: {problem}; the answer is extractive"));
            return None;
        }
    };
    let Supported { text, removed } = keep_supported(&said, &quotes, &task.question);
    if removed > 0 {
        found.warn(format!(
            "{removed} sentences from the model were removed because the quotes that they cite do not support them"
        ));
    }
    if text.is_empty() {
        found.warn("no sentences from the model are left; the answer is extractive".to_owned());
    }
    Some(text).filter(|it| !it.is_empty())
}
