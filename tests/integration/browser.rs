//! The browser tools, with a real Chromium in its jail, on pages of servers of the tests.

use std::time::Duration;

use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::backend::{Backend, Reply, Seen};
use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

mod actions;
mod hostile;
mod lifetime;
mod pages;
mod task;
mod values;
mod walls;

/// Browsers are large: two tests of them run at a time.
static TURNS: Semaphore = Semaphore::const_new(2);

/// The limit for what is to be gone.
const GONE: Duration = Duration::from_secs(2);

/// A worker with browsers, and the server of the pages.
struct Stage {
    system: System,
    server: Backend,
    _turn: SemaphorePermit<'static>,
}

/// A page of HTML.
fn page(html: impl Into<String>) -> Reply {
    let html: String = html.into();
    Reply::new(200, "text/html; charset=utf-8", format!("<!doctype html><title>A page</title>{html}"))
}

impl Stage {
    /// None: this machine has no browser, or no walls for one.
    async fn start(pages: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Option<Self> {
        Self::start_with(pages, |setup| setup).await
    }

    async fn start_with(
        pages: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
        set: impl FnOnce(Setup) -> Setup,
    ) -> Option<Self> {
        let turn = TURNS.acquire().await.unwrap();
        let server = Backend::start(pages).await;
        let port = server.address.port();
        let allowed = format!("{},localhost:{port},a.localhost:{port}", server.address);
        // With a folder of its own for what the tools write.
        let skills = repository().join("worker/skills");
        let setup = Setup::with_skills(&[&skills]).flag("--workers", 1).with("OPENSKILL_BROWSER_ALLOW", allowed);
        let system = set(setup).start().await;
        let skill = system.get("/skills/browser_navigate").await.json();
        if let Some(reason) = skill["status_reason"].as_str().filter(|_| skill["status"] != "available") {
            skip(Need::Browser, reason);
            return None;
        }
        Some(Self { system, server, _turn: turn })
    }

    /// Calls a tool of the session `s`.
    async fn call(&self, tool: &str, input: Value) -> SkillResult {
        self.call_as("s", tool, input).await
    }

    async fn call_as(&self, session: &str, tool: &str, input: Value) -> SkillResult {
        let call = request(&format!("browser_{tool}"), input);
        self.system.invoke(InvokeRequest { session_id: session.to_owned(), timeout_ms: 60_000, ..call }).await
    }

    /// The data of a call that succeeds.
    async fn does(&self, tool: &str, input: Value) -> Value {
        self.does_as("s", tool, input).await
    }

    async fn does_as(&self, session: &str, tool: &str, input: Value) -> Value {
        let result = self.call_as(session, tool, input.clone()).await;
        assert_eq!(code(&result), "", "{tool} {input}: {result:?}\n{}", self.system.process.log.text());
        data(&result)
    }

    /// Opens a path of the server.
    async fn opens(&self, path: &str) -> Value {
        self.does("navigate", json!({"url": self.server.url(path)})).await
    }

    /// The code and the message of a call that fails.
    async fn fails(&self, tool: &str, input: Value) -> (String, String) {
        let result = self.call(tool, input).await;
        let message = result.error.as_ref().map(|it| it.message.clone()).unwrap_or_default();
        (code(&result).to_owned(), message)
    }

    /// The number of the element whose line has this text.
    async fn number(&self, text: &str) -> u64 {
        let info = self.does("get_page_info", json!({})).await;
        number_in(&info["elements"], text).unwrap_or_else(|| panic!("no {text} in {info}"))
    }
}

/// The number of the first line with this text.
fn number_in(lines: &Value, text: &str) -> Option<u64> {
    let mut lines = lines.as_array()?.iter().filter_map(Value::as_str);
    let line = lines.find(|it| it.contains(text))?;
    line.trim_start().strip_prefix('[')?.split(']').next()?.parse().ok()
}

/// All lines of a field, in one text.
fn lines(value: &Value) -> String {
    value.as_array().map(|it| it.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")).unwrap_or_default()
}
