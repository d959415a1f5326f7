//! `session:python`: runs code in sessions and manages them. Each session is an interpreter that is kept between the calls of
//! its caller.
//!
//! ```text
//! execute ──> request ──> Book: a lease ──> drive ──> answer
//!                              └─ new: Servers ──> a fork of an interpreter that has loaded host/, in a jail of its own
//! install ──> packages: the store ──> Book: a lease ──> links in the session's folder
//! list, close, cleanup, stats, health ──> Book and Tally, the caller's own entries only
//! ```
//!
//! The skills of a toolset manage the same sessions. A session runs code of one skill only, and ends when the
//! skill's manifest changes. The gateway sends all calls of a caller to one worker, so that its sessions are all here.
//!
//! - [`request`]: what a call asks for; [`answer`]: what it is told; [`servers`]: where processes come from
//! - [`mod@seen`]: metrics, and whether sessions work
//! - [`packages`]: what may be installed, in a store; [`mod@install`]: from there into a session

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_metrics::Snapshot;
use openskill_proto::v1::{ErrorCode, SkillError};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::environment::{Surroundings, path_text};
use crate::manifest::session::{Operation, Session};
use crate::manifest::{How, Manifest};
use crate::process::jail::jailer::Jailer;
use crate::process::jail::plan::Plan;
use crate::process::launch::{LaunchError, Launcher};
use crate::process::protocol::{Command, ProcessLimits};
use crate::runner::{Invocation, RawOutput, Runner};
use crate::runners::once::no_root;
use crate::runners::python::environments::Environments;
use crate::runners::python::interpreter::Interpreter;
use crate::runners::python::{settings, variables};
use crate::sessions::book::{Book, Lease, Terms};
use crate::sessions::cell::Cell;
use crate::sessions::drive::{Job, drive};
use crate::sessions::key::{Key, Owner};
use crate::sessions::process::{Process, StartError};
use crate::sessions::tally::Tally;

mod answer;
mod install;
mod packages;
mod request;
mod seen;
mod servers;

use packages::Packages;
use request::{Execute, Times};
use servers::Servers;

/// How long a call waits for a session that another call uses: as long as a cancelled call may take to stop.
const WAIT: Duration = Duration::from_secs(3);

/// How often a session's process is started if its fork server ends.
const TRIES: usize = 2;

/// How long a worker that shuts down waits for sessions to end.
const CLOSING: Duration = Duration::from_secs(3);

/// The runner.
pub(crate) struct Sandbox {
    environments: Environments,
    surroundings: Surroundings,
    jailer: Jailer,
    launcher: Launcher,
    /// Lives as long as the worker: sessions outlive the shards that start them.
    runtime: Handle,
    idle: Duration,
    book: Arc<Book<Process>>,
    tally: Arc<Tally>,
    /// Where processes come from, by skill.
    servers: Mutex<HashMap<String, Arc<Servers>>>,
    /// Skills that run code in sessions, by id.
    hosts: Mutex<BTreeMap<String, Arc<Manifest>>>,
    packages: Arc<Packages>,
    /// The tasks of calls.
    tasks: TaskTracker,
}

