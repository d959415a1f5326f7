//! Something that is made of files, and made again when they change.
//!
//! All files are read, compared and taken together. A change counts once it was read twice: whoever replaces a certificate
//! and its key one after the other, or writes in place, leaves something for a moment that is neither the old nor the new.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

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

/// What was made of files, and a line about it for the log.
pub struct Made<T> {
    /// The value.
    pub value: T,
    /// What it is. No secrets.
    pub about: String,
}

type Make<T> = Box<dyn Fn(&Contents) -> Result<Made<T>, FileError> + Send + Sync>;

/// A value that is made of files.
pub struct Reloaded<T> {
    /// What it is, for the log.
    name: &'static str,
    files: Vec<PathBuf>,
    make: Make<T>,
    current: ArcSwap<T>,
    /// What it was made of.
    taken: Mutex<Contents>,
    about: Mutex<String>,
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
        let Made { value, about } = make(&contents)?;
        let (current, make) = (ArcSwap::from_pointee(value), Box::new(make));
        Ok(Arc::new(Self { name, files, make, current, taken: Mutex::new(contents), about: Mutex::new(about) }))
    }

    /// The value as it is now.
    pub fn current(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Reads the files again and again, until it is dropped. Files that can't be used change nothing, and are logged once.
    pub async fn follow(self: Arc<Self>) {
        tracing::info!(about = self.about(), "{}", self.name);
        let mut last = Ok(self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let mut before = None;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let files = self.files.clone();
            // A file system that hangs must not keep a thread that serves.
            let Ok(read) = tokio::task::spawn_blocking(move || read_all(&files)).await else { continue };
            let is_settled = before.as_ref() == Some(&read);
            before = Some(read.clone());
            if !is_settled || last == read {
                continue;
            }
            match read.clone().and_then(|contents| self.take(contents)) {
                Ok(()) => tracing::info!(about = self.about(), "{} was read again", self.name),
                Err(error) => {
                    tracing::error!(%error, "{} cannot be used: the one before it stays in use", self.name);
                }
            }
            last = read;
        }
    }

    fn take(&self, contents: Contents) -> Result<(), FileError> {
        let Made { value, about } = (self.make)(&contents)?;
        self.current.store(Arc::new(value));
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = contents;
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) = about;
        Ok(())
    }

    fn about(&self) -> String {
        self.about.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

    /// Two files that must be equal.
    fn pair(folder: &Folder) -> Result<Arc<Reloaded<String>>, FileError> {
        let files = vec![folder.write("a", "1"), folder.write("b", "1")];
        let second = files[1].clone();
        Reloaded::load("the pair", files, move |contents| match contents[0] == contents[1] {
            true => Ok(Made { value: String::from_utf8_lossy(&contents[0]).into_owned(), about: String::new() }),
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
            let error =
                Reloaded::load("it", vec![path.clone()], |_| Ok(Made { value: (), about: String::new() })).unwrap_err();
            assert_eq!(error.path, path);
        }
    }
}
