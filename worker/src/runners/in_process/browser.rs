//! The browser tools: a Chromium for each session of a caller, driven over a pipe.
//!
//! ```text
//! call ──> Book: a lease ──> turn ──> Browser ──pipe──> Chromium, in a jail of its own ──> relay ──> egress ──> the web
//!            └─ new: a spare, or launch                    └─ host_process: opens the relay's port, hands out files
//! ```
//!
//! - [`tool`]: which tools there are; [`turn`]: one call of one; [`actions`], [`reading`], [`navigate`], [`files`], [`search`]: what
//!   they do; [`values`], [`verbatim`]: what a model reads, and whether the page says it; [`changes`]: what became of the page
//! - [`view`]: the documents of a tab; [`documents`], [`page`]: the script in each; [`listing`], [`numbers`]: the elements as callers
//!   know them; [`aim`], [`press`], [`mod@pointer`], [`keys`]: from a number to trusted input
//! - [`instance`]: one browser; [`tabs`], [`news`]: what its events say
//! - [`launch`], [`flags`], [`policies`], [`host_process`], [`descriptors`]: how it is started; [`relay`]: its way out
//!
//! What pages say is never trusted: it is bounded, escaped, and reaches callers as the text of a stranger.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openskill_proto::v1::{ErrorCode, SkillError};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::host::{Host, Report};
use crate::config::browser::Browser as Settings;
use crate::manifest::Manifest;
use crate::runner::Invocation;
use crate::sessions::book::{Book, Bounds, Lease, Refusal, Terms};
use crate::sessions::key::{Key, Owner};

mod actions;
mod aim;
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
mod policies;
mod press;
mod problem;
mod reading;
mod relay;
mod search;
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
use tool::Tool;
use turn::{Answer, Call};
use values::Values;

/// How long a call waits for a browser that another call uses, or for one that ends.
const WAIT: Duration = Duration::from_secs(5);

/// How long before its deadline a call is answered.
const BEFORE_THE_DEADLINE: Duration = Duration::from_millis(300);

/// How long a worker that shuts down waits for calls to end.
const CLOSING: Duration = Duration::from_secs(3);

/// How long a call may take before the next spare is started beside it.
const SPARE_AFTER: Duration = Duration::from_secs(2);

/// The name of a caller's only browser.
const NAME: &str = "browser";

/// The browsers of a worker.
pub(super) struct Browsers {
    launch: Launch,
    book: Arc<Book<Browser>>,
    spares: Arc<Mutex<Spares>>,
    values: Arc<Values>,
    tasks: TaskTracker,
}

/// Browsers for sessions to come.
#[derive(Default)]
struct Spares {
    ready: Vec<Browser>,
    starting: usize,
    /// When a tool was used last.
    used: Option<Instant>,
    is_closed: bool,
}

