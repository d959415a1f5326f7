//! Installs packages for sessions: from a source and a list that the operator sets, without code of a package running outside
//! of a jail.
//!
//! ```text
//! request ──> on the list? ──> key ──> known? ── yes ──────────────────────────────────────────┐
//!                                        │ no: one of few turns, and the lock of the key       v
//!                                        └─> fetch (pip) ─> unpack each wheel ─> try imports ─> set of wheels ──> sessions link
//!                                             jailed          jailed              jailed          in the store       the files
//! ```
//!
//! The store is a folder `packages` beside the environments, whose entries are published in one step, shared by workers, and
//! removed when nobody used them for long: wheels by their SHA-256, and sets of them by what was asked for.
//!
//! - [`source`]: where packages come from; [`fetch`]: the wheels of a request, by pip
//! - [`unpack`]: from a wheel to its files; [`trial`]: whether it imports; [`jailed`]: the processes that do all this
//! - [`record`]: what the store says; [`work`]: an entry that is being built; [`watch`]: how large it may get

use std::collections::HashSet;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openskill_log::admits;
use openskill_proto::v1::{ErrorCode, SkillError};
use tokio::sync::Semaphore;

use crate::config::PythonPackages;
use crate::manifest::Manifest;
use crate::process::jail::jailer::Jailer;
use crate::process::launch::Launcher;
use crate::runners::python::environments::store::Store;
use crate::runners::python::interpreter::Interpreter;
use crate::sessions::allowed::NONE_ALLOWED;
use crate::sessions::packages::{MOST_PACKAGES, Place, unguessable};

mod bounds;
mod fetch;
mod jailed;
mod record;
mod source;
mod trial;
mod unpack;
mod wanted;
mod watch;
mod work;

pub(super) use bounds::unable;
use bounds::{MAX_WHEEL_BYTES, MOST_AT_ONCE, MOST_BYTES, MOST_ENTRIES, MOST_WAITING, on_disk, storage, unfit};
use fetch::Fetch;
use jailed::Jails;
use record::{Found, Set, Wheel};
use source::Source;
use unpack::Downloaded;
pub(crate) use wanted::{Provided, Request, Using};
use work::Work;

/// How often the store is cleaned.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);

/// What installs packages in the sessions of a worker.
pub(super) struct Packages {
    settings: PythonPackages,
    jails: Jails,
    turns: Semaphore,
    queue: Semaphore,
    own: Mutex<Option<Own>>,
    cleaned: Mutex<Option<Instant>>,
}

/// What a worker has of the store while it lives.
struct Own {
    store: Store,
    key: String,
    /// The folder with the packages of its sessions.
    folder: PathBuf,
    lock: Arc<File>,
}

impl Packages {
    pub(super) fn new(settings: PythonPackages, jailer: Jailer, launcher: Launcher) -> Self {
        Self {
            settings,
            jails: Jails { jailer, launcher },
            turns: Semaphore::new(MOST_AT_ONCE),
            queue: Semaphore::new(MOST_AT_ONCE + MOST_WAITING),
            own: Mutex::default(),
            cleaned: Mutex::default(),
        }
    }

    /// Whether this worker installs packages.
    ///
    /// # Errors
    /// It does not: what an operator has to set.
    pub(super) fn admit(&self) -> Result<(), String> {
        self.source().map(drop)
    }

    fn source(&self) -> Result<Source, String> {
        if self.settings.for_sessions.is_empty() {
            return Err(NONE_ALLOWED.to_owned());
        }
        if self.settings.store.is_none() {
            return Err("this worker has no place for packages: set OPENSKILL_PYTHON_ENVIRONMENTS".to_owned());
        }
        Source::of(&self.settings)
    }

    /// A folder for the sessions of a new fork server. None: this worker installs nothing.
    pub(super) fn place(&self) -> Option<Arc<Place>> {
        self.admit().ok()?;
        let made = self.with_own(|own| Place::make(&own.folder, Arc::clone(&own.lock)));
        if let Err(error) = &made
            && admits("no place for the packages of sessions")
        {
            tracing::warn!(%error, "there is no place for the packages of sessions (OPENSKILL_PYTHON_ENVIRONMENTS)");
        }
        made.ok()
    }

