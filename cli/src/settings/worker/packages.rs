//! The package settings of Python skills.

use std::path::PathBuf;
use std::time::Duration;

use openskill_worker::config::{AllowList, Builds, Index, Installer, NoList, PythonPackages, Variables};
use rustix::process::geteuid;

use crate::settings::paths;
use crate::settings::problem::mask;
use crate::settings::reader::Reader;

const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) fn read(reader: &mut Reader<'_>) -> PythonPackages {
    let installers = [("auto", Installer::Auto), ("uv", Installer::Uv), ("pip", Installer::Pip)];
    let days = reader.number("OPENSKILL_PYTHON_KEEP_DAYS", 0, 10_000) as u32;
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    PythonPackages {
        store: store(reader.raw.value("OPENSKILL_PYTHON_ENVIRONMENTS"), geteuid().is_root(), variable),
        installer: reader.one_of("OPENSKILL_PYTHON_INSTALLER", &installers),
        index: index(reader),
        find_links: find_links(reader.raw.value("OPENSKILL_PYTHON_FIND_LINKS")),
        for_sessions: for_sessions(reader),
        build_timeout: reader.seconds("OPENSKILL_PYTHON_BUILD_TIMEOUT_S", 1, 86_400),
        keep: (days > 0).then(|| DAY * days),
        builds: Builds::All,
        variables: Variables::new(reader.raw.variables().clone()),
        progress: |_| {},
    }
}

/// Returns the absolute path of the directory for environments.
fn store(value: &str, root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if !value.is_empty() {
        return std::path::absolute(value).ok();
    }
    Some(cache(root, variable)?.join("python"))
}

/// Returns the directory with this name for files that a worker can make again.
pub(super) fn in_cache(name: &str) -> Option<PathBuf> {
    Some(cache(geteuid().is_root(), |name| std::env::var_os(name).map(PathBuf::from))?.join(name))
}

/// Returns the directory of files that can be made again. For root it is outside root's home, which the skills' users
/// cannot read.
fn cache(root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if root {
        return Some(PathBuf::from("/var/cache/openskill"));
    }
    Some(paths::user_folder_from("XDG_CACHE_HOME", ".cache", variable)?.join("openskill"))
}

fn index(reader: &mut Reader<'_>) -> Index {
    match reader.raw.value("OPENSKILL_PYTHON_INDEX_URL").trim_end_matches('/') {
        "" => Index::Configured,
        "none" => Index::None,
        url if url.starts_with("https://") || url.starts_with("http://") => Index::Url(url.to_owned()),
        other => {
            let reason = format!("'{}' is neither an http:// or https:// URL nor 'none'", mask(other));
            reader.problem("OPENSKILL_PYTHON_INDEX_URL", reason);
            Index::Configured
        }
    }
}

/// Reads the packages that sessions may request.
fn for_sessions(reader: &mut Reader<'_>) -> AllowList {
    reader.raw.value("OPENSKILL_SESSION_PACKAGES").parse().unwrap_or_else(|error: NoList| {
        reader.problem("OPENSKILL_SESSION_PACKAGES", error.to_string());
        AllowList::default()
    })
}

/// Returns a URL unchanged, and a directory as an absolute path.
fn find_links(value: &str) -> Option<String> {
    if value.is_empty() || value.contains("://") {
        return Some(value.to_owned()).filter(|it| !it.is_empty());
    }
    std::path::absolute(value).ok().map(|it| it.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_kept_where_the_users_of_skills_reach_them() {
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/home/ann"));
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(store("", false, home), path("/home/ann/.cache/openskill/python"));
        assert_eq!(store("", true, home), path("/var/cache/openskill/python"));
        assert_eq!(store("", false, |_| path("/x")), path("/x/openskill/python"));
        assert_eq!(store("", false, |_| path("relative")), None);
        assert_eq!(store("/srv/environments", true, home), path("/srv/environments"));
    }
}
