//! Finds out which commit this is, for `openskill --version`.
//!
//! It looks in this order: the variable `OPENSKILL_COMMIT` (`HASH DATE`), the file that `git archive` fills in, the git
//! checkout. Without any of them the build succeeds, and the version names no commit.

use std::path::Path;
use std::process::Command;

const VARIABLE: &str = "OPENSKILL_COMMIT";
/// Has placeholders in a checkout, and the commit in a tarball: see `.gitattributes`.
const COMMIT_FILE: &str = "commit.txt";

/// How many characters of a hash are shown.
const HASH: usize = 12;

fn main() {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    println!("cargo:rerun-if-changed={COMMIT_FILE}");
    let commit = commit_of_variable().or_else(commit_of_archive).or_else(commit_of_checkout);
    let suffix = commit.and_then(|it| format_commit(&it)).map(|it| format!(" ({it})")).unwrap_or_default();
    println!("cargo:rustc-env=OPENSKILL_VERSION={}{suffix}", env!("CARGO_PKG_VERSION"));
}

/// A short hash and a date. None for anything else, since the program prints the result.
fn format_commit(commit: &str) -> Option<String> {
    let mut words = commit.split_whitespace();
    let (hash, date) = (words.next()?, words.next());
    let is_hash = hash.len() >= 7 && hash.bytes().all(|it| it.is_ascii_hexdigit());
    let is_date = |it: &str| it.len() == 10 && it.bytes().all(|it| it.is_ascii_digit() || it == b'-');
    let hash = is_hash.then(|| &hash[..hash.len().min(HASH)])?;
    Some(date.filter(|it| is_date(it)).map_or_else(|| hash.to_owned(), |date| format!("{hash} {date}")))
}

fn commit_of_variable() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|it| !it.trim().is_empty())
}

/// None in a checkout, where the file has placeholders that begin with `$`.
fn commit_of_archive() -> Option<String> {
    std::fs::read_to_string(COMMIT_FILE).ok().filter(|it| !it.starts_with('$'))
}

/// None if the repository around these sources does not track them, such as another project's repository.
fn commit_of_checkout() -> Option<String> {
    // HEAD names a branch, the file of the branch has the commit, and `logs/HEAD` changes with both.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["ls-files", "--error-unmatch", COMMIT_FILE])?;
    git(&["log", "-1", "--format=%H %cs"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|it| it.status.success())?;
    String::from_utf8(output.stdout).ok().map(|it| it.trim().to_owned())
}
