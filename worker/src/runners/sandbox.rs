//! `session:python`: runs code in sessions, and manages them. Each session is an interpreter that is kept between
//! its caller's calls.
//!
//! ```text
//! execute ──> request ──> SessionBook: a lease ──> drive ──> answer
//!                              └─ new: Servers ──> a fork of an interpreter that has loaded host/, in its jail
//! install ──> packages: the store ──> SessionBook: a lease ──> links in the session's folder
//! list, close, cleanup, stats, health ──> SessionBook and SessionTally, the caller's own entries only
//! ```
//!
//! A toolset's skills manage the same sessions. A session runs only one skill's code, and ends when that skill's
//! manifest changes. The gateway sends all of a caller's calls to one worker, so that its sessions are all here.
//!
//! - [`request`]: the arguments of a call; [`answer`]: its result; [`servers`]: provides processes
//! - [`observe`]: metrics, and whether sessions work
//! - [`packages`]: installs packages into a store; [`mod@install`]: installs them from there into a session

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::forkserver::ForkRequest;
use openskill_sandbox::jail::plan::Plan;
use openskill_sandbox::launch::LaunchError;
use openskill_sandbox::protocol::{Command, ProcessLimits};
use openskill_sandbox::sessions::book::{Lease, SessionBook, Terms};
use openskill_sandbox::sessions::key::{Key, SessionOwner};
use openskill_telemetry::metrics::Snapshot;
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::environment::path_text;
use crate::manifest::session::{Operation, Session};
use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::{Invocation, RawOutput, Runner};
use crate::runners::python::interpreter::Interpreter;
use crate::runners::python::variables;
use crate::runners::services::Services;
use crate::sessions::cell::{Cell, CellDeadlines};
use crate::sessions::drive::{SessionCall, drive};
use crate::sessions::process::{NewSessionProcess, SessionProcess, StartError};
use crate::sessions::tally::SessionTally;

mod answer;
mod install;
mod observe;
mod packages;
mod request;
mod servers;

use packages::Packages;
use request::Execute;
use servers::Servers;

/// How long a call waits for a session that another call uses. A cancelled call may take this long to stop.
const WAIT: Duration = Duration::from_secs(3);

/// The number of attempts to start a session's process if its fork server ends.
const TRIES: usize = 2;

/// The maximum time that a worker waits for sessions to end when it shuts down.
const CLOSING: Duration = Duration::from_secs(3);

pub(crate) struct Sandbox {
    services: Services,
    /// A runtime that lives as long as the worker, because sessions outlive the shards that start them.
    runtime: Handle,
    idle: Duration,
    book: Arc<SessionBook<SessionProcess>>,
    tally: Arc<SessionTally>,
    /// Fork servers, by skill.
    servers: Mutex<HashMap<String, Arc<Servers>>>,
    /// The skills that run code in sessions, by id.
    hosts: Mutex<BTreeMap<String, Arc<Manifest>>>,
    packages: Arc<Packages>,
    /// Tracks the tasks of calls, which may outlive the calls.
    tasks: TaskTracker,
}

