//! Finds out which commit this is, for `openskill --version`.
//!
//! In this order: `OPENSKILL_COMMIT` of whoever builds (`HASH DATE`), the file that `git archive` fills in, the checkout. A tree
//! that has none of them builds too, and its version names no commit.

use std::path::Path;
use std::process::Command;

const VARIABLE: &str = "OPENSKILL_COMMIT";
/// Has placeholders in a checkout, and the commit in a tarball: see `.gitattributes`.
const ARCHIVED: &str = "commit.txt";

/// How much of a hash is shown.
const HASH: usize = 12;

fn main() {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    println!("cargo:rerun-if-changed={ARCHIVED}");
    let said = std::env::var(VARIABLE).ok().filter(|it| !it.trim().is_empty());
    let commit = said.or_else(archived).or_else(checked_out);
    let suffix = commit.and_then(|it| shown(&it)).map(|it| format!(" ({it})")).unwrap_or_default();
    println!("cargo:rustc-env=OPENSKILL_VERSION={}{suffix}", env!("CARGO_PKG_VERSION"));
}

/// A hash and a date. None for anything else: it becomes a part of what the program prints.
fn shown(commit: &str) -> Option<String> {
    let mut words = commit.split_whitespace();
    let (hash, date) = (words.next()?, words.next());
    let is_hash = hash.len() >= 7 && hash.bytes().all(|it| it.is_ascii_hexdigit());
    let is_date = |it: &str| it.len() == 10 && it.bytes().all(|it| it.is_ascii_digit() || it == b'-');
    let hash = is_hash.then(|| &hash[..hash.len().min(HASH)])?;
    Some(date.filter(|it| is_date(it)).map_or_else(|| hash.to_owned(), |date| format!("{hash} {date}")))
}

fn archived() -> Option<String> {
    std::fs::read_to_string(ARCHIVED).ok().filter(|it| !it.starts_with('$'))
}

/// The commit of the checkout, if this folder belongs to it: sources may lie in somebody else's repository.
fn checked_out() -> Option<String> {
    // HEAD names a branch, the file of the branch has the commit, and `logs/HEAD` changes with both.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["ls-files", "--error-unmatch", ARCHIVED])?;
    git(&["log", "-1", "--format=%H %cs"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|it| it.status.success())?;
    String::from_utf8(output.stdout).ok().map(|it| it.trim().to_owned())
}
