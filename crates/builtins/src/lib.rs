//! The built-in functions of a worker: Rust functions that skills refer to and that run inside the worker.
//!
//! ```text
//! worker ──Invocation──> Builtins ──> a function ──> FunctionOutput
//!                                        └──> processes in jails (openskill-sandbox), requests (openskill-net)
//! ```
//!
//! A function runs as a task on the shard that accepted the call, so it must not block. Dropping its future ends it. It
//! does not read manifests: [`call`] contains everything that it receives.
//!
//! - [`call`]: a call and its context; [`config`]: the settings; [`host`]: shared parts of the worker
//! - `search`, `definitions`: read files below the allowed root
//! - [`browser`]: drives a browser; `research`: searches and reads pages
//! - `paths`, `walk`: open files; `stop`: signals when to stop
//! - `readers`: the program that parses source code and, through `pdf`, PDF files
//! - `list`: builds the answers

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::SkillError;

pub mod browser;
pub mod call;
pub mod config;
mod definitions;
pub mod host;
mod list;
mod paths;
mod pdf;
mod readers;
mod research;
mod search;
mod stop;
mod walk;

// Unit tests skip under the same rules as the integration tests.
#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../../../tests/src/require.rs"]
mod require;

use browser::Browsers;
use browser::tool::Tool as BrowserTool;
use call::{Invocation, Skill};
use host::{FunctionOutput, Host};
use research::Research;
use research::arguments::ResearchTool;

/// A built-in function and its state.
#[derive(Debug, Clone, Copy)]
enum Builtin {
    Search,
    Definitions,
    Research(ResearchTool),
    Browser(BrowserTool),
}

impl Builtin {
    fn from_entry(entry: &str) -> Option<Self> {
        match entry {
            "search_file_content" => Some(Self::Search),
            "list_code_definitions" => Some(Self::Definitions),
            "quick_research" => Some(Self::Research(ResearchTool::Quick)),
            "research" => Some(Self::Research(ResearchTool::Research)),
            "comprehensive_research" => Some(Self::Research(ResearchTool::Comprehensive)),
            _ => BrowserTool::from_entry(entry).map(Self::Browser),
        }
    }
}

/// The built-in functions, by the `entry` of manifests. Cheap to clone.
#[derive(Clone)]
pub struct Builtins {
    host: Host,
    research: Arc<Research>,
    browsers: Arc<Browsers>,
}

impl Builtins {
    /// Must be called within a runtime that lives as long as the worker.
    pub fn new(host: Host, research: config::research::Research, browser: config::browser::Browser) -> Self {
        let browsers = Arc::new(Browsers::new(host.clone(), browser));
        Self { host, research: Arc::new(Research::new(research)), browsers }
    }

    /// Returns whether a function with this name exists.
    pub fn has(&self, entry: &str) -> bool {
        Builtin::from_entry(entry).is_some()
    }

    /// Checks whether a function can run on this machine for this skill.
    ///
    /// # Errors
    /// The human-readable reason why it can't.
    pub fn admit(&self, entry: &str, skill: &Skill) -> Result<(), String> {
        match Builtin::from_entry(entry) {
            Some(Builtin::Search) => Ok(()),
            Some(Builtin::Definitions) => definitions::admit(&self.host, skill),
            Some(Builtin::Research(_)) => self.research.admit(),
            Some(Builtin::Browser(_)) => self.browsers.admit(),
            None => Err("there is no such function".to_owned()),
        }
    }

    /// Runs a function. Dropping the future ends the call.
    ///
    /// # Errors
    /// The function fails, or no function has this name.
    pub fn run(&self, entry: &str, invocation: Invocation) -> BoxFuture<'static, Result<FunctionOutput, SkillError>> {
        let (builtin, Self { host, research, browsers }) = (Builtin::from_entry(entry), self.clone());
        async move {
            match builtin {
                Some(Builtin::Search) => search::run(host, invocation).await,
                Some(Builtin::Definitions) => definitions::run(host, invocation).await,
                Some(Builtin::Research(tool)) => research.run(tool, host, invocation).await,
                Some(Builtin::Browser(tool)) => browsers.run(tool, invocation).await,
                None => Err(SkillError::unavailable("there is no such function")),
            }
        }
        .boxed()
    }

    /// Closes resources that were idle for too long.
    pub fn tidy(&self) {
        self.research.tidy();
        self.browsers.tidy();
    }

    /// Closes all resources kept between calls, and ends the calls that use them.
    pub fn close(&self) -> impl Future<Output = ()> + Send + 'static {
        self.research.close();
        self.browsers.close()
    }
}