impl Sandbox {
    /// Must be called within a runtime that lives as long as the worker.
    pub(crate) fn new(config: &Config, services: &Services) -> Self {
        let Services { launcher, jailer, .. } = services;
        Self {
            packages: Arc::new(Packages::new(config.packages.clone(), jailer.clone(), launcher.clone())),
            hosts: Mutex::default(),
            services: services.clone(),
            runtime: Handle::current(),
            idle: config.idle,
            book: SessionBook::new(config.sessions),
            tally: Arc::default(),
            servers: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Plans a session's jail. A session may access the interpreter and its own temporary folder.
    fn jail(&self, interpreter: &Interpreter, manifest: &Manifest) -> Result<Plan, String> {
        let mut readable = interpreter.prefixes.clone();
        readable.push(interpreter.path.clone());
        let plan = self.services.jailer.isolated_plan(manifest, &readable, &[])?;
        if !plan.may_fork() {
            let reason = "the user of skills can't read the interpreter, and the process that makes sessions must not bypass file \
                          permissions. `openskill doctor` names a path";
            return Err(reason.to_owned());
        }
        Ok(plan)
    }

    /// Returns the command of a session's process. Its fork server adds the arguments.
    fn command(&self, interpreter: &Interpreter, manifest: &Manifest) -> Result<Command, SkillError> {
        let jail = self.jail(interpreter, manifest);
        let mut env = self.services.environment.for_isolated(manifest);
        variables::complete(&mut env, interpreter.environment.as_deref());
        // Without a screen, plots are drawn into files.
        env.entry("MPLBACKEND".to_owned()).or_insert_with(|| "Agg".to_owned());
        Ok(Command {
            program: interpreter.path.clone(),
            args: Vec::new(),
            env,
            cwd: "/".into(),
            limits: ProcessLimits::from_limits(&manifest.limits),
            nice: 0,
            forks: false,
            jail: Some(jail.map_err(|reason| SkillError::new(ErrorCode::Unavailable, reason))?),
            root: manifest.allowed_root.is_some().then(|| self.services.environment.run_root(manifest)),
        })
    }

    /// Returns a skill's fork servers. Retires those of an older manifest.
    fn servers(&self, manifest: &Arc<Manifest>, session: &Session) -> Result<Arc<Servers>, SkillError> {
        let interpreter = self.services.environments.interpreter(manifest, &session.needs);
        let interpreter = interpreter.ok_or_else(|| SkillError::unavailable("the skill can't run on this worker"))?;
        let mut all = self.servers.lock();
        if let Some(servers) = all.get(&manifest.id) {
            if servers.are_for(manifest, &interpreter) {
                return Ok(Arc::clone(servers));
            }
            servers.retire();
        }
        let command = self.command(&interpreter, manifest)?;
        let packages = Arc::clone(&self.packages);
        let servers = Arc::new(Servers::new(Arc::clone(manifest), session, interpreter, command, packages));
        all.insert(manifest.id.clone(), Arc::clone(&servers));
        Ok(servers)
    }

    /// Starts a new session's process.
    async fn start(self: Arc<Self>, servers: Arc<Servers>, owner: SessionOwner, nice: u8) -> NewSessionProcess {
        let manifest = &servers.manifest;
        // Process listings show this name in place of a call id.
        let mut env = BTreeMap::from([("OPENSKILL_CALL_ID", format!("session-of-{}", manifest.id))]);
        let mut failed = None;
        for _ in 0..TRIES {
            let reservation = servers.pick(&self.services.launcher, &owner).map_err(|error| not_started(&error))?;
            let shelf = reservation.place.as_ref().and_then(|it| it.make_dir().ok());
            env.extend(shelf.as_ref().map(|it| ("OPENSKILL_PACKAGES", path_text(it.path()))));
            let request = ForkRequest { env: &env, processes: self.services.jailer.most_processes(manifest), nice };
            match SessionProcess::start(&reservation.server, request, shelf).await {
                Ok(process) => {
                    if let Err(error) = servers.keep_one_free(&self.services.launcher) {
                        tracing::debug!(%error, "no fork server was started for the next session");
                    }
                    return Ok(process);
                }
                Err(error @ (StartError::NotTaken | StartError::Silent)) => {
                    // The fork server's sessions continue. The next session gets another fork server.
                    reservation.server.retire();
                    failed = Some(error);
                }
                Err(error) => return Err(not_started(&error)),
            }
        }
        Err(failed.map_or_else(not_here, |error| not_started(&error)))
    }

    /// Leases a call's session. Restarts a session whose process died while idle.
    async fn take(&self, key: &Key, terms: Terms, until: Instant) -> Result<Lease<SessionProcess>, SkillError> {
        let refused = |refusal| answer::session_refusal(refusal, self.book.bounds(), terms);
        let lease = self.book.take(key, terms, until).await.map_err(refused)?;
        if lease.process.as_ref().is_none_or(SessionProcess::is_alive) {
            return Ok(lease);
        }
        drop(lease);
        self.book.take(key, terms, until).await.map_err(refused)
    }

    /// Runs a call's code. Fails if the code did not start.
    async fn execute(self: Arc<Self>, invocation: Invocation, owner: SessionOwner) -> Result<RawOutput, SkillError> {
        let Invocation { manifest, input, deadline, events, slot, trace, .. } = invocation;
        let Execute { code, session_id, timeout } = request::read(&input)?;
        let RunnerSpec::Session(session) = &manifest.how else { return Err(not_here()) };
        let servers = self.servers(&manifest, session)?;
        let now = Instant::now();
        let deadlines = CellDeadlines::new(timeout, deadline, now);
        let key = Key { owner: owner.clone(), name: session_id };
        let lease = self.take(&key, servers.terms, (now + WAIT).min(deadlines.latest)).await?;
        trace.record_start(if lease.process.is_some() { "warm" } else { "fork" });
        let (number, dropped) = (lease.cells, CancellationToken::new());
        let (closed, said) = (lease.stop.clone(), events.clone());
        let cell = Cell { number, code, deadlines, events, dropped: dropped.clone(), closed };
        let start = Arc::clone(&self).start(servers, owner.clone(), slot.nice()).boxed();
        let job = SessionCall { lease, cell, start, counted: (Arc::clone(&self.tally), owner), slot };
        // If the call is dropped, the task interrupts the code, and keeps the session if possible.
        let waiting = dropped.drop_guard();
        let (answer, answered) = oneshot::channel();
        self.tasks.spawn_on(drive(job, answer), &self.runtime);
        let outcome = answered.await;
        drop(waiting);
        Ok(match outcome {
            Ok(outcome) => {
                let (artifacts, name) = (said.artifacts(), key.name.as_deref());
                RawOutput::Value(answer::cell_result(&outcome?, &artifacts, number, name, timeout))
            }
            Err(_) => RawOutput::Failed(SkillError::new(ErrorCode::Unavailable, "the worker ended the session")),
        })
    }

    /// Runs all operations except those that run code.
    fn look_after_sessions(
        &self,
        operation: Operation,
        input: &[u8],
        owner: &SessionOwner,
    ) -> Result<String, SkillError> {
        let (now, bounds) = (Instant::now(), self.book.bounds());
        Ok(match operation {
            Operation::Close => {
                let name = request::session_id(input)?;
                if !self.book.close(owner, &name) {
                    return Err(answer::no_such_session(&name));
                }
                json!({ "session_id": name, "closed": true }).to_string()
            }
            Operation::Cleanup => {
                let names = self.book.clean(owner, request::max_age(input)?.unwrap_or(bounds.idle), now);
                json!({ "cleaned_count": names.len(), "session_ids": names }).to_string()
            }
            Operation::Stats => answer::stats(self.tally.counts(owner), self.book.list(owner, now).len()),
            Operation::Health => self.health(owner, now),
            Operation::List | Operation::Execute | Operation::Install => {
                answer::session_list(&self.book.list(owner, now))
            }
        })
    }
}

impl Runner for Sandbox {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let RunnerSpec::Session(session) = &manifest.how else {
            return Err("its manifest does not name an operation on sessions".to_owned());
        };
        // The other operations are useless without sessions, so they have the same requirements.
        let interpreter = self.services.environments.admit(manifest, &session.needs)?;
        self.jail(&interpreter, manifest)?;
        match session.operation {
            Operation::Install => self.packages.admit()?,
            Operation::Execute => {
                let mut hosts = self.hosts.lock();
                hosts.insert(manifest.id.clone(), Arc::new(manifest.clone()));
            }
            _ => {}
        }
        self.services.jailer.announce(manifest);
        Ok(())
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move {
            let RunnerSpec::Session(session) = &invocation.manifest.how else {
                return RawOutput::NotStarted(not_here());
            };
            let operation = session.operation;
            let owner = SessionOwner {
                group: invocation.manifest.group(),
                principal: invocation.principal.clone(),
                conversation: invocation.session_id.clone(),
            };
            let done = match operation {
                Operation::Execute => self.execute(invocation, owner).await,
                // If it fails, the session has not changed, so the call may be retried.
                Operation::Install => self.install(invocation, owner).await.map(RawOutput::Value),
                _ => self.look_after_sessions(operation, &invocation.input, &owner).map(RawOutput::Value),
            };
            done.unwrap_or_else(RawOutput::NotStarted)
        }
        .boxed()
    }

    fn warm_up(self: Arc<Self>, manifest: Arc<Manifest>) -> BoxFuture<'static, ()> {
        async move {
            if let RunnerSpec::Session(session) = &manifest.how
                && session.operation == Operation::Execute
                && let Ok(servers) = self.servers(&manifest, session)
            {
                let _runtime = self.runtime.enter();
                let _ = servers.keep_one_free(&self.services.launcher);
            }
        }
        .boxed()
    }

