//! Something that is made of files, and made again when they change.
//!
//! All files are read, compared and taken together. A change counts once it was read twice: whoever replaces a certificate
//! and its key one after the other, or writes in place, leaves something for a moment that is neither the old nor the new.
//! What is not valid now, such as an expired certificate, replaces nothing that is.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;

use super::expiry::{Time, Validity};

/// How often the files are read. A change is taken after the second read that finds it.
const INTERVAL: Duration = Duration::from_millis(250);

/// The largest file.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Why files can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}': {reason}", path.display())]
pub struct FileError {
    /// The file that is to blame.
    pub path: PathBuf,
    /// What is wrong with it. Nothing of its content.
    pub reason: String,
}

impl FileError {
    /// An error of this file.
    pub fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }
}

/// What was read, in the order of the files.
pub type Contents = Vec<Vec<u8>>;

/// What was made of files.
pub struct Made<T> {
    /// The value.
    pub value: T,
    /// A line about it for the log. No secrets.
    pub about: String,
    /// When it is valid: each of these must be. Empty: always.
    pub terms: Vec<Term>,
}

/// When the content of a file is valid: whenever one of its parts is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The file.
    pub file: PathBuf,
    /// Its parts, such as the authorities in it. Empty: nothing is known, and it counts as valid.
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

type Make<T> = Box<dyn Fn(&Contents) -> Result<Made<T>, FileError> + Send + Sync>;

/// A value that is made of files.
pub struct Reloaded<T> {
    /// What it is, for the log.
    name: &'static str,
    files: Vec<PathBuf>,
    make: Make<T>,
    current: ArcSwap<T>,
    taken: Mutex<Taken>,
    is_stale: AtomicBool,
}

/// What the value was made of, what it is, and when it is valid.
struct Taken {
    contents: Contents,
    about: String,
    terms: Vec<Term>,
}

/// Why files were not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rejection {
    error: FileError,
    /// Whether the same files may be taken later.
    is_for_now: bool,
}

