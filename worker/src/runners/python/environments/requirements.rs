//! Reads a skill's requirements from the source that its manifest names. Allows only packages from the index.
//!
//! Installers also accept options, paths and URLs as requirements. These could select an index that the operator
//! did not choose, or run a package's code during a build.

use std::path::Path;

use openskill_sandbox::plain_file;
use serde::Deserialize;

use crate::manifest::python::{PYPROJECT, Packages, UV_LOCK};

/// The maximum size of a requirements file, number of requirements, and length of one requirement. A requirement
/// has a hash for each of its package's files.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
const MOST: usize = 4096;
const MAX_BYTES: usize = 64 * 1024;

/// The packages to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequirementSet {
    /// Requirements in the format of pip, sorted.
    Lines(Vec<String>),
    /// The texts of a project's `pyproject.toml` and `uv.lock`.
    Lock { project: String, lock: String },
}

impl RequirementSet {
    /// Returns a short summary for people.
    pub(super) fn summary(&self) -> String {
        match self {
            Self::Lock { .. } => format!("the packages of {UV_LOCK}"),
            Self::Lines(lines) => {
                let name = |line: &String| line.split([' ', ';', '\\']).next().unwrap_or_default().to_owned();
                let first: Vec<_> = lines.iter().take(5).map(name).collect();
                let more = lines.len().saturating_sub(first.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{}{more}", first.join(", "))
            }
        }
    }
}

/// Reads and checks a skill's requirements.
///
/// # Errors
/// Returns the reason, for people, if a file can't be read or a requirement is invalid.
pub(super) fn read(packages: &Packages) -> Result<RequirementSet, String> {
    match packages {
        Packages::Listed(lines) => check_all(lines.iter().map(String::as_str)).map(RequirementSet::Lines),
        Packages::File(file) if file.ends_with(UV_LOCK) => {
            Ok(RequirementSet::Lock { project: text(&file.with_file_name(PYPROJECT))?, lock: text(file)? })
        }
        Packages::File(file) if file.ends_with(PYPROJECT) => {
            let lines = dependencies(&text(file)?)?;
            check_all(lines.iter().map(String::as_str)).map(RequirementSet::Lines)
        }
        Packages::File(file) => read_lines(&text(file)?).map(RequirementSet::Lines),
        Packages::None | Packages::Venv(_) => Ok(RequirementSet::Lines(Vec::new())),
    }
}

/// Parses a requirements file, which the author wrote or uv exported from a lock file.
///
/// # Errors
/// Returns the reason, for people, if a requirement is invalid.
pub(super) fn read_lines(text: &str) -> Result<Vec<String>, String> {
    // A line that ends in a backslash continues on the next line.
    check_all(text.replace("\r\n", "\n").replace("\\\n", " ").lines())
}

fn text(file: &Path) -> Result<String, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    plain_file::read_in_folder(file, MAX_FILE_BYTES).map_err(|error| match error.is_missing() {
        true => format!("its file '{name}' does not exist"),
        false => format!("its file '{name}' cannot be used: {error}"),
    })
}

/// Reads a project's dependencies. The project itself is not installed.
fn dependencies(text: &str) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct File {
        project: Option<Project>,
    }
    #[derive(Deserialize)]
    struct Project {
        #[serde(default)]
        dependencies: Vec<String>,
    }
    let file: File = toml_edit::de::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        format!("its file '{PYPROJECT}' is invalid in line {line}: {}", error.message())
    })?;
    let project = file.project.ok_or_else(|| format!("its file '{PYPROJECT}' has no [project] with dependencies"))?;
    Ok(project.dependencies)
}