    fn maintain(&self, manifests: &[Arc<Manifest>]) {
        self.packages.maintain(&self.runtime);
        let is_there = |id: &String| manifests.iter().any(|it| it.id == *id && it.unavailable.is_none());
        self.hosts.lock().retain(|id, _| is_there(id));
        self.book.expire(Instant::now(), SessionProcess::is_alive);
        let mut all = self.servers.lock();
        all.retain(|id, servers| {
            let kept = manifests.iter().any(|it| it.id == *id && it.unavailable.is_none() && servers.are_of(it));
            if kept {
                servers.maintain(self.idle);
            } else {
                servers.retire();
            }
            kept
        });
        // Hold the lock, so that no maker is added meanwhile.
        self.book.clear(|maker| !all.values().any(|it| it.terms.maker == maker));
    }

    fn measure(&self, metrics: &mut Snapshot) {
        self.measure_sessions(metrics);
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.book.shut();
        self.tasks.close();
        let leaving: Vec<_> = self.servers.lock().drain().flat_map(|(_, servers)| servers.retire()).collect();
        let (tasks, packages) = (self.tasks.clone(), Arc::clone(&self.packages));
        async move {
            let gone = async {
                tasks.wait().await;
                futures_util::future::join_all(leaving.iter().map(|it| it.wait_gone())).await;
            };
            let _ = tokio::time::timeout(CLOSING, gone).await;
            let _ = tokio::task::spawn_blocking(move || packages.close()).await;
        }
        .boxed()
    }
}

fn not_here() -> SkillError {
    SkillError::new(ErrorCode::Unavailable, "the skill can't run on this worker")
}

/// Returns the error of a call whose session has no process.
fn not_started(error: &StartError) -> SkillError {
    if openskill_telemetry::log::admits("a session was not started") {
        tracing::warn!(%error, "the process of a session could not be started");
    }
    match error {
        StartError::Launch(LaunchError::Root(root)) => root.clone().into_error(),
        _ => SkillError::new(ErrorCode::ToolInvocationError, "the process of the session could not be started"),
    }
}
