//! Installs a package in a session: first into the store, then as links in the folder that the session sees.

use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use openskill_sandbox::sessions::book::Lease;
use openskill_sandbox::sessions::key::{Key, SessionOwner};

use super::packages::{JailedInterpreter, PackageRequest, Provided, Using, unable};
use super::servers::Servers;
use super::{Sandbox, WAIT, answer, not_here, request};
use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::Invocation;
use crate::schedule::Slot;
use crate::sessions::drive::State;
use crate::sessions::packages::{Package, PackageRefusal, unguessable};
use crate::sessions::process::SessionProcess;

/// The packages that were added to a session.
struct AddedPackages {
    state: State,
    /// How many packages are new in the session.
    count: usize,
}

impl Sandbox {
    /// Installs the package that a call requests, and returns the call's result. If it fails, the session has not
    /// changed.
    pub(super) async fn install(
        self: Arc<Self>,
        invocation: Invocation,
        owner: SessionOwner,
    ) -> Result<String, SkillError> {
        let (request, name) = request::install(&invocation.input)?;
        // If the call names no session, a new one starts. The answer contains its name.
        let name = name.unwrap_or_else(|| format!("packages-{}", unguessable()));
        let key = Key { owner, name: Some(name.clone()) };
        let servers = self.host(&key)?;
        let slot = Arc::new(invocation.slot);
        let all = self.provide(&request, &servers, &invocation.manifest, Arc::clone(&slot)).await?;
        let packages = all.iter().map(|it| it.package.clone()).collect();
        // If the skill was reloaded meanwhile, neither its old nor its new sessions get the packages.
        if self.host(&key)?.terms.maker != servers.terms.maker {
            let reason = "the skill that runs the session's code changed during the installation: call again";
            return Err(SkillError::new(ErrorCode::Unavailable, reason).with_blame(Blame::Skill));
        }
        // Must run to completion, because it owns the lease of the session.
        let putting = Arc::clone(&self).put(servers, key, packages, slot);
        let added = self.tasks.spawn_on(putting, &self.runtime).await;
        let AddedPackages { state, count } =
            added.map_err(|_| SkillError::new(ErrorCode::Unavailable, "the worker ended the session"))??;
        Ok(answer::install_result(&name, state, count == 0, &all))
    }

    /// Installs the packages into the store.
    async fn provide(
        &self,
        request: &PackageRequest,
        servers: &Servers,
        own: &Manifest,
        slot: Arc<Slot>,
    ) -> Result<Vec<Provided>, SkillError> {
        let of_session = &servers.manifest;
        let RunnerSpec::Session(session) = &of_session.how else { return Err(not_here()) };
        let of_sessions = self.services.environments.interpreter(of_session, &session.needs).ok_or_else(not_here)?;
        let installer = self.services.environments.base(session.needs.version).map_err(unable)?;
        if installer.version != of_sessions.version {
            let reason = "the sessions' virtual environment has a different Python version than the worker, which installs packages";
            return Err(unable(reason));
        }
        let installer = JailedInterpreter { interpreter: &installer, limits_of: own };
        let of_sessions = JailedInterpreter { interpreter: &of_sessions, limits_of: of_session };
        self.packages.provide(request, Using { installer, of_sessions, slot }).await
    }

    /// Returns the skill of the toolset that gets the package: the one that has the session, otherwise the first
    /// one by id.
    fn host(&self, key: &Key) -> Result<Arc<Servers>, SkillError> {
        let hosts = self.hosts.lock().clone();
        let mut first = None;
        for manifest in hosts.values().filter(|it| it.group() == key.owner.group) {
            let RunnerSpec::Session(session) = &manifest.how else { continue };
            // A skill that can't run has no sessions.
            let Ok(servers) = self.servers(manifest, session) else { continue };
            if self.book.holds(key, servers.terms.maker) {
                return Ok(servers);
            }
            first.get_or_insert(servers);
        }
        first.ok_or_else(|| SkillError::new(ErrorCode::Unavailable, "no skill of the toolset runs code in sessions"))
    }

    /// Adds packages to a session. Starts the session if it does not exist.
    async fn put(
        self: Arc<Self>,
        servers: Arc<Servers>,
        key: Key,
        packages: Vec<Package>,
        slot: Arc<Slot>,
    ) -> Result<AddedPackages, SkillError> {
        let mut lease = self.take(&key, servers.terms, Instant::now() + WAIT).await?;
        // An installation runs none of the caller's code.
        lease.is_no_call();
        let (mut process, state) = match lease.process.take() {
            Some(process) => (process, State::Kept),
            None => (Arc::clone(&self).start(servers, key.owner.clone(), slot.nice()).await?, State::New),
        };
        let shelf = process.packages.take();
        let Some(mut shelf) = shelf else {
            end(lease, process, state).await;
            let reason = "the session has no directory for packages: close it and begin another";
            return Err(SkillError::new(ErrorCode::Unavailable, reason));
        };
        let linked = tokio::task::spawn_blocking(move || {
            let added = shelf.add(&packages);
            (shelf, added)
        });
        let Ok((shelf, added)) = linked.await else { return Err(not_here()) };
        process.packages = Some(shelf);
        match added {
            Ok(count) => match lease.give_back(process, Instant::now()) {
                true => {
                    let begun = u64::from(state == State::New);
                    self.tally.count(&key.owner, Instant::now(), |it| it.started += begun);
                    Ok(AddedPackages { state, count })
                }
                false => Err(SkillError::new(ErrorCode::NotFound, "the session was closed during the call")),
            },
            Err(refusal) => {
                end(lease, process, state).await;
                Err(link_error(&refusal))
            }
        }
    }
}

/// Restores the state in which the session was before the call.
async fn end(lease: Lease<SessionProcess>, process: SessionProcess, state: State) {
    match state {
        State::Kept => drop(lease.give_back(process, Instant::now())),
        State::New | State::Lost => {
            process.end().await;
            drop(lease);
        }
    }
}

fn link_error(refusal: &PackageRefusal) -> SkillError {
    match refusal {
        PackageRefusal::OtherVersion { .. } | PackageRefusal::TooMany | PackageRefusal::TooLarge => {
            SkillError::new(ErrorCode::InvalidArgument, refusal.to_string())
        }
        PackageRefusal::Disk(error) => {
            tracing::warn!(%error, "a package was not linked into a session");
            SkillError::new(
                ErrorCode::ToolInvocationError,
                "the files of the package could not be put into the session",
            )
            .with_retry_after_ms(RETRY_AFTER_MS)
        }
    }
}

/// The pause before a retry, in milliseconds, if the store removed an entry during the call.
const RETRY_AFTER_MS: u64 = 1000;
