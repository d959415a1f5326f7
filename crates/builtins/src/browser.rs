//! The browser tools. Each session of a caller has its own Chromium, which is controlled over a pipe.
//!
//! ```text
//! call ──> SessionBook: a lease ──> turn ──> Browser ──pipe──> Chromium, in its jail ──> relay ──> egress ──> the web
//!            └─ new: a spare, or launch                    └─ host_process: opens the relay's port, hands out files
//! ```
//!
//! - [`tool`]: the tools and their arguments; [`turn`]: a tool call; [`actions`], [`reading`], [`navigate`],
//!   [`files`]: what the tools do; [`values`], [`verbatim`]: values that a model extracts, checked against
//!   the page; [`changes`]: what changed on the page
//! - [`view`]: the documents of a tab; [`documents`], [`page`]: the script in each; [`listing`], [`numbers`]: the elements
//!   with the numbers that callers use; [`aim`], [`mod@pointer`], [`keys`]: turn a number into trusted input
//! - [`instance`]: a running browser; [`tabs`], [`news`]: its events
//! - [`launch`], [`flags`], [`host_process`], [`descriptors`]: start browsers; [`relay`]: their only
//!   network access
//!
//! Page text is never trusted: it is truncated and escaped, and callers receive it marked as untrusted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::sessions::book::{Lease, SessionBook, SessionBounds, SessionRefusal, Terms};
use openskill_sandbox::sessions::key::Key;
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::host::{FunctionOutput, Host};
use crate::call::{Invocation, read_arguments};
use crate::config::browser::Browser as Settings;

mod actions;
mod aim;
pub(crate) mod cdp;
mod changes;
mod descriptors;
mod documents;
mod files;
mod flags;
pub mod host_process;
mod instance;
mod keys;
mod launch;
mod listing;
mod navigate;
mod news;
mod numbers;
mod page;
mod pointer;
mod problem;
mod reading;
mod relay;
mod tabs;
pub(crate) mod tool;
mod turn;
mod values;
mod verbatim;
mod view;
mod wording;

use files::Files;
use instance::Browser;
use launch::{Launch, StartError};
use problem::Problem;
use tool::{ClosingTool, PageTool, Tool};
use turn::{CallOutput, ToolCall};
use values::Values;

/// How long a call waits for a browser that is ending or in use by another call.
const WAIT: Duration = Duration::from_secs(5);

/// How long before its deadline a call must be answered.
const BEFORE_THE_DEADLINE: Duration = Duration::from_millis(300);

/// How long a worker waits for running calls when it shuts down.
const CLOSING: Duration = Duration::from_secs(3);

/// How long a call may run before the next spare is started without waiting for it.
const SPARE_AFTER: Duration = Duration::from_secs(2);

/// The session name of a caller's only browser.
const NAME: &str = "browser";

/// All browsers of a worker.
pub(super) struct Browsers {
    launch: Launch,
    book: Arc<SessionBook<Browser>>,
    spares: Mutex<Spares>,
    values: Values,
    tasks: TaskTracker,
}

/// Spare browsers, started ahead for future sessions.
#[derive(Default)]
struct Spares {
    ready: Vec<Browser>,
    starting: usize,
    /// When a tool was last called.
    used: Option<Instant>,
    is_closed: bool,
}

impl Browsers {
    /// Must be called within a runtime that lives as long as the worker.
    pub(super) fn new(host: Host, settings: Settings) -> Self {
        let bounds =
            SessionBounds { per_caller: 1, per_worker: settings.sessions, idle: settings.idle, age: settings.age };
        let values = Values::new(settings.model.as_ref());
        let launch = Launch { host, settings, runtime: Handle::current() };
        Self { launch, book: SessionBook::new(bounds), spares: Mutex::default(), values, tasks: TaskTracker::new() }
    }

    /// Checks whether the tools can run on this machine.
    ///
    /// # Errors
    /// The reason why they can't, and how to fix it.
    pub(super) fn admit(&self) -> Result<(), String> {
        self.launch.check()
    }

    /// Closes browsers that were idle for too long, are too old, or have exited.
    pub(super) fn tidy(&self) {
        let now = Instant::now();
        self.book.expire(now, Browser::is_alive);
        let mut spares = self.spares.lock();
        let is_idle = spares.used.is_none_or(|it| now.saturating_duration_since(it) >= self.launch.settings.idle);
        let ended: Vec<Browser> = spares.ready.extract_if(.., |it| is_idle || !it.is_alive()).collect();
        drop(spares);
        drop(ended);
    }