/// Checks the requirements among these lines, and sorts them.
fn check_all<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<String>, String> {
    let lines = lines.map(without_comment).filter(|line| !line.is_empty());
    let mut found = lines.map(|line| check(line).map(|()| line.to_owned())).collect::<Result<Vec<_>, _>>()?;
    if found.len() > MOST {
        return Err(format!("it has more than {MOST} requirements"));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn without_comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') { "" } else { line.split(" #").next().unwrap_or_default().trim() }
}

fn check(line: &str) -> Result<(), String> {
    let shown = excerpt(line);
    if line.len() > MAX_BYTES || line.chars().any(|it| it.is_control() && it != '\t') {
        return Err(format!("its requirement '{shown}' is too long, or has control characters"));
    }
    // Hashes are the only allowed options of a requirement.
    let words = || line.split_whitespace().filter(|word| !is_hash(word));
    if words().any(|word| word.starts_with('-')) {
        return Err(format!(
            "its requirement '{shown}' is an option of an installer: only packages can be named. The index is a setting \
             of the worker (OPENSKILL_PYTHON_INDEX_URL)"
        ));
    }
    // `$` would read the worker's environment. `file:` with `%2F` is also a path.
    if words().any(|word| word.contains(['@', '/', '$', ':', '%', '\\'])) || line.starts_with('.') {
        return Err(format!(
            "its requirement '{shown}' is a path or URL: name the package and its version, and put a wheel of it into \
             the index or the wheel folder (OPENSKILL_PYTHON_FIND_LINKS)"
        ));
    }
    if !line.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return Err(format!("its requirement '{shown}' does not begin with the name of a package"));
    }
    Ok(())
}

fn is_hash(word: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == ':';
    word.strip_prefix("--hash=").is_some_and(|hash| hash.chars().all(is_plain))
}

/// Returns the beginning of a line, for an error message.
fn excerpt(line: &str) -> String {
    line.chars().take(100).map(|it| if it.is_control() { ' ' } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> Result<RequirementSet, String> {
        let folder = std::env::temp_dir().join(format!("openskill-requirements-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), text).unwrap();
        let wanted = read(&Packages::File(folder.join(name)));
        std::fs::remove_dir_all(&folder).unwrap();
        wanted
    }

    #[test]
    fn order_and_comments_make_no_other_environment() {
        let listed = Packages::Listed(vec!["requests".to_owned(), "pandas==2.2.3".to_owned()]);
        let expected = RequirementSet::Lines(vec!["pandas==2.2.3".to_owned(), "requests".to_owned()]);
        assert_eq!(read(&listed), Ok(expected.clone()));
        assert_eq!(
            file("requirements.txt", "# for the plot\npandas==2.2.3  # the newest\n\nrequests\n"),
            Ok(expected.clone())
        );
        let project = "[project]\nname = 'x'\ndependencies = ['requests', 'pandas==2.2.3']\n";
        assert_eq!(file("pyproject.toml", project), Ok(expected));
    }

    #[test]
    fn hashes_stay_with_their_requirement() {
        let text = "a==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n";
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            let Ok(RequirementSet::Lines(lines)) = file("requirements.txt", &text) else { panic!("no lines") };
            assert_eq!(lines.len(), 1);
            assert!(lines[0].starts_with("a==1") && lines[0].ends_with("--hash=sha256:11"), "{lines:?}");
        }
    }

    #[test]
    fn what_is_no_package_of_the_index_is_refused() {
        for (line, word) in [
            ("--index-url https://elsewhere", "option"),
            ("-e .", "option"),
            ("./package", "path or URL"),
            ("package @ https://elsewhere/package.whl", "path or URL"),
            ("git+https://elsewhere/package", "path or URL"),
            ("package==${SECRET}", "path or URL"),
            ("file:%2Fsrv%2Fpackage", "path or URL"),
            ("file:package.whl", "path or URL"),
            ("package==1 --hash=sha256:00 --config-settings=x", "option"),
            ("package==1 --hash=sha256:00/..", "option"),
            ("package==1 \\", "path or URL"),
            ("=1", "name of a package"),
            ("a\u{7}", "control characters"),
        ] {
            let reason = read(&Packages::Listed(vec![line.to_owned()])).unwrap_err();
            assert!(reason.contains(word), "{line}: {reason}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let missing = read(&Packages::File("/nonexistent/requirements.txt".into())).unwrap_err();
        assert_eq!(missing, "its file 'requirements.txt' does not exist");
        let invalid = file("pyproject.toml", "[project]\ndependencies = 1\n").unwrap_err();
        assert!(invalid.contains("line 2"), "{invalid}");
        assert!(file("pyproject.toml", "[tool]\n").unwrap_err().contains("[project]"));
    }
}
