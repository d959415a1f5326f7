//! `inproc`: a Rust function in the worker itself. The manifest's `entry` names it.
//!
//! A function runs as a task on the shard that accepted the call, so it must not block. Dropping the run aborts the task.
//!
//! - [`diagnostics`]: functions for tests
//! - [`search`], [`definitions`]: built-in functions that read files below the allowed root
//! - [`browser`]: built-in functions that drive a browser
//! - [`research`]: built-in functions that search and read pages
//! - [`tool_index`]: the built-in function that answers which tools could be installed, and installs them
//! - [`host`]: what those use; [`place`], [`walk`]: how they open files; [`stop`]: when they end
//! - [`list`], [`ordered`], [`left`]: how they answer

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::trace::TraceContext;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use openskill_trace::embedded;
use tokio_util::task::AbortOnDropHandle;

use crate::config::browser::Browser as BrowserSettings;
use crate::config::research::Research as Settings;
use crate::events::EventSink;
use crate::manifest::{How, Manifest};
use crate::runner::{Invocation, Offer, RawOutput, Runner};
use crate::tools::installer::Installer;

pub mod browser;
mod definitions;
mod diagnostics;
pub(crate) mod host;
mod left;
mod list;
mod ordered;
mod place;
mod readers;
mod research;
mod search;
mod stop;
mod tool_index;
mod walk;

use browser::Browsers;
use browser::tool::Tool as BrowserTool;
use host::{Host, Report};
use research::Research;
use research::arguments::Tool;

/// A function: takes the arguments, one JSON object as text, and returns one JSON value as text. Through the sink it reports
/// progress, produces artifacts and asks the user.
pub type Function =
    Arc<dyn Fn(bytes::Bytes, EventSink) -> BoxFuture<'static, Result<String, SkillError>> + Send + Sync>;

/// The functions a worker has, by name.
#[derive(Clone)]
pub struct Functions {
    by_name: HashMap<String, Function>,
}

impl Default for Functions {
    /// The diagnostic functions of every worker: `echo`, `wait`, `fail`, `ask` and `artifact`.
    fn default() -> Self {
        Self { by_name: HashMap::new() }
            .with("echo", diagnostics::echo)
            .with("wait", diagnostics::wait)
            .with("fail", diagnostics::fail)
            .with("ask", diagnostics::ask)
            .with("artifact", diagnostics::artifact)
    }
}

impl Functions {
    /// Adds a function. It replaces one of the same name.
    #[must_use]
    pub fn with<F, R>(mut self, name: &str, function: F) -> Self
    where
        F: Fn(bytes::Bytes, EventSink) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, SkillError>> + Send + 'static,
    {
        let boxed: Function = Arc::new(move |input, events| function(input, events).boxed());
        self.by_name.insert(name.to_owned(), boxed);
        self
    }
}

/// A built-in function.
#[derive(Debug, Clone, Copy)]
enum Own {
    Search,
    Definitions,
    Research(Tool),
    Browser(BrowserTool),
    Install,
}

impl Own {
    fn of(entry: &str) -> Option<Self> {
        match entry {
            "search_file_content" => Some(Self::Search),
            "list_code_definitions" => Some(Self::Definitions),
            "search_and_install_tools" => Some(Self::Install),
            _ => Tool::of(entry).map(Self::Research).or_else(|| BrowserTool::of(entry).map(Self::Browser)),
        }
    }
}

/// The runner.
pub(crate) struct InProcess {
    functions: Functions,
    host: Host,
    installer: Installer,
    research: Arc<Research>,
    browsers: Arc<Browsers>,
}

impl InProcess {
    /// Must be called within the runtime that lives as long as the worker.
    pub(crate) fn new(
        functions: Functions,
        host: Host,
        installer: Installer,
        (research, browser): (Settings, BrowserSettings),
    ) -> Self {
        let browsers = Arc::new(Browsers::new(host.clone(), browser));
        Self { functions, host, installer, research: Arc::new(Research::new(research)), browsers }
    }

    /// The work of a call. `None`: there is no function of this name.
    fn work(&self, invocation: Invocation) -> Option<BoxFuture<'static, Result<RawOutput, SkillError>>> {
        let How::Function(name) = &invocation.manifest.how else { return None };
        if let Some(function) = self.functions.by_name.get(name) {
            let (work, slot) = (function(invocation.input, invocation.events), invocation.slot);
            return Some(
                async move {
                    let _slot = slot;
                    work.await.map(RawOutput::Value)
                }
                .boxed(),
            );
        }
        let (own, host) = (Own::of(name)?, self.host.clone());
        let (installer, research) = (self.installer.clone(), Arc::clone(&self.research));
        let browsers = Arc::clone(&self.browsers);
        Some(
            async move {
                let report = match own {
                    Own::Search => search::run(host, invocation).await,
                    Own::Definitions => definitions::run(host, invocation).await,
                    Own::Research(tool) => research.run(tool, host, invocation).await,
                    Own::Browser(tool) => browsers.run(tool, host, invocation).await,
                    Own::Install => tool_index::run(installer, invocation).await,
                };
                report.map(|Report { data, text, truncated }| RawOutput::Report { data, text, truncated })
            }
            .boxed(),
        )
    }
}

impl Runner for InProcess {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let none = || "this worker has no in-process function of this name".to_owned();
        let How::Function(name) = &manifest.how else { return Err(none()) };
        match Own::of(name) {
            _ if self.functions.by_name.contains_key(name) => Ok(()),
            Some(Own::Search | Own::Install) => Ok(()),
            Some(Own::Definitions) => definitions::admit(&self.host, manifest),
            Some(Own::Research(_)) => self.research.admit(),
            Some(Own::Browser(_)) => self.browsers.admit(manifest),
            None => Err(none()),
        }
    }

    fn tend(&self, _: &[Arc<Manifest>]) {
        self.research.tidy();
        self.browsers.tidy();
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.research.close();
        self.browsers.close().boxed()
    }

    fn offer(&self, manifest: Manifest) -> Vec<Offer> {
        let runner = self.admit(&manifest);
        let installs = matches!(&manifest.how, How::Function(name) if matches!(Own::of(name), Some(Own::Install)));
        let policy = self.installer.policy();
        let manifest = if installs { tool_index::conducted(manifest, policy) } else { manifest };
        vec![Offer { manifest, runner }]
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        let parent = TraceContext::parse(&invocation.traceparent);
        let Some(work) = self.work(invocation) else {
            let error = SkillError::new(ErrorCode::Unavailable, "the skill is not available on this worker");
            return std::future::ready(RawOutput::NotStarted(error)).boxed();
        };
        // Spans that the function makes are children of the run.
        let work = match parent {
            Some(parent) => embedded::within(parent, work).boxed(),
            None => work,
        };
        async move {
            // A task of its own, so that a panic ends this run alone.
            match AbortOnDropHandle::new(tokio::spawn(work)).await {
                Ok(Ok(output)) => output,
                // It ran well enough to report the error: the worker is not at fault.
                Ok(Err(error)) => RawOutput::Failed(match error.blame() {
                    Blame::Worker | Blame::Gateway => error.with_blame(Blame::Skill),
                    _ => error,
                }),
                Err(_) => RawOutput::Failed(SkillError::new(ErrorCode::Internal, "the function panicked")),
            }
        }
        .boxed()
    }
}
