//! Installs a package in a session: first into the store, then by links into the folder that the session sees.

use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::packages::{Provided, Request, Using, unable};
use super::servers::Servers;
use super::{Sandbox, WAIT, answer, not_here, request};
use crate::manifest::{How, Manifest};
use crate::runner::{Invocation, RawOutput};
use crate::schedule::Slot;
use crate::sessions::book::Lease;
use crate::sessions::drive::State;
use crate::sessions::key::{Key, Owner};
use crate::sessions::packages::{Package, Refusal, unguessable};
use crate::sessions::process::Process;

/// What a session got.
struct Added {
    state: State,
    /// How many packages are new to it.
    count: usize,
}

impl Sandbox {
    /// Installs the package of a call.
    pub(super) async fn install(self: Arc<Self>, invocation: Invocation, owner: Owner) -> RawOutput {
        match self.try_install(invocation, owner).await {
            Ok(told) => RawOutput::Value(told),
            // Nothing is changed, so the call may be tried again.
            Err(error) => RawOutput::NotStarted(error),
        }
    }

    async fn try_install(self: Arc<Self>, invocation: Invocation, owner: Owner) -> Result<String, SkillError> {
        let (request, name) = request::install(&invocation.input)?;
        // Without a name, a new session starts, and the answer names it.
        let name = name.unwrap_or_else(|| format!("packages-{}", unguessable()));
        let key = Key { owner, name: Some(name.clone()) };
        let servers = self.host(&key)?;
        let slot = Arc::new(invocation.slot);
        let all = self.provide(&request, &servers, (&invocation.manifest, Arc::clone(&slot))).await?;
        let packages = all.iter().map(|it| it.package.clone()).collect();
        // The skill may have been reloaded meanwhile: sessions of the old one get no packages, nor does the new one from it.
        if self.host(&key)?.terms().maker != servers.terms().maker {
            let reason = "the skill that runs the session's code changed during the installation: call again";
            return Err(SkillError::new(ErrorCode::Unavailable, reason).with_blame(Blame::Skill));
        }
        // Not to be dropped halfway: it holds the session.
        let putting = Arc::clone(&self).put((servers, key), packages, slot);
        let added = self.tasks.spawn_on(putting, &self.runtime).await;
        let Added { state, count } =
            added.map_err(|_| SkillError::new(ErrorCode::Unavailable, "the worker ended the session"))??;
        Ok(answer::installed(&name, state, count == 0, &all))
    }

    /// Has the packages in the store.
    async fn provide(
        &self,
        request: &Request,
        servers: &Servers,
        (own, slot): (&Manifest, Arc<Slot>),
    ) -> Result<Vec<Provided>, SkillError> {
        let of_session = servers.manifest();
        let How::Session(session) = &of_session.how else { return Err(not_here()) };
        let of_sessions = self.environments.interpreter(&of_session.id, &session.needs).ok_or_else(not_here)?;
        let installer = self.environments.base_of(&session.needs);
        let installer = installer.map_err(unable)?;
        if installer.version != of_sessions.version {
            let reason = "the sessions' virtual environment has a different Python version than the worker, which installs packages";
            return Err(unable(reason));
        }
        let (installer, of_sessions) = (installer.as_ref(), of_sessions.as_ref());
        let using = Using { installer, of_sessions, manifests: (own, of_session), slot };
        self.packages.provide(request, using).await
    }

    /// The skill of the toolset that gets the package: the one that has the session, else the first by id.
    fn host(&self, key: &Key) -> Result<Arc<Servers>, SkillError> {
        let hosts = self.hosts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let mut first = None;
        for manifest in hosts.values().filter(|it| it.group() == key.owner.group) {
            let How::Session(session) = &manifest.how else { continue };
            // One that can't run has no sessions.
            let Ok(servers) = self.servers(manifest, session) else { continue };
            if self.book.holds(key, servers.terms().maker) {
                return Ok(servers);
            }
            first.get_or_insert(servers);
        }
        first.ok_or_else(|| SkillError::new(ErrorCode::Unavailable, "no skill of the toolset runs code in sessions"))
    }

    /// Puts packages into a session, which begins if there is none.
    async fn put(
        self: Arc<Self>,
        (servers, key): (Arc<Servers>, Key),
        packages: Vec<Package>,
        slot: Arc<Slot>,
    ) -> Result<Added, SkillError> {
        let mut lease = self.take(&key, servers.terms(), Instant::now() + WAIT).await?;
        // It runs no code.
        lease.is_no_call();
        let (mut process, state) = match lease.process.take() {
            Some(process) => (process, State::Kept),
            None => (Arc::clone(&self).start(servers, key.owner.clone(), slot.nice()).await?, State::New),
        };
        let shelf = process.packages.take();
        let Some(mut shelf) = shelf else {
            end(lease, process, state).await;
            let reason = "the session has no place for packages: close it and begin another";
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
                    Ok(Added { state, count })
                }
                false => Err(SkillError::new(ErrorCode::NotFound, "the session was closed during the call")),
            },
            Err(refusal) => {
                end(lease, process, state).await;
                Err(refused(&refusal))
            }
        }
    }
}

/// Leaves a session as it was before the call.
async fn end(lease: Lease<Process>, process: Process, state: State) {
    match state {
        State::Kept => drop(lease.give_back(process, Instant::now())),
        State::New | State::Lost => {
            process.end().await;
            drop(lease);
        }
    }
}

fn refused(refusal: &Refusal) -> SkillError {
    match refusal {
        Refusal::OtherVersion { .. } | Refusal::TooMany | Refusal::TooLarge => {
            SkillError::new(ErrorCode::InvalidArgument, refusal.to_string())
        }
        Refusal::Disk(error) => {
            tracing::warn!(%error, "a package was not linked into a session");
            SkillError::new(
                ErrorCode::ToolInvocationError,
                "the files of the package could not be put into the session",
            )
            .with_retry_after_ms(RETRY_AFTER_MS)
        }
    }
}

/// The pause before a retry after the store removed an entry during the call.
const RETRY_AFTER_MS: u64 = 1000;
