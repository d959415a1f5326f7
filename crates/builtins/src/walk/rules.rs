//! The rules of `.gitignore` and `.ignore` files, matched with the crate that `rg` uses.

use std::io::Read as _;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::super::paths::{PathKind, kind_at, open};

/// The maximum size of an ignore file, in bytes.
const MAX_RULES_BYTES: u64 = 256 * 1024;

/// The rules of a folder and its ancestors, up to the allowed root.
#[derive(Debug)]
pub(super) struct Rules {
    above: Option<Arc<Self>>,
    /// The length of the folder's path in bytes, including the trailing slash.
    prefix: usize,
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
    /// Whether this folder contains `.git`. If so, `.gitignore` files above it do not apply.
    has_git: bool,
}

impl Rules {
    fn none() -> Arc<Self> {
        Arc::new(Self { above: None, prefix: 0, ignore: None, gitignore: None, has_git: false })
    }

    /// Reads the rules of the ancestors of `folder`, which the walk does not visit.
    pub(super) fn above(root: BorrowedFd<'_>, folder: &Path) -> Arc<Self> {
        let mut above: Vec<&Path> = folder.ancestors().skip(1).collect();
        above.reverse();
        above.into_iter().fold(Self::none(), |rules, path| {
            let has = |name: &str| kind_at(root, &path.join(name)).is_ok();
            Self::for_folder(root, path, &rules, has)
        })
    }

    /// Reads the rules of a folder. `has` tells whether the folder contains a file with this name.
    pub(super) fn for_folder(
        root: BorrowedFd<'_>,
        folder: &Path,
        above: &Arc<Self>,
        has: impl Fn(&str) -> bool,
    ) -> Arc<Self> {
        let read = |name: &str| has(name).then(|| read(root, &folder.join(name))).flatten();
        let (ignore, gitignore, has_git) = (read(".ignore"), read(".gitignore"), has(".git"));
        if ignore.is_none() && gitignore.is_none() && !has_git {
            return Arc::clone(above);
        }
        let bytes = folder.as_os_str().len();
        let prefix = if bytes == 0 { 0 } else { bytes + 1 };
        Arc::new(Self { above: Some(Arc::clone(above)), prefix, ignore, gitignore, has_git })
    }

    /// Returns whether a path relative to the allowed root is ignored, or `None` if no rule matches. Rules of the
    /// nearest folder take precedence, and `.ignore` takes precedence over `.gitignore`.
    pub(super) fn is_ignored(&self, path: &Path, is_folder: bool) -> Option<bool> {
        let (mut by_ignore, mut by_gitignore, mut same_repository) = (None, None, true);
        let mut next = Some(self);
        while let Some(rules) = next {
            let from_here = from(path, rules.prefix);
            let matched = |rules: &Option<Gitignore>| {
                let found = rules.as_ref()?.matched(from_here, is_folder);
                (!found.is_none()).then(|| found.is_ignore())
            };
            by_ignore = by_ignore.or_else(|| matched(&rules.ignore));
            if same_repository {
                by_gitignore = by_gitignore.or_else(|| matched(&rules.gitignore));
            }
            same_repository &= !rules.has_git;
            next = rules.above.as_deref();
        }
        by_ignore.or(by_gitignore)
    }
}

/// Returns the path without its first `bytes` bytes.
fn from(path: &Path, bytes: usize) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    let rest = path.as_os_str().as_bytes().get(bytes..).unwrap_or_default();
    Path::new(std::ffi::OsStr::from_bytes(rest))
}

/// Reads the rules of a file and skips invalid lines. Ignores a file that is not regular, not readable or too
/// large.
fn read(root: BorrowedFd<'_>, file: &Path) -> Option<Gitignore> {
    if kind_at(root, file) != Ok(PathKind::File) {
        return None;
    }
    let mut bytes = Vec::new();
    open(root, file).ok()?.take(MAX_RULES_BYTES + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > MAX_RULES_BYTES {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new("");
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
