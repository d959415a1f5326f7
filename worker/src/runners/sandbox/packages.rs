//! Installs packages for sessions, from a source and an allowlist that the operator configures. No package's code
//! runs outside a jail.
//!
//! ```text
//! request ──> on the list? ──> key ──> known? ── yes ──────────────────────────────────────────┐
//!                                        │ no: one of few turns, and the lock of the key       v
//!                                        └─> fetch (pip) ─> unpack each wheel ─> try imports ─> set of wheels ──> sessions link
//! jailed          jailed              jailed          in the store       the files
//! ```
//!
//! The store is a folder `packages` next to the environments. Workers share it. Entries are published atomically,
//! and removed after a long time without use. It contains wheels, identified by their SHA-256, and sets of wheels,
//! identified by the request.
//!
//! - [`source`]: the index or folder of packages; [`fetch`]: downloads the wheels of a request with pip
//! - [`unpack`]: unpacks a wheel; [`trial`]: tries to import it; [`jailed`]: the processes that do all this
//! - [`record`]: the records in the store; [`work`]: an entry that is being built; [`watch`]: limits its size

use std::collections::HashSet;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::launch::Launcher;
use openskill_telemetry::log::admits;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::config::PythonPackages;
use crate::config::allowed::NONE_ALLOWED;
use crate::runners::python::environments::store::Store;
use crate::sessions::packages::{MOST_PACKAGES, PackageRoot, unguessable};
use crate::skill_jailer::SkillJailer;

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
pub(crate) use jailed::JailedInterpreter;
use jailed::Jails;
use record::{ImportOutcome, Set, Wheel};
use source::PackageSource;
use unpack::Downloaded;
pub(crate) use wanted::{PackageRequest, Provided, Using};
use work::Work;

/// The interval between cleanups of the store.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);

/// Installs packages in a worker's sessions.
pub(super) struct Packages {
    settings: PythonPackages,
    jails: Jails,
    turns: Semaphore,
    queue: Semaphore,
    open_store: Mutex<Option<OpenStore>>,
    cleaned: Mutex<Option<Instant>>,
}

/// The store, which the worker keeps open while it lives.
struct OpenStore {
    store: Store,
    key: String,
    /// The folder with the packages of this worker's sessions.
    folder: PathBuf,
    lock: Arc<File>,
}

impl Packages {
    pub(super) fn new(settings: PythonPackages, jailer: SkillJailer, launcher: Launcher) -> Self {
        Self {
            settings,
            jails: Jails { jailer, launcher },
            turns: Semaphore::new(MOST_AT_ONCE),
            queue: Semaphore::new(MOST_AT_ONCE + MOST_WAITING),
            open_store: Mutex::default(),
            cleaned: Mutex::default(),
        }
    }

    /// Checks whether this worker installs packages.
    ///
    /// # Errors
    /// If it does not, returns what an operator has to configure.
    pub(super) fn admit(&self) -> Result<(), String> {
        self.source().map(drop)
    }

    fn source(&self) -> Result<PackageSource, String> {
        if self.settings.for_sessions.is_empty() {
            return Err(NONE_ALLOWED.to_owned());
        }
        if self.settings.store.is_none() {
            return Err("this worker has no directory for packages: set OPENSKILL_PYTHON_ENVIRONMENTS".to_owned());
        }
        PackageSource::from_settings(&self.settings)
    }

    /// Creates a folder for the sessions of a new fork server. Returns `None` if this worker does not install
    /// packages.
    pub(super) fn place(&self) -> Option<Arc<PackageRoot>> {
        self.admit().ok()?;
        let made = self.with_store(|it| PackageRoot::make(&it.folder, Arc::clone(&it.lock)));
        if let Err(error) = &made
            && admits("the package directory of sessions can't be created")
        {
            tracing::warn!(%error, "the package directory of sessions can't be created (OPENSKILL_PYTHON_ENVIRONMENTS)");
        }
        made.ok()
    }