fn lock(spares: &Mutex<Spares>) -> MutexGuard<'_, Spares> {
    spares.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Browsers {
    /// Must be called within the runtime that lives as long as the worker.
    pub(super) fn new(host: Host, settings: Settings) -> Self {
        let bounds = Bounds { per_caller: 1, per_worker: settings.sessions, idle: settings.idle, age: settings.age };
        let values = Arc::new(Values::new(settings.model.as_ref()));
        let launch = Launch { host, settings, runtime: Handle::current() };
        Self { launch, book: Book::new(bounds), spares: Arc::default(), values, tasks: TaskTracker::new() }
    }

    /// Whether a tool can run here.
    ///
    /// # Errors
    /// The reason, with what to do.
    pub(super) fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        self.launch.check(manifest)
    }

    /// Ends browsers that were idle for long, or are old, or have ended.
    pub(super) fn tidy(&self) {
        let now = Instant::now();
        self.book.expire(now, Browser::is_alive);
        self.values.tidy();
        let mut spares = lock(&self.spares);
        let is_idle = spares.used.is_none_or(|it| now.saturating_duration_since(it) >= self.launch.settings.idle);
        let ended: Vec<Browser> = spares.ready.extract_if(.., |it| is_idle || !it.is_alive()).collect();
        drop(spares);
        drop(ended);
    }

    /// Ends all browsers. Calls that run end with them.
    pub(super) fn close(&self) -> impl Future<Output = ()> + Send + 'static {
        self.book.shut();
        self.values.close();
        self.tasks.close();
        let mut spares = lock(&self.spares);
        spares.is_closed = true;
        let ended = std::mem::take(&mut spares.ready);
        drop(spares);
        drop(ended);
        let tasks = self.tasks.clone();
        async move {
            let _ = tokio::time::timeout(CLOSING, tasks.wait()).await;
        }
    }

    /// Runs a call. If it is dropped, what it was about is left as it is and the browser stays.
    ///
    /// # Errors
    /// It can't be done: why.
    pub(super) async fn run(&self, tool: Tool, host: Host, invocation: Invocation) -> Result<Report, SkillError> {
        let owner = Owner {
            group: invocation.manifest.group(),
            principal: invocation.principal.clone(),
            conversation: invocation.session_id.clone(),
        };
        match tool {
            Tool::Done => return done(&invocation.input),
            Tool::CloseSession => {
                let closed = self.book.close(&owner, NAME);
                let text = if closed { "the browser session was closed" } else { "there was no browser session" };
                return Ok(report(&json!({"closed": closed}), text));
            }
            _ => {}
        }
        let until = invocation.deadline.checked_sub(BEFORE_THE_DEADLINE).unwrap_or(invocation.deadline);
        let key = Key { owner, name: Some(NAME.to_owned()) };
        let lease = self.take(&key, until).await?;
        invocation.trace.started(if lease.process.is_some() { "warm" } else { "new" });
        let (answer, answered) = oneshot::channel();
        let dropped = CancellationToken::new();
        let (launch, spares, values) = (self.launch.clone(), Arc::clone(&self.spares), Arc::clone(&self.values));
        let (stop, tasks) = (dropped.clone(), self.tasks.clone());
        let job = Job { tool, host, invocation, until, dropped: stop, launch, spares, values, tasks };
        let waiting = dropped.drop_guard();
        self.tasks.spawn_on(job.drive(lease, answer), &self.launch.runtime);
        let outcome = answered.await;
        drop(waiting);
        let Answer { data, text } =
            outcome.unwrap_or_else(|_| Err(SkillError::unavailable("the worker ended the browser session")))?;
        Ok(report(&data, &text))
    }

    /// The browser of a caller. One that has ended is replaced.
    async fn take(&self, key: &Key, until: Instant) -> Result<Lease<Browser>, SkillError> {
        let terms = Terms { maker: 0, together: usize::MAX };
        let until = (Instant::now() + WAIT).min(until);
        let lease = self.book.take(key, terms, until).await.map_err(|it| refused(it, self.book.bounds()))?;
        if lease.process.as_ref().is_none_or(Browser::is_alive) {
            return Ok(lease);
        }
        drop(lease);
        self.book.take(key, terms, until).await.map_err(|it| refused(it, self.book.bounds()))
    }
}

/// A call that runs to its end, whoever waits for it.
struct Job {
    tool: Tool,
    host: Host,
    invocation: Invocation,
    until: Instant,
    /// Nobody waits any more.
    dropped: CancellationToken,
    launch: Launch,
    spares: Arc<Mutex<Spares>>,
    values: Arc<Values>,
    tasks: TaskTracker,
}