    /// Has the package of a request, and all that it needs, in the store. The one that was asked for comes first. Dropping the
    /// future ends the installation.
    ///
    /// # Errors
    /// It is not allowed, not there, or can't be installed. Nothing of it is left.
    pub(super) async fn provide(&self, request: &Request, using: Using<'_>) -> Result<Vec<Provided>, SkillError> {
        let source = self.source().map_err(unable)?;
        self.check(&request.name)?;
        let store = self.with_own(|own| Ok(own.store.clone())).map_err(|error| storage(&error))?;
        let allowed = self.settings.for_sessions.text();
        let Request { name, version } = request;
        let key =
            record::key((name, version.as_deref()), (using.installer, using.of_sessions), &source.text(), &allowed);
        let known = async || {
            let (store, key, exact) = (store.clone(), key.clone(), version.is_some());
            on_disk(move || Ok(Set::find(&store, &key, exact))).await
        };
        let found = match known().await? {
            Some(found) => found,
            None => {
                let full = |_| SkillError::overloaded("too many packages are being installed on this worker");
                let _waiting = self.queue.try_acquire().map_err(full)?;
                let slot = Some(Arc::clone(&using.slot));
                let work = Work::begin(&store, &key, slot).await.map_err(|error| storage(&error))?;
                match known().await? {
                    Some(found) => found,
                    None => self.install(request, &source, &using, (&store, &work)).await?,
                }
            }
        };
        let mut all: Vec<_> = found.into_iter().map(|it| provided(request, &store, it)).collect();
        all.sort_by_key(|it| (!it.requested, it.package.name.clone()));
        Ok(all)
    }

    /// Refuses a package that is not on the list.
    fn check(&self, name: &str) -> Result<(), SkillError> {
        let list = &self.settings.for_sessions;
        if list.has(name) {
            return Ok(());
        }
        let near = list.nearest(name).map_or_else(String::new, |near| {
            format!(
                ". It resembles '{near}', which is allowed: check the spelling, as names like this are also used for forgeries"
            )
        });
        let message = format!("the package '{name}' is not allowed here (OPENSKILL_SESSION_PACKAGES){near}");
        Err(SkillError::new(ErrorCode::PermissionDenied, message))
    }

    async fn install(
        &self,
        request: &Request,
        source: &Source,
        using: &Using<'_>,
        (store, work): (&Store, &Arc<Work>),
    ) -> Result<Vec<(Wheel, Found)>, SkillError> {
        let Using { installer, of_sessions, manifests: (own, of_session), .. } = *using;
        // Those that wait for the same package wait for its lock, and take no turn.
        let _turn = self.turns.acquire().await.map_err(|_| SkillError::unavailable("the worker is shutting down"))?;
        let begun = Instant::now();
        let trimmed = store.clone();
        on_disk(move || trim(&trimmed)).await?;
        let constraints = self.settings.for_sessions.constraints();
        let fetch = Fetch { request, source, constraints, interpreter: installer, limits_of: own };
        let files = fetch.run(&self.jails, work).await?;
        let downloaded = on_disk(move || files.into_iter().map(looked_at).collect::<io::Result<Vec<_>>>()).await?;
        self.check_all(request, &downloaded)?;
        let mut wheels = Vec::new();
        for it in &downloaded {
            wheels.push(self.stored((installer, own), it, (store, work)).await?);
        }
        let found = trial::tried(&self.jails, (of_sessions, of_session), (store, &wheels), work).await?;
        let all: Vec<_> = wheels.into_iter().zip(found.clone()).collect();
        // A failed import may have lacked time or memory, so the next request tries it again.
        if found.iter().any(|it| it.fault.is_some()) {
            return Ok(all);
        }
        let record = serde_json::to_string(&Set::new(found)).map_err(|error| storage(&io::Error::other(error)))?;
        let publishing = Arc::clone(work);
        on_disk(move || {
            std::fs::remove_dir_all(publishing.folder().join("download"))?;
            publishing.publish(&record)
        })
        .await?;
        let (package, seconds) = (&request.name, begun.elapsed().as_secs_f64());
        tracing::info!(package, wheels = all.len(), seconds, "installed a package for sessions");
        Ok(all)
    }

    /// Holds what was downloaded to the list and the limits.
    fn check_all(&self, request: &Request, downloaded: &[Downloaded]) -> Result<(), SkillError> {
        if downloaded.len() > MOST_PACKAGES {
            let message = format!("'{}' needs more than {MOST_PACKAGES} packages: it is not installed", request.name);
            return Err(unfit(message));
        }
        let names: HashSet<&str> = downloaded.iter().map(|it| it.name.as_str()).collect();
        let list = &self.settings.for_sessions;
        let mut refused: Vec<_> = names.into_iter().filter(|it| !list.has(it)).collect();
        if refused.is_empty() {
            return Ok(());
        }
        refused.sort_unstable();
        let message = format!(
            "'{}' is not installed: it needs packages that are not allowed here (OPENSKILL_SESSION_PACKAGES): {}",
            request.name,
            refused.join(", ")
        );
        Err(SkillError::new(ErrorCode::PermissionDenied, message))
    }

