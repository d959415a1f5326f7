//! `quick_research`, `research` and `comprehensive_research`: answers that quote what was read.
//!
//! ```text
//! question -> plan -> rounds: source -> read -> rank, quote -> gaps -> report
//! ```
//!
//! - [`arguments`]: what a caller asks for; [`budget`]: what a call may use; [`problem`]: why something was not read
//! - [`source`]: where pages are found: [`provider`] (search engines), [`folder`], [`site`]; [`collection`]: what those keep
//! - [`read`]: a page, by way of [`fetch`], [`inflate`] and [`extract`]; [`page`]: what comes out
//! - [`plan`], [`rounds`]: the work; [`report`], [`timestamp`]: the result
//!
//! What a text says for a question is a matter of `openskill_research`, which does no I/O.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::v1::{ErrorCode, SkillError};

use super::host::{Host, Report};
use super::stop::Stop;
use crate::config::research::Research as Settings;
use crate::runner::Invocation;
use crate::runners::http::client::{Clients, IDLE};

pub(super) mod arguments;
mod budget;
mod collection;
mod extract;
mod fetch;
mod folder;
mod inflate;
mod page;
mod plan;
mod problem;
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
use read::Reader;
use report::{citations, report};
use rounds::{Rounds, Tools};
use source::Source;

/// Why the tools are unavailable without a provider.
const NO_PROVIDER: &str = "no source of pages is configured: set OPENSKILL_RESEARCH_PROVIDER to searxng, brave, tavily, \
                           folder or site";

/// How long before the deadline ranking ends.
const BEFORE_THE_DEADLINE: Duration = Duration::from_millis(50);

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

    /// Runs a call. Dropping it closes all connections.
    ///
    /// # Errors
    /// The arguments are invalid. A source that fails is a warning in the result.
    pub(super) async fn run(&self, tool: Tool, _: Host, invocation: Invocation) -> Result<Report, SkillError> {
        let Some(source) = &self.source else { return Err(SkillError::new(ErrorCode::Unavailable, NO_PROVIDER)) };
        let task = Task::read(tool, &invocation.input, self.settings.limits)?;
        let budget = Budget::new(task.limits, Instant::now(), invocation.deadline);
        let (stop, _stop_on_drop) = Stop::at(invocation.deadline - BEFORE_THE_DEADLINE);
        let reader = Reader { fetcher: Fetcher::new(Arc::clone(&self.clients)), slot: invocation.slot.clone() };
        let (allow, events) = (&self.settings.allow.0, &invocation.events);
        let tools = Tools { source, reader: &reader, allow, budget: &budget, events, stop };
        let rounds = Rounds::new(tools, &task).run(None);
        let (mut found, _) = self.clients.for_skill(&invocation.manifest.id, rounds).await;
        if !task.model.is_empty() {
            found.warn("no model is configured; the answer is extractive".to_owned());
        }
        let citations = citations(&found);
        report(found, citations, None, &budget)
    }
}