    /// Closes all browsers and ends the calls that use them.
    pub(super) fn close(&self) -> impl Future<Output = ()> + Send + 'static {
        self.book.shut();
        self.tasks.close();
        let mut spares = self.spares.lock();
        spares.is_closed = true;
        let ended = std::mem::take(&mut spares.ready);
        drop(spares);
        drop(ended);
        let tasks = self.tasks.clone();
        async move {
            let _ = tokio::time::timeout(CLOSING, tasks.wait()).await;
        }
    }

    /// Runs a tool call. Dropping the future interrupts the call, but keeps the browser.
    ///
    /// # Errors
    /// The tool call fails. The error gives the reason.
    pub(super) async fn run(
        self: &Arc<Self>,
        tool: Tool,
        invocation: Invocation,
    ) -> Result<FunctionOutput, SkillError> {
        let owner = invocation.owner.clone();
        let tool = match tool {
            Tool::End(ClosingTool::Done) => return finish_task(&invocation.input),
            Tool::End(ClosingTool::CloseSession) => {
                let closed = self.book.close(&owner, NAME);
                let text = if closed { "the browser session was closed" } else { "there was no browser session" };
                return Ok(report(&json!({"closed": closed}), text));
            }
            Tool::Page(tool) => tool,
        };
        let until = invocation.deadline.checked_sub(BEFORE_THE_DEADLINE).unwrap_or(invocation.deadline);
        let key = Key { owner, name: Some(NAME.to_owned()) };
        let lease = self.take(&key, until).await?;
        invocation.events.record_start(if lease.process.is_some() { "warm" } else { "new" });
        let (answer, answered) = oneshot::channel();
        let dropped = CancellationToken::new();
        let call = BrowserCall { browsers: Arc::clone(self), tool, invocation, until, dropped: dropped.clone() };
        let waiting = dropped.drop_guard();
        self.tasks.spawn_on(call.drive(lease, answer), &self.launch.runtime);
        let outcome = answered.await;
        drop(waiting);
        let CallOutput { data, text } =
            outcome.unwrap_or_else(|_| Err(SkillError::unavailable("the worker ended the browser session")))?;
        Ok(report(&data, &text))
    }

    /// Returns the caller's browser. Replaces a browser that has exited.
    async fn take(&self, key: &Key, until: Instant) -> Result<Lease<Browser>, SkillError> {
        let terms = Terms { maker: 0, together: usize::MAX };
        let until = (Instant::now() + WAIT).min(until);
        let lease = self.book.take(key, terms, until).await.map_err(|it| lease_error(it, self.book.bounds()))?;
        if lease.process.as_ref().is_none_or(Browser::is_alive) {
            return Ok(lease);
        }
        drop(lease);
        self.book.take(key, terms, until).await.map_err(|it| lease_error(it, self.book.bounds()))
    }
}

/// A call that runs to completion, even if its caller stops waiting.
struct BrowserCall {
    browsers: Arc<Browsers>,
    tool: PageTool,
    invocation: Invocation,
    until: Instant,
    /// Cancelled when the caller stops waiting.
    dropped: CancellationToken,
}

impl BrowserCall {
    async fn drive(self, mut lease: Lease<Browser>, answer: oneshot::Sender<Result<CallOutput, SkillError>>) {
        let found = match lease.process.take() {
            Some(browser) => Ok(browser),
            None => self.new_browser(&lease.stop).await,
        };
        let mut browser = match found {
            Ok(browser) => browser,
            Err(error) => {
                self.keep_spares();
                let _ = answer.send(Err(error));
                return;
            }
        };
        let outcome = self.before_spares(self.attempt(&mut browser, &lease.stop)).await;
        if browser.is_alive() && !lease.stop.is_cancelled() {
            lease.give_back(browser, Instant::now());
        } else {
            drop((browser, lease));
        }
        drop(self.invocation.slot);
        let _ = answer.send(outcome);
    }