    /// Has a wheel in the store.
    async fn stored(
        &self,
        used: (&Interpreter, &Manifest),
        wheel: &Downloaded,
        (store, work): (&Store, &Arc<Work>),
    ) -> Result<Wheel, SkillError> {
        let known = async || {
            let (store, key) = (store.clone(), wheel.sha256.clone());
            on_disk(move || Ok(record::wheel(&store, &key))).await
        };
        if let Some(known) = known().await? {
            return Ok(known);
        }
        let entry = Work::begin(store, &wheel.sha256, None).await.map_err(|error| storage(&error))?;
        if let Some(known) = known().await? {
            return Ok(known);
        }
        let unpacked = unpack::unpack(&self.jails, used, wheel, [&entry, work]).await?;
        let record = serde_json::to_string(&unpacked).map_err(|error| storage(&io::Error::other(error)))?;
        on_disk(move || entry.publish(&record)).await?;
        Ok(unpacked)
    }

    /// Removes from the store what killed workers left and what nobody uses, now and then, in the background.
    pub(super) fn tend(&self, runtime: &tokio::runtime::Handle) {
        if self.admit().is_err() {
            return;
        }
        let mut cleaned = self.cleaned.lock().unwrap_or_else(PoisonError::into_inner);
        if cleaned.is_some_and(|it| it.elapsed() < CLEAN_EVERY) {
            return;
        }
        *cleaned = Some(Instant::now());
        let (opened, keep) = (self.with_own(|own| Ok(own.store.clone())), self.settings.keep);
        runtime.spawn_blocking(move || {
            let clean = |store: Store| {
                let left = store.sweep()?;
                let old = keep.map_or(Ok(0), |keep| store.clean(keep, &HashSet::new()))?;
                Ok::<_, io::Error>(left + old + trim(&store)?)
            };
            match opened.and_then(clean) {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed packages of sessions that nobody used"),
                Err(error) => tracing::warn!(%error, "the packages of sessions could not be cleaned up"),
            }
        });
    }

    /// Removes what only this worker used. Blocks on the disk.
    pub(super) fn close(&self) {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(own) = own
            && let Err(error) = own.store.remove_own(&own.key)
        {
            tracing::debug!(%error, "the packages of sessions were not removed: the next worker that starts does");
        }
    }

    fn with_own<T>(&self, use_it: impl FnOnce(&Own) -> io::Result<T>) -> io::Result<T> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = own.as_ref() {
            return use_it(own);
        }
        let above = self.settings.store.as_ref().ok_or(io::ErrorKind::NotFound)?;
        // The parent folder must be as safe from other writers.
        Store::open(above)?;
        let store = Store::open(&above.canonicalize()?.join("packages"))?;
        let key = unguessable();
        let lock = Arc::new(store.lock(&key)?.ok_or(io::ErrorKind::AlreadyExists)?);
        let folder = store.make_own(&key)?;
        use_it(own.insert(Own { store, key, folder, lock }))
    }
}

/// Removes the least recently used entries beyond the bounds of the store. Blocks on the disk.
fn trim(store: &Store) -> io::Result<usize> {
    store.trim(MOST_ENTRIES, MOST_BYTES, |key| record::bytes(store, key))
}

fn provided(request: &Request, store: &Store, (wheel, found): (Wheel, Found)) -> Provided {
    Provided {
        requested: wheel.name == request.name,
        has_modules: !wheel.modules.is_empty(),
        left_out: wheel.left_out,
        package: wheel.package(store),
        fault: found.fault,
    }
}

/// Looks at a file that a jailed process downloaded, and makes it the worker's. Blocks on the disk.
fn looked_at(file: PathBuf) -> io::Result<Downloaded> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "what was downloaded is no wheel");
    let about = std::fs::symlink_metadata(&file)?;
    let (name, version) =
        unpack::named(&file).filter(|_| about.is_file() && about.len() <= MAX_WHEEL_BYTES).ok_or_else(wrong)?;
    if rustix::process::geteuid().is_root() {
        lchown(&file, Some(0), None)?;
    }
    std::fs::set_permissions(&file, Permissions::from_mode(0o444))?;
    let sha256 = record::digest(Path::new(&file))?;
    Ok(Downloaded { file, name, version, sha256 })
}
