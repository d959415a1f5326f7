//! A value that is loaded from files, and reloaded when they change.
//!
//! All files are read, compared and used together. Files that are invalid now, such as an expired certificate, do
//! not replace valid ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::expiry::{Time, Validity};
use crate::file_watcher::{FileWatcher, INTERVAL, read_file};

/// The maximum file size, in bytes.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Why files are unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}': {reason}", path.display())]
pub struct FileError {
    /// The unusable file.
    pub path: PathBuf,
    /// The problem, without content of the file.
    pub reason: String,
}

impl FileError {
    /// Creates an error for this file.
    pub fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }
}

/// The file contents, in the order of their paths.
pub type Contents = Vec<Vec<u8>>;

/// A value loaded from files.
pub struct Loaded<T> {
    /// The parsed content of the files.
    pub value: T,
    /// A line for the log, without secrets.
    pub description: String,
    /// Its periods of validity. The value is valid while all terms are valid. An empty list never expires.
    pub terms: Vec<Term>,
}

/// The validity of a file: it is valid while at least one of its parts is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The path of the file.
    pub file: PathBuf,
    /// The validity of the file's parts, such as its authorities. An empty list means that the validity is unknown
    /// and the file counts as valid.
    pub any_of: Vec<Validity>,
}

impl Term {
    fn check(&self, now: Time) -> Result<(), FileError> {
        let Some(last) = self.any_of.iter().max_by_key(|it| it.ends) else { return Ok(()) };
        if self.any_of.iter().any(|it| it.contains(now)) {
            return Ok(());
        }
        let what = if now < last.begins { "not valid yet" } else { "expired" };
        Err(FileError::new(&self.file, format!("it is {what}: it is valid from {} to {}", last.begins, last.ends)))
    }
}

pub(super) fn check(terms: &[Term], now: Time) -> Result<(), FileError> {
    terms.iter().try_for_each(|term| term.check(now))
}

pub(super) fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64)
}

type Make<T> = Box<dyn Fn(&Contents) -> Result<Loaded<T>, FileError> + Send + Sync>;

/// A value that reloads when its files change.
pub struct Reloadable<T> {
    /// The name of the value, for the log.
    name: &'static str,
    files: Vec<PathBuf>,
    make: Make<T>,
    current: ArcSwap<T>,
    active: Mutex<ActiveFiles>,
    is_stale: AtomicBool,
}

/// The files of the current value, its description, and its validity.
struct ActiveFiles {
    contents: Contents,
    description: String,
    terms: Vec<Term>,
}

/// Why the changed files are not used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rejection {
    error: FileError,
    /// Whether the same files may become usable later.
    is_temporary: bool,
}

impl<T> std::fmt::Debug for Reloadable<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloadable").field("name", &self.name).field("files", &self.files).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Reloadable<T> {
    /// Loads a value from the files. The log calls it `name`.
    ///
    /// # Errors
    /// A file is unreadable, or the files form no valid value.
    pub fn load(
        name: &'static str,
        files: Vec<PathBuf>,
        make: impl Fn(&Contents) -> Result<Loaded<T>, FileError> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, FileError> {
        let contents = read_all(&files)?;
        let Loaded { value, description, terms } = make(&contents)?;
        let (current, make) = (ArcSwap::from_pointee(value), Box::new(make));
        let active = Mutex::new(ActiveFiles { contents, description, terms });
        Ok(Arc::new(Self { name, files, make, current, active, is_stale: AtomicBool::new(false) }))
    }

    /// Returns the current value.
    pub fn current(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Whether the files have changed since they were loaded, but are unusable.
    pub fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Polls the files until the future is dropped. Ignores unusable files and logs each problem once.
    pub async fn follow(self: Arc<Self>) {
        tracing::info!(about = self.active.lock().description, "{} was loaded", self.name);
        if let Err(error) = check(&self.active.lock().terms, now()) {
            tracing::error!(%error, "{} is not valid now", self.name);
        }
        let (files, mut latest) = (self.files.clone(), Ok(self.active.lock().contents.clone()));
        let mut watcher = FileWatcher::new(Some(latest.clone()), move || read_all(&files));
        let mut rejection = None::<Rejection>;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let change = watcher.poll_change().await;
            let has_changed = change.is_some();
            // Files that are not valid yet are retried.
            if !has_changed && !rejection.as_ref().is_some_and(|it| it.is_temporary) {
                continue;
            }
            latest = change.unwrap_or(latest);
            let permanent = |error| Rejection { error, is_temporary: false };
            let rejected = latest.clone().map_err(permanent).and_then(|contents| self.take(contents)).err();
            self.is_stale.store(rejected.is_some(), Ordering::Relaxed);
            match &rejected {
                None => tracing::info!(about = self.active.lock().description, "{} was reloaded", self.name),
                Some(Rejection { error, .. }) if has_changed || rejection != rejected => {
                    tracing::error!(%error, "{} cannot be used: the previous one stays in use", self.name);
                }
                Some(_) => {}
            }
            rejection = rejected;
        }
    }

    fn take(&self, contents: Contents) -> Result<(), Rejection> {
        let made = (self.make)(&contents).map_err(|error| Rejection { error, is_temporary: false })?;
        let Loaded { value, description, terms } = made;
        let (now, mut active) = (now(), self.active.lock());
        match check(&terms, now) {
            Err(error) if check(&active.terms, now).is_ok() => return Err(Rejection { error, is_temporary: true }),
            _ => {}
        }
        self.current.store(Arc::new(value));
        *active = ActiveFiles { contents, description, terms };
        Ok(())
    }
}