impl Job {
    async fn drive(self, mut lease: Lease<Browser>, answer: oneshot::Sender<Result<Answer, SkillError>>) {
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

    /// Does what the tool is for, until the deadline, or nobody waits, or the session is closed.
    async fn attempt(&self, browser: &mut Browser, stop: &CancellationToken) -> Result<Answer, SkillError> {
        let Invocation { manifest, input, events, .. } = &self.invocation;
        let files = Files { host: &self.host, manifest, events };
        let (settings, until) = (&self.launch.settings, self.until);
        let call = Call { tool: self.tool, input, files, settings, values: &self.values, until };
        let ended = browser.client.clone();
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(Problem::Closed.into()),
            () = self.dropped.cancelled() => Err(Problem::Late("nobody waits for it any more").into()),
            () = tokio::time::sleep_until(until.into()) => Err(Problem::Late("what it does on the page goes on").into()),
            outcome = call.run(browser) => outcome,
            () = ended.closed() => Err(Problem::Call(openskill_cdp::client::CallError::Closed).into()),
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

    /// A spare, or a browser that is started now.
    async fn new_browser(&self, stop: &CancellationToken) -> Result<Browser, SkillError> {
        let found = async {
            while let Some(spare) = self.spare() {
                // It may have ended a moment ago.
                if spare.call("Browser.getVersion", json!({})).await.is_ok() {
                    return Ok(spare);
                }
            }
            self.launch.start(&self.invocation.manifest).await.map_err(|error| not_started(&error))
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
        let mut spares = lock(&self.spares);
        spares.used = Some(Instant::now());
        spares.ready.pop()
    }

    /// Runs a call, then starts the spares that are missing: a browser that starts keeps two cores busy, which the first page of
    /// this one needs. After [`SPARE_AFTER`] it does not wait for the call to end. A session that comes earlier starts its own.
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

    /// Starts as many spares as there are to be.
    fn keep_spares(&self) {
        let mut spares = lock(&self.spares);
        spares.used = Some(Instant::now());
        while !spares.is_closed && spares.ready.len() + spares.starting < self.launch.settings.spares {
            spares.starting += 1;
            let (launch, manifest) = (self.launch.clone(), Arc::clone(&self.invocation.manifest));
            let shared = Arc::clone(&self.spares);
            self.tasks.spawn(async move {
                let started = launch.start_spare(&manifest).await;
                let mut spares = lock(&shared);
                spares.starting -= 1;
                // One that is not wanted any more is dropped without the lock.
                let unwanted = match started {
                    Ok(browser) if !spares.is_closed => {
                        spares.ready.push(browser);
                        None
                    }
                    Ok(browser) => Some(browser),
                    Err(_) => None,
                };
                drop(spares);
                drop(unwanted);
            });
        }
    }
}

fn done(input: &[u8]) -> Result<Report, SkillError> {
    let tool::Done { text, success } = tool::read(input)?;
    let outcome = if success { "the task succeeded" } else { "the task failed" };
    Ok(report(&json!({"text": text, "success": success}), &format!("{outcome}: {}", wording::line(&text, 400))))
}

fn report(data: &impl serde::Serialize, text: &str) -> Report {
    let data = serde_json::to_string(data).unwrap_or_default();
    Report { data, text: text.to_owned(), truncated: false }
}

fn refused(refusal: Refusal, bounds: Bounds) -> SkillError {
    match refusal {
        Refusal::Busy => SkillError::overloaded("another call uses the browser of this session: call again later"),
        Refusal::Closed => SkillError::unavailable("the worker is shutting down"),
        Refusal::PrincipalFull => {
            SkillError::overloaded(format!("at most {} browsers for one principal", bounds.per_principal()))
        }
        Refusal::CallerFull | Refusal::MemoryFull | Refusal::WorkerFull => {
            SkillError::overloaded(format!("at most {} browsers on this worker, and all are in use", bounds.per_worker))
        }
    }
}

fn not_started(error: &StartError) -> SkillError {
    let message = match error {
        StartError::NoJail(reason) => format!("no browser could be started: {reason}"),
        _ => "no browser could be started; the worker's log has the reason".to_owned(),
    };
    SkillError::new(ErrorCode::ToolInvocationError, message)
}