    /// Installs the requested package and its dependencies into the store. Returns the requested package first.
    /// Dropping the future stops the installation.
    ///
    /// # Errors
    /// Fails if the package is not allowed, does not exist, or can't be installed. A failed installation leaves
    /// nothing behind.
    pub(super) async fn provide(
        &self,
        request: &PackageRequest,
        using: Using<'_>,
    ) -> Result<Vec<Provided>, SkillError> {
        let source = self.source().map_err(unable)?;
        self.check(&request.name)?;
        let store = self.with_store(|it| Ok(it.store.clone())).map_err(|error| storage(&error))?;
        let allowed = self.settings.for_sessions.text();
        let PackageRequest { name, version } = request;
        let interpreters = [using.installer, using.of_sessions].map(|it| it.interpreter);
        let key = record::key(name, version.as_deref(), interpreters, &source.text(), &allowed);
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
                    None => self.install(request, &source, &using, &store, &work).await?,
                }
            }
        };
        let mut all: Vec<_> =
            found.into_iter().map(|(wheel, outcome)| describe_package(request, &store, wheel, outcome)).collect();
        all.sort_by_key(|it| (!it.requested, it.package.name.clone()));
        Ok(all)
    }

    /// Rejects a package that is not on the allowlist.
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
        request: &PackageRequest,
        source: &PackageSource,
        using: &Using<'_>,
        store: &Store,
        work: &Arc<Work>,
    ) -> Result<Vec<(Wheel, ImportOutcome)>, SkillError> {
        let Using { installer, of_sessions, .. } = *using;
        // Calls for the same package wait for its lock without taking a turn.
        let _turn = self.turns.acquire().await.map_err(|_| SkillError::unavailable("the worker is shutting down"))?;
        let begun = Instant::now();
        let trimmed = store.clone();
        on_disk(move || trim(&trimmed)).await?;
        let constraints = self.settings.for_sessions.constraints();
        let fetch = Fetch { request, source, constraints, python: installer };
        let files = fetch.run(&self.jails, work).await?;
        let downloaded = on_disk(move || files.into_iter().map(adopt).collect::<io::Result<Vec<_>>>()).await?;
        self.check_all(request, &downloaded)?;
        let mut wheels = Vec::new();
        for it in &downloaded {
            wheels.push(self.store_wheel(installer, it, store, work).await?);
        }
        let found = trial::try_imports(&self.jails, of_sessions, store, &wheels, work).await?;
        let all: Vec<_> = wheels.into_iter().zip(found.clone()).collect();
        // An import may have failed for lack of time or memory, so the next request tries again.
        if found.iter().any(|it| it.fault.is_some()) {
            return Ok(all);
        }
        let publishing = Arc::clone(work);
        on_disk(move || {
            std::fs::remove_dir_all(publishing.folder().join("download"))?;
            publishing.publish(&Set::new(found))
        })
        .await?;
        let (package, seconds) = (&request.name, begun.elapsed().as_secs_f64());
        tracing::info!(package, wheels = all.len(), seconds, "installed a package for sessions");
        Ok(all)
    }

    /// Checks downloaded packages against the allowlist and the limits.
    fn check_all(&self, request: &PackageRequest, downloaded: &[Downloaded]) -> Result<(), SkillError> {
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

    /// Unpacks a wheel into the store.
    async fn store_wheel(
        &self,
        python: JailedInterpreter<'_>,
        wheel: &Downloaded,
        store: &Store,
        work: &Arc<Work>,
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
        let unpacked = unpack::unpack(&self.jails, python, wheel, [&entry, work]).await?;
        on_disk(move || entry.publish(&unpacked).map(|_| unpacked)).await
    }

    /// If a cleanup is due, removes the remains of killed workers and unused entries from the store, in the
    /// background.
    pub(super) fn maintain(&self, runtime: &tokio::runtime::Handle) {
        if self.admit().is_err() {
            return;
        }
        let mut cleaned = self.cleaned.lock();
        if cleaned.is_some_and(|it| it.elapsed() < CLEAN_EVERY) {
            return;
        }
        *cleaned = Some(Instant::now());
        let (opened, keep) = (self.with_store(|it| Ok(it.store.clone())), self.settings.keep);
        runtime.spawn_blocking(move || {
            let clean = |store: Store| {
                let left = store.sweep()?;
                let old = keep.map_or(Ok(0), |keep| store.clean(keep, &HashSet::new()))?;
                Ok::<_, io::Error>(left + old + trim(&store)?)
            };
            match opened.and_then(clean) {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed unused packages of sessions"),
                Err(error) => tracing::warn!(%error, "the packages of sessions could not be cleaned up"),
            }
        });
    }

    /// Removes what only this worker used. Blocks on the disk.
    pub(super) fn close(&self) {
        let own = self.open_store.lock().take();
        if let Some(own) = own
            && let Err(error) = own.store.remove_own(&own.key)
        {
            tracing::debug!(%error, "the packages of sessions were not removed: the next worker that starts removes them");
        }
    }

    fn with_store<T>(&self, use_it: impl FnOnce(&OpenStore) -> io::Result<T>) -> io::Result<T> {
        let mut own = self.open_store.lock();
        if let Some(own) = own.as_ref() {
            return use_it(own);
        }
        let above = self.settings.store.as_ref().ok_or(io::ErrorKind::NotFound)?;
        // The parent folder must be protected from other writers, too.
        Store::open(above)?;
        let store = Store::open(&above.canonicalize()?.join("packages"))?;
        let key = unguessable();
        let lock = Arc::new(store.lock(&key)?.ok_or(io::ErrorKind::AlreadyExists)?);
        let folder = store.make_own(&key)?;
        use_it(own.insert(OpenStore { store, key, folder, lock }))
    }
}

/// Removes the least recently used entries that exceed the store's limits. Blocks on the disk.
fn trim(store: &Store) -> io::Result<usize> {
    store.trim(MOST_ENTRIES, MOST_BYTES, |key| record::bytes(store, key))
}

fn describe_package(request: &PackageRequest, store: &Store, wheel: Wheel, outcome: ImportOutcome) -> Provided {
    Provided {
        requested: wheel.name == request.name,
        has_modules: !wheel.modules.is_empty(),
        left_out: wheel.left_out,
        package: wheel.package(store),
        fault: outcome.fault,
    }
}

/// Checks a file that a jailed process downloaded, and makes the worker its owner. Blocks on the disk.
fn adopt(file: PathBuf) -> io::Result<Downloaded> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the downloaded file is not a wheel");
    let about = std::fs::symlink_metadata(&file)?;
    let (name, version) = unpack::parse_file_name(&file)
        .filter(|_| about.is_file() && about.len() <= MAX_WHEEL_BYTES)
        .ok_or_else(wrong)?;
    if rustix::process::geteuid().is_root() {
        lchown(&file, Some(0), None)?;
    }
    std::fs::set_permissions(&file, Permissions::from_mode(0o444))?;
    let sha256 = record::digest(Path::new(&file))?;
    Ok(Downloaded { file, name, version, sha256 })
}