    /// Runs the tool until the deadline passes, the caller stops waiting, or the session is closed.
    async fn attempt(&self, browser: &mut Browser, stop: &CancellationToken) -> Result<CallOutput, SkillError> {
        let input = &self.invocation.input;
        let Browsers { launch: Launch { host, settings, .. }, values, .. } = &*self.browsers;
        let (files, until) = (Files { host, invocation: &self.invocation }, self.until);
        let call = ToolCall { tool: self.tool, input, files, settings, values, until };
        let ended = browser.client.clone();
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(Problem::Closed.into()),
            () = self.dropped.cancelled() => Err(Problem::Late("the caller no longer waits for the result").into()),
            () = tokio::time::sleep_until(until.into()) => Err(Problem::Late("the action continues on the page").into()),
            outcome = call.run(browser) => outcome,
            () = ended.wait_closed() => Err(Problem::Call(crate::browser::cdp::client::CallError::Closed).into()),
        };
        if let Err(error) = &outcome
            && error.code() == ErrorCode::Timeout
            && let Ok(tab) = browser.tab()
        {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = browser.stop_scripts(&tab) => {}
            }
        }
        outcome
    }

    /// Returns a spare browser, or starts a new one.
    async fn new_browser(&self, stop: &CancellationToken) -> Result<Browser, SkillError> {
        let found = async {
            while let Some(spare) = self.spare() {
                // The spare may have just exited.
                if spare.call("Browser.getVersion", json!({})).await.is_ok() {
                    return Ok(spare);
                }
            }
            self.browsers.launch.start().await.map_err(|error| not_started(&error))
        };
        let late = || SkillError::new(ErrorCode::Timeout, "the browser did not start before the call's deadline");
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(Problem::Closed.into()),
            () = self.dropped.cancelled() => Err(late()),
            () = tokio::time::sleep_until(self.until.into()) => Err(late()),
            found = found => found,
        }
    }

    fn spare(&self) -> Option<Browser> {
        let mut spares = self.browsers.spares.lock();
        spares.used = Some(Instant::now());
        spares.ready.pop()
    }

    /// Runs a call, then starts the missing spares. A starting browser keeps two cores busy, which would slow down
    /// the first page of this browser. If the call takes longer than [`SPARE_AFTER`], the spares are started while
    /// it runs. A session that begins before a spare is ready starts its own browser.
    async fn before_spares<T>(&self, call: impl Future<Output = T>) -> T {
        tokio::pin!(call);
        let outcome = match tokio::time::timeout(SPARE_AFTER, &mut call).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.keep_spares();
                call.await
            }
        };
        self.keep_spares();
        outcome
    }

    /// Starts spare browsers up to the configured number.
    fn keep_spares(&self) {
        let mut spares = self.browsers.spares.lock();
        spares.used = Some(Instant::now());
        while !spares.is_closed && spares.ready.len() + spares.starting < self.browsers.launch.settings.spares {
            spares.starting += 1;
            let browsers = Arc::clone(&self.browsers);
            self.browsers.tasks.spawn(async move {
                let mut started = browsers.launch.start_spare().await.ok();
                let mut spares = browsers.spares.lock();
                spares.starting -= 1;
                if !spares.is_closed {
                    spares.ready.extend(started.take());
                }
                // Drop an unneeded spare outside the lock.
                drop(spares);
                drop(started);
            });
        }
    }
}

fn finish_task(input: &[u8]) -> Result<FunctionOutput, SkillError> {
    let tool::Done { text, success } = read_arguments(input)?;
    let outcome = if success { "the task succeeded" } else { "the task failed" };
    Ok(report(&json!({"text": text, "success": success}), &format!("{outcome}: {}", wording::line(&text, 400))))
}

fn report(data: &impl serde::Serialize, text: &str) -> FunctionOutput {
    let data = serde_json::to_string(data).unwrap_or_default();
    FunctionOutput { data, text: text.to_owned(), truncated: false }
}

fn lease_error(refusal: SessionRefusal, bounds: SessionBounds) -> SkillError {
    match refusal {
        SessionRefusal::Busy => {
            SkillError::overloaded("another call uses the browser of this session: call again later")
        }
        SessionRefusal::Closed => SkillError::unavailable("the worker is shutting down"),
        SessionRefusal::PrincipalFull => SkillError::overloaded(format!(
            "this principal already has its maximum of {} browsers",
            bounds.per_principal()
        )),
        SessionRefusal::CallerFull | SessionRefusal::MemoryFull | SessionRefusal::WorkerFull => {
            SkillError::overloaded(format!("all {} browsers of this worker are in use", bounds.per_worker))
        }
    }
}

fn not_started(error: &StartError) -> SkillError {
    let message = match error {
        StartError::NoJail(reason) => format!("no browser could be started: {reason}"),
        _ => "no browser could be started; see the worker's log for the reason".to_owned(),
    };
    SkillError::new(ErrorCode::ToolInvocationError, message)
}