fn read_all(files: &[PathBuf]) -> Result<Contents, FileError> {
    let read = |path: &PathBuf| {
        read_file(path, MAX_FILE_BYTES).map_err(|error| FileError::new(path, format!("it cannot be read: {error}")))
    };
    files.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TempFolder(PathBuf);

    impl TempFolder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("openskill-reload-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for TempFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn made<T>(value: T) -> Loaded<T> {
        Loaded { value, description: String::new(), terms: Vec::new() }
    }

    /// Loads two files that must be equal.
    fn pair(folder: &TempFolder) -> Result<Arc<Reloadable<String>>, FileError> {
        let files = vec![folder.write("a", "1"), folder.write("b", "1")];
        let second = files[1].clone();
        Reloadable::load("the pair", files, move |contents| match contents[0] == contents[1] {
            true => Ok(made(String::from_utf8_lossy(&contents[0]).into_owned())),
            false => Err(FileError::new(&second, "it does not match")),
        })
    }

    #[tokio::test]
    async fn a_pair_is_taken_when_both_files_match_and_never_before() {
        let folder = TempFolder::new("pair");
        let pair = pair(&folder).unwrap();
        let following = tokio::spawn(Arc::clone(&pair).follow());
        folder.write("a", "2");
        for _ in 0..4 {
            tokio::time::sleep(INTERVAL).await;
            assert_eq!(*pair.current(), "1");
        }
        folder.write("b", "2");
        let taken = async {
            while *pair.current() != "2" {
                tokio::time::sleep(INTERVAL / 10).await;
            }
        };
        tokio::time::timeout(20 * INTERVAL, taken).await.unwrap();
        following.abort();
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = TempFolder::new("unreadable");
        pair(&folder).unwrap();
        for path in [folder.0.join("missing"), folder.0.clone()] {
            let error = Reloadable::load("it", vec![path.clone()], |_| Ok(made(()))).unwrap_err();
            assert_eq!(error.path, path);
        }
    }

    /// Tests a file whose parts have limited validity: an invalid file must not replace a valid one.
    #[test]
    fn what_is_not_valid_now_replaces_nothing_that_is() {
        let folder = TempFolder::new("terms");
        let (path, now) = (folder.write("a", "-9 9"), now());
        let file = path.clone();
        let it = Reloadable::load("it", vec![path], move |contents| {
            let text = String::from_utf8_lossy(&contents[0]).into_owned();
            let times: Vec<_> = text.split(' ').map(|it| Time(now.0 + 60 * it.parse::<i64>().unwrap())).collect();
            let any_of = times.chunks(2).map(|it| Validity { begins: it[0], ends: it[1] }).collect();
            Ok(Loaded { value: text, description: String::new(), terms: vec![Term { file: file.clone(), any_of }] })
        })
        .unwrap();
        for (text, reason) in [("-9 -5", "expired"), ("5 9", "not valid yet"), ("-9 -5 5 9", "not valid yet")] {
            let rejected = it.take(vec![text.into()]).unwrap_err();
            assert!(rejected.is_temporary && rejected.error.reason.contains(reason), "{text}: {rejected:?}");
            assert_eq!(*it.current(), "-9 9");
        }
        assert_eq!(it.take(vec!["-9 -5 -9 9".into()]), Ok(()), "one part is valid");
        it.active.lock().terms[0].any_of.truncate(1);
        assert_eq!(it.take(vec!["5 9".into()]), Ok(()), "the one before is expired too");
    }

    #[tokio::test]
    async fn what_is_not_valid_yet_is_taken_when_it_is() {
        let folder = TempFolder::new("begins");
        let path = folder.write("a", "0");
        let it = Reloadable::load("it", vec![path.clone()], move |contents| {
            let begins = Time(String::from_utf8_lossy(&contents[0]).parse().unwrap());
            let any_of = vec![Validity { begins, ends: Time(i64::MAX) }];
            Ok(Loaded { value: begins, description: String::new(), terms: vec![Term { file: path.clone(), any_of }] })
        })
        .unwrap();
        let following = tokio::spawn(Arc::clone(&it).follow());
        let begins = Time(now().0 + 3);
        folder.write("a", &begins.0.to_string());
        let until = async |is_reached: &dyn Fn() -> bool| {
            while !is_reached() {
                tokio::time::sleep(INTERVAL / 10).await;
            }
        };
        let taken = async {
            until(&|| it.is_stale()).await;
            assert_eq!(*it.current(), Time(0));
            until(&|| *it.current() == begins && !it.is_stale()).await;
            assert!(now() >= begins);
        };
        tokio::time::timeout(40 * INTERVAL, taken).await.unwrap();
        following.abort();
    }
}