impl Sandbox {
    /// Must be called within the runtime that lives as long as the worker.
    pub(crate) fn new(
        config: &Config,
        interpreter: Option<Interpreter>,
        launcher: Launcher,
        (surroundings, jailer): (Surroundings, Jailer),
        offers: watch::Sender<u64>,
    ) -> Self {
        Self {
            packages: Arc::new(Packages::new(config.packages.clone(), jailer.clone(), launcher.clone())),
            hosts: Mutex::default(),
            environments: Environments::new(interpreter, config.packages.clone(), launcher.clone(), offers),
            surroundings,
            jailer,
            launcher,
            runtime: Handle::current(),
            idle: config.idle,
            book: Book::new(config.sessions),
            tally: Arc::default(),
            servers: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// What a session may reach: the interpreter, and its own folder for temporary files.
    fn jail(&self, interpreter: &Interpreter, manifest: &Manifest) -> Result<Option<Plan>, String> {
        let mut readable = interpreter.prefixes.clone();
        readable.push(interpreter.path.clone());
        let plan = self.jailer.isolated_plan(manifest, &readable, &[])?;
        if plan.as_ref().is_some_and(|it| !it.may_fork()) {
            let reason = "the user of skills can't read the interpreter, and what makes sessions must not pass file \
                          permissions. `openskill doctor` names a path";
            return Err(reason.to_owned());
        }
        Ok(plan)
    }

    /// How a session's process is started.
    fn command(&self, interpreter: &Interpreter, manifest: &Manifest) -> Result<Command, SkillError> {
        let jail = self.jail(interpreter, manifest);
        let mut env = self.surroundings.isolated(manifest);
        variables::complete(&mut env, interpreter.environment.as_deref());
        // It draws into files: there is no screen.
        env.entry("MPLBACKEND".to_owned()).or_insert_with(|| "Agg".to_owned());
        Ok(Command {
            program: interpreter.path.clone(),
            args: settings::program_arguments(),
            env,
            cwd: "/".into(),
            limits: ProcessLimits::of(&manifest.limits),
            nice: 0,
            forks: true,
            jail: jail.map_err(|reason| SkillError::new(ErrorCode::Unavailable, reason))?,
            root: manifest.allowed_root.is_some().then(|| self.surroundings.run_root(manifest)),
        })
    }

    /// The fork servers of a skill. Those of an older manifest are retired.
    fn servers(&self, manifest: &Arc<Manifest>, session: &Session) -> Result<Arc<Servers>, SkillError> {
        let interpreter = self.environments.interpreter(&manifest.id, &session.needs);
        let interpreter = interpreter.ok_or_else(|| SkillError::unavailable("the skill can't run on this worker"))?;
        let mut all = self.lock();
        if let Some(servers) = all.get(&manifest.id) {
            if servers.are_for(manifest, &interpreter) {
                return Ok(Arc::clone(servers));
            }
            servers.retire();
        }
        let command = self.command(&interpreter, manifest)?;
        let packages = Arc::clone(&self.packages);
        let servers = Arc::new(Servers::new((Arc::clone(manifest), session), interpreter, command, packages));
        all.insert(manifest.id.clone(), Arc::clone(&servers));
        Ok(servers)
    }

    /// Starts the process of a new session.
    async fn start(self: Arc<Self>, servers: Arc<Servers>, owner: Owner, nice: u8) -> Result<Process, SkillError> {
        let manifest = servers.manifest();
        // The name shows in the list of processes, in place of a call's id.
        let mut env = BTreeMap::from([("OPENSKILL_CALL_ID", format!("session-of-{}", manifest.id))]);
        let mut failed = None;
        for _ in 0..TRIES {
            let picked = servers.pick(&self.launcher, &owner).map_err(|error| not_started(&error))?;
            let shelf = picked.place.as_ref().and_then(|it| it.shelf().ok());
            env.extend(shelf.as_ref().map(|it| ("OPENSKILL_PACKAGES", path_text(it.path()))));
            let request = (&env, self.jailer.most_processes(manifest), nice);
            match Process::start(&picked.server, request, shelf).await {
                Ok(process) => {
                    if let Err(error) = servers.keep_one_free(&self.launcher) {
                        tracing::debug!(%error, "no fork server was started for the next session");
                    }
                    return Ok(process);
                }
                Err(error @ (StartError::NotTaken | StartError::Silent)) => {
                    // Its sessions continue; the next session gets another fork server.
                    picked.server.retire();
                    failed = Some(error);
                }
                Err(error) => return Err(not_started(&error)),
            }
        }
        Err(failed.map_or_else(not_here, |error| not_started(&error)))
    }

    /// Leases the session of a call. A session whose process died while idle starts anew.
    async fn take(&self, key: &Key, terms: Terms, until: Instant) -> Result<Lease<Process>, SkillError> {
        let refused = |refusal| answer::refused(refusal, (self.book.bounds(), terms));
        let lease = self.book.take(key, terms, until).await.map_err(refused)?;
        if lease.process.as_ref().is_none_or(Process::is_alive) {
            return Ok(lease);
        }
        drop(lease);
        self.book.take(key, terms, until).await.map_err(refused)
    }

    async fn execute(self: Arc<Self>, invocation: Invocation, owner: Owner) -> RawOutput {
        let Invocation { manifest, input, deadline, events, slot, trace, .. } = invocation;
        let Execute { code, session_id, timeout } = match request::read(&input) {
            Ok(execute) => execute,
            Err(error) => return RawOutput::NotStarted(error),
        };
        let How::Session(session) = &manifest.how else { return RawOutput::NotStarted(not_here()) };
        let servers = match self.servers(&manifest, session) {
            Ok(servers) => servers,
            Err(error) => return RawOutput::NotStarted(error),
        };
        let now = Instant::now();
        let Times { time, latest, grace } = Times::of(timeout, deadline, now);
        let key = Key { owner: owner.clone(), name: session_id };
        let lease = match self.take(&key, servers.terms(), (now + WAIT).min(latest)).await {
            Ok(lease) => lease,
            Err(error) => return RawOutput::NotStarted(error),
        };
        trace.started(if lease.process.is_some() { "warm" } else { "fork" });
        let (number, dropped) = (lease.cells, CancellationToken::new());
        let (closed, said) = (lease.stop.clone(), events.clone());
        let cell = Cell { number, code, time, latest, grace, events, dropped: dropped.clone(), closed };
        let start = Arc::clone(&self).start(servers, owner.clone(), slot.nice()).boxed();
        let job = Job { lease, cell, start, counted: (Arc::clone(&self.tally), owner), slot };
        // If the call is dropped, the task interrupts the code and keeps the session if possible.
        let waiting = dropped.drop_guard();
        let (answer, answered) = oneshot::channel();
        self.tasks.spawn_on(drive(job, answer), &self.runtime);
        let outcome = answered.await;
        drop(waiting);
        match outcome {
            Ok(Ok(outcome)) => {
                RawOutput::Value(answer::executed(&outcome, &said.artifacts(), (number, key.name.as_deref(), time)))
            }
            Ok(Err(error)) => RawOutput::NotStarted(error),
            Err(_) => RawOutput::Failed(SkillError::new(ErrorCode::Unavailable, "the worker ended the session")),
        }
    }

    /// Everything but running code.
    fn look_after_sessions(&self, operation: Operation, input: &[u8], owner: &Owner) -> Result<String, SkillError> {
        let (now, bounds) = (Instant::now(), self.book.bounds());
        Ok(match operation {
            Operation::Close => {
                let name = request::session_id(input)?;
                if !self.book.close(owner, &name) {
                    return Err(answer::no_such_session(&name));
                }
                answer::closed(&name)
            }
            Operation::Cleanup => {
                let idle = request::max_age(input)?.unwrap_or(bounds.idle);
                answer::cleaned(&self.book.clean(owner, idle, now))
            }
            Operation::Stats => answer::counted(self.tally.of(owner), self.book.list(owner, now).len()),
            Operation::Health => self.health(owner, now),
            Operation::List | Operation::Execute | Operation::Install => answer::listed(&self.book.list(owner, now)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Servers>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runner for Sandbox {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let How::Session(session) = &manifest.how else { return Err("it names no operation on sessions".to_owned()) };
        // No operation is of use without sessions, so all of them need what sessions need.
        let interpreter = self.environments.admit(&manifest.id, &session.needs)?;
        self.jail(&interpreter, manifest)?;
        match session.operation {
            Operation::Install => self.packages.admit()?,
            Operation::Execute => {
                let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
                hosts.insert(manifest.id.clone(), Arc::new(manifest.clone()));
            }
            _ => {}
        }
        self.jailer.announce(manifest);
        Ok(())
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move {
            let How::Session(session) = &invocation.manifest.how else { return RawOutput::NotStarted(not_here()) };
            let owner = Owner {
                group: invocation.manifest.group(),
                principal: invocation.principal.clone(),
                conversation: invocation.session_id.clone(),
            };
            let operation = session.operation;
            match operation {
                Operation::Execute => self.execute(invocation, owner).await,
                Operation::Install => self.install(invocation, owner).await,
                _ => {
                    let done = self.look_after_sessions(operation, &invocation.input, &owner);
                    done.map_or_else(RawOutput::NotStarted, RawOutput::Value)
                }
            }
        }
        .boxed()
    }

    fn warm_up(self: Arc<Self>, manifest: Arc<Manifest>) -> BoxFuture<'static, ()> {
        async move {
            if let How::Session(session) = &manifest.how
                && session.operation == Operation::Execute
                && let Ok(servers) = self.servers(&manifest, session)
            {
                let _runtime = self.runtime.enter();
                let _ = servers.keep_one_free(&self.launcher);
            }
        }
        .boxed()
    }

    fn settled(&self) -> bool {
        self.environments.settled()
    }

    fn tend(&self, manifests: &[Arc<Manifest>]) {
        self.environments.tend(manifests);
        self.packages.tend(&self.runtime);
        let is_there = |id: &String| manifests.iter().any(|it| it.id == *id && it.unavailable.is_none());
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).retain(|id, _| is_there(id));
        self.book.expire(Instant::now(), Process::is_alive);
        let mut all = self.lock();
        all.retain(|id, servers| {
            let kept = manifests.iter().any(|it| it.id == *id && it.unavailable.is_none() && servers.are_of(it));
            if kept {
                servers.tend(self.idle);
            } else {
                servers.retire();
            }
            kept
        });
        // Under the lock, so that no maker is added in between.
        self.book.clear(|maker| !all.values().any(|it| it.terms().maker == maker));
    }

    fn measure(&self, metrics: &mut Snapshot) {
        self.measured(metrics);
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.book.shut();
        self.tasks.close();
        let leaving: Vec<_> = self.lock().drain().flat_map(|(_, servers)| servers.retire()).collect();
        let (environments, tasks, packages) =
            (self.environments.clone(), self.tasks.clone(), Arc::clone(&self.packages));
        async move {
            environments.close().await;
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

/// What the caller is told if a session has no process.
fn not_started(error: &StartError) -> SkillError {
    if openskill_log::admits("a session was not started") {
        tracing::warn!(%error, "the process of a session could not be started");
    }
    match error {
        StartError::Launch(LaunchError::Root(root)) => no_root(root.clone()),
        _ => SkillError::new(ErrorCode::ToolInvocationError, "the process of the session could not be started"),
    }
}