impl<T> std::fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloaded").field("name", &self.name).field("files", &self.files).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Reloaded<T> {
    /// Reads the files, and makes the value of them. `name` is what the log calls it.
    ///
    /// # Errors
    /// A file can't be read, or they make no valid value.
    pub fn load(
        name: &'static str,
        files: Vec<PathBuf>,
        make: impl Fn(&Contents) -> Result<Made<T>, FileError> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, FileError> {
        let contents = read_all(&files)?;
        let Made { value, about, terms } = make(&contents)?;
        let (current, make) = (ArcSwap::from_pointee(value), Box::new(make));
        let taken = Mutex::new(Taken { contents, about, terms });
        Ok(Arc::new(Self { name, files, make, current, taken, is_stale: AtomicBool::new(false) }))
    }

    /// The value as it is now.
    pub fn current(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Whether the files have something else now that was not taken.
    pub fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Reads the files again and again, until it is dropped. Files that can't be used change nothing, and are logged once.
    pub async fn follow(self: Arc<Self>) {
        tracing::info!(about = self.taken().about, "{}", self.name);
        if let Err(error) = check(&self.taken().terms, now()) {
            tracing::error!(%error, "{} is not valid now", self.name);
        }
        let mut last = Ok(self.taken().contents.clone());
        let (mut before, mut rejection) = (None, None::<Rejection>);
        loop {
            tokio::time::sleep(INTERVAL).await;
            let files = self.files.clone();
            // A file system that hangs must not keep a thread that serves.
            let Ok(read) = tokio::task::spawn_blocking(move || read_all(&files)).await else { continue };
            let is_settled = before.as_ref() == Some(&read);
            before = Some(read.clone());
            let may_be_taken = last != read || rejection.as_ref().is_some_and(|it| it.is_for_now);
            if !is_settled || !may_be_taken {
                continue;
            }
            let permanent = |error| Rejection { error, is_for_now: false };
            let rejected = read.clone().map_err(permanent).and_then(|contents| self.take(contents)).err();
            self.is_stale.store(rejected.is_some(), Ordering::Relaxed);
            match &rejected {
                None => tracing::info!(about = self.taken().about, "{} was read again", self.name),
                Some(Rejection { error, .. }) if last != read || rejection != rejected => {
                    tracing::error!(%error, "{} cannot be used: the one before it stays in use", self.name);
                }
                Some(_) => {}
            }
            (last, rejection) = (read, rejected);
        }
    }

    fn take(&self, contents: Contents) -> Result<(), Rejection> {
        let made = (self.make)(&contents).map_err(|error| Rejection { error, is_for_now: false })?;
        let Made { value, about, terms } = made;
        let (now, mut taken) = (now(), self.taken());
        match check(&terms, now) {
            Err(error) if check(&taken.terms, now).is_ok() => return Err(Rejection { error, is_for_now: true }),
            _ => {}
        }
        self.current.store(Arc::new(value));
        *taken = Taken { contents, about, terms };
        Ok(())
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_all(files: &[PathBuf]) -> Result<Contents, FileError> {
    files.iter().map(|path| read(path).map_err(|reason| FileError::new(path, reason))).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    // Not to block on a pipe.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|error| unreadable(error.into()))?;
    let file = File::from(file);
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut content = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("it has more than {MAX_FILE_BYTES} bytes"));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
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

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn made<T>(value: T) -> Made<T> {
        Made { value, about: String::new(), terms: Vec::new() }
    }

    /// Two files that must be equal.
    fn pair(folder: &Folder) -> Result<Arc<Reloaded<String>>, FileError> {
        let files = vec![folder.write("a", "1"), folder.write("b", "1")];
        let second = files[1].clone();
        Reloaded::load("the pair", files, move |contents| match contents[0] == contents[1] {
            true => Ok(made(String::from_utf8_lossy(&contents[0]).into_owned())),
            false => Err(FileError::new(&second, "it does not match")),
        })
    }

    #[tokio::test]
    async fn a_pair_is_taken_when_both_files_match_and_never_before() {
        let folder = Folder::new("pair");
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
        let folder = Folder::new("unreadable");
        pair(&folder).unwrap();
        for path in [folder.0.join("missing"), folder.0.clone()] {
            let error = Reloaded::load("it", vec![path.clone()], |_| Ok(made(()))).unwrap_err();
            assert_eq!(error.path, path);
        }
    }

    /// A file with the times in which its parts are valid: one that is not valid now replaces none that is.
    #[test]
    fn what_is_not_valid_now_replaces_nothing_that_is() {
        let folder = Folder::new("terms");
        let (path, now) = (folder.write("a", "-9 9"), now());
        let file = path.clone();
        let it = Reloaded::load("it", vec![path], move |contents| {
            let text = String::from_utf8_lossy(&contents[0]).into_owned();
            let times: Vec<_> = text.split(' ').map(|it| Time(now.0 + 60 * it.parse::<i64>().unwrap())).collect();
            let any_of = times.chunks(2).map(|it| Validity { begins: it[0], ends: it[1] }).collect();
            Ok(Made { value: text, about: String::new(), terms: vec![Term { file: file.clone(), any_of }] })
        })
        .unwrap();
        for (text, reason) in [("-9 -5", "expired"), ("5 9", "not valid yet"), ("-9 -5 5 9", "not valid yet")] {
            let rejected = it.take(vec![text.into()]).unwrap_err();
            assert!(rejected.is_for_now && rejected.error.reason.contains(reason), "{text}: {rejected:?}");
            assert_eq!(*it.current(), "-9 9");
        }
        assert_eq!(it.take(vec!["-9 -5 -9 9".into()]), Ok(()), "one part is valid");
        it.taken().terms[0].any_of.truncate(1);
        assert_eq!(it.take(vec!["5 9".into()]), Ok(()), "the one before is expired too");
    }

    #[tokio::test]
    async fn what_is_not_valid_yet_is_taken_when_it_is() {
        let folder = Folder::new("begins");
        let path = folder.write("a", "0");
        let it = Reloaded::load("it", vec![path.clone()], move |contents| {
            let begins = Time(String::from_utf8_lossy(&contents[0]).parse().unwrap());
            let any_of = vec![Validity { begins, ends: Time(i64::MAX) }];
            Ok(Made { value: begins, about: String::new(), terms: vec![Term { file: path.clone(), any_of }] })
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
