//! The unparsed settings, each with its source.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::files::{DOT_ENV, FileContent, read_dot_env, read_toml};
use super::names::{ALL, Setting, default_value, is_known};
use super::paths;
use super::problem::{SettingProblem, SettingProblems};
use super::project::{FILE_NAME, Project, VARIABLE, is_trusted};

/// A setting that earlier releases had.
const REMOVED: &str = "OPENSKILL_MCP_TASKS_FILE";

/// Settings from flags: names and values.
pub(crate) type Overrides = Vec<(&'static str, String)>;

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment,
    DotEnv,
    File,
    Context,
    Default,
}

impl Origin {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::DotEnv => DOT_ENV,
            Self::File => FILE_NAME,
            Self::Context => "context",
            Self::Default => "default",
        }
    }
}

/// The value of every setting, by name.
pub(crate) struct RawSettings {
    values: HashMap<&'static str, (String, Origin)>,
    /// The project whose files were read.
    project: Option<Project>,
    /// All variables of `.env`.
    #[cfg(feature = "worker")]
    variables: HashMap<String, String>,
    /// Problems with whole sources, such as an unreadable file.
    pub(super) problems: Vec<SettingProblem>,
    /// The files that were not read, and why.
    pub(crate) warnings: Vec<String>,
}

impl std::fmt::Debug for RawSettings {
    // Without values, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawSettings").field("project", &self.project).finish_non_exhaustive()
    }
}

impl RawSettings {
    /// Reads all sources: flags, the environment, and the files of the project of `here`, which is the current
    /// directory. Without a project, `.env` is read from `here`.
    pub(crate) fn read(flags: &Overrides, environment: impl Fn(&str) -> Option<OsString>, here: &Path) -> Self {
        debug_assert!(flags.iter().all(|(name, _)| is_known(name)), "{flags:?}");
        let here = std::path::absolute(here).unwrap_or_else(|_| here.to_owned());
        let named = environment(VARIABLE).filter(|it| !it.is_empty());
        let is_named = named.is_some();
        let user = rustix::process::geteuid().as_raw();
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        let project = match named {
            Some(file) => Project::open(Path::new(&file), &here).map_err(|it| problems.push(it)).ok(),
            None => Project::find(&here, user, &mut warnings),
        };
        let folder = project.as_ref().map_or(here.as_path(), Project::folder);
        let dot_env = folder.join(DOT_ENV);
        let is_read = is_named || folder == here || is_trusted(&dot_env, user, &mut warnings);
        let dot_env = if is_read { read_dot_env(&dot_env) } else { FileContent::default() };
        let file = project.as_ref().map_or_else(FileContent::default, |it| read_toml(&it.file));
        problems.extend(dot_env.problems.into_iter().chain(file.problems));
        let (dot_env, file) = (dot_env.values, file.values);
        if environment(REMOVED).is_some_and(|it| !it.is_empty()) {
            let reason = "was removed, because tasks are operations: set OPENSKILL_STORE to keep them";
            problems.push(SettingProblem::new(REMOVED, Origin::Environment.name(), reason));
        }
        let mut find = |setting: &Setting| {
            let not_text = SettingProblem::new(setting.name, Origin::Environment.name(), "must be UTF-8");
            let environment = environment(setting.name)
                .and_then(|value| value.into_string().map_err(|_| problems.push(not_text)).ok());
            let flag = flags.iter().find(|(name, _)| *name == setting.name).map(|(_, value)| value.clone());
            let sources = [
                (flag, Origin::Flag),
                (environment, Origin::Environment),
                (dot_env.get(setting.name).cloned(), Origin::DotEnv),
                (file.get(setting.name).cloned(), Origin::File),
            ];
            let mut given = sources.into_iter().filter_map(|(value, origin)| Some((value?, origin)));
            let given = given.find(|(value, _)| !value.is_empty());
            let (value, origin) = given.unwrap_or_else(|| (setting.default.to_owned(), Origin::Default));
            let is_relative_to_here = folder == here || matches!(origin, Origin::Flag | Origin::Environment);
            if is_relative_to_here || value.is_empty() {
                (value, origin)
            } else {
                (paths::below(folder, setting.name, &value), origin)
            }
        };
        let values = ALL.iter().map(|setting| (setting.name, find(setting))).collect();
        let mut raw = Self {
            values,
            project,
            #[cfg(feature = "worker")]
            variables: dot_env,
            problems,
            warnings,
        };
        raw.default_to_own_gateway();
        raw
    }

    /// Lets clients call the gateway of the project, unless a setting or a context names another one.
    fn default_to_own_gateway(&mut self) {
        let is_of_project = matches!(self.origin("OPENSKILL_LISTEN"), Origin::DotEnv | Origin::File);
        if let (true, Some(url)) = (is_of_project, self.own_url("OPENSKILL_LISTEN")) {
            self.values.insert("OPENSKILL_HTTP_BASE_URL", (url, Origin::Default));
        }
    }

    /// Returns the URL at which clients on this machine reach the address of a setting. `None` if another setting or a
    /// context names their gateway, or if this one names no address.
    pub(super) fn own_url(&self, name: &str) -> Option<String> {
        if self.origin("OPENSKILL_HTTP_BASE_URL") != Origin::Default {
            return None;
        }
        let mut address: SocketAddr = self.value(name).parse().ok().filter(|it: &SocketAddr| it.port() != 0)?;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let scheme = if self.given("OPENSKILL_TLS_CERT").is_some() { "https" } else { "http" };
        Some(format!("{scheme}://{address}"))
    }

    /// Creates settings with these values as flags, and without an environment and files.
    #[cfg(test)]
    pub(crate) fn for_test(values: &[(&'static str, &str)]) -> Self {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self::read(&flags, |_| None, Path::new("/nonexistent"))
    }

    /// Creates settings that all have their defaults.
    pub(crate) fn defaults() -> Self {
        let values = ALL.iter().map(|it| (it.name, (it.default.to_owned(), Origin::Default)));
        Self {
            values: values.collect(),
            project: None,
            #[cfg(feature = "worker")]
            variables: HashMap::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Replaces `settings`, the settings that form a context, with the values of a context, or with their defaults.
    /// Settings from flags stay.
    pub(crate) fn use_context(&mut self, values: &[(&'static str, String)], settings: &[&'static str]) {
        // A token replaces a token file, and vice versa.
        let tokens = ["OPENSKILL_TOKEN", "OPENSKILL_TOKEN_FILE"];
        let has_token = tokens.into_iter().any(|name| self.origin(name) == Origin::Flag);
        for &name in settings {
            if self.origin(name) == Origin::Flag {
                continue;
            }
            let is_replaced = has_token && tokens.contains(&name);
            let given = values.iter().find(|(of, _)| *of == name && !is_replaced);
            let value = given.map(|(_, value)| (value.clone(), Origin::Context));
            self.values.insert(name, value.unwrap_or_else(|| (default_value(name).to_owned(), Origin::Default)));
        }
    }

    /// Returns the project whose files were read.
    pub(crate) fn project(&self) -> Option<&Project> {
        self.project.as_ref()
    }

    /// Returns all variables of the project's `.env`, which may be secrets.
    #[cfg(feature = "worker")]
    pub(crate) fn variables(&self) -> &HashMap<String, String> {
        &self.variables
    }

    pub(crate) fn value(&self, name: &str) -> &str {
        debug_assert!(is_known(name), "{name} is not in the table of settings");
        self.values.get(name).map(|(value, _)| value.as_str()).unwrap_or_default()
    }

    /// Returns the value of a setting that is not empty.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        Some(self.value(name)).filter(|it| !it.is_empty())
    }

    /// Returns the file or directory that a setting names.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.given(name).map(PathBuf::from)
    }

    /// Returns the parts of a list that is separated by commas.
    pub(crate) fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        self.value(name).split(',').map(str::trim).filter(|it| !it.is_empty())
    }

    pub(crate) fn origin(&self, name: &str) -> Origin {
        self.values.get(name).map_or(Origin::Default, |(_, origin)| *origin)
    }

    /// Creates a problem with the value of a setting.
    pub(crate) fn problem(&self, name: &str, reason: impl Into<String>) -> SettingProblem {
        SettingProblem::new(name, self.origin(name).name(), reason)
    }

    /// Reads the file that a setting names, if it names one.
    ///
    /// # Errors
    /// The file is unusable.
    pub(super) fn read_file<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Path) -> Result<T, String>,
    ) -> Result<Option<T>, SettingProblems> {
        let Some(path) = self.path(name) else { return Ok(None) };
        read(&path).map(Some).map_err(|reason| self.problem(name, format!("'{}': {reason}", path.display())).into())
    }

    /// Returns all settings that are not defaults, for child processes.
    #[cfg(feature = "worker")]
    pub(crate) fn explicit_values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let explicit = self.values.iter().filter(|(_, (_, origin))| *origin != Origin::Default);
        explicit.map(|(name, (value, _))| (*name, value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TempFolder(std::path::PathBuf);

    impl TempFolder {
        fn with(name: &str, files: &[(&str, &str)]) -> Self {
            let path = std::env::temp_dir().join(format!("openskill-settings-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            for (file, text) in files {
                std::fs::write(path.join(file), text).unwrap();
            }
            Self(path)
        }
    }

    impl Drop for TempFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_flag_precedes_the_environment_then_dot_env_then_the_file_then_the_default() {
        let folder = TempFolder::with(
            "order",
            &[
                (".env", "OPENSKILL_LOG=b\nOPENSKILL_PYTHON=b\nOTHER=x\n"),
                ("openskill.toml", "log = 'c'\nshards = 3\n"),
            ],
        );
        let environment = |name: &str| (name == "OPENSKILL_PYTHON").then(|| "a".into());
        let flags = vec![("OPENSKILL_LISTEN", "flag".to_owned())];
        let raw = RawSettings::read(&flags, environment, &folder.0);
        for (name, value, origin) in [
            ("OPENSKILL_LISTEN", "flag", Origin::Flag),
            ("OPENSKILL_PYTHON", "a", Origin::Environment),
            ("OPENSKILL_LOG", "b", Origin::DotEnv),
            ("OPENSKILL_SHARDS", "3", Origin::File),
            ("OPENSKILL_TIMEOUT_MS", "15000", Origin::Default),
        ] {
            assert_eq!((raw.value(name), raw.origin(name)), (value, origin), "{name}");
        }
    }

    #[test]
    fn clients_of_a_project_call_the_address_that_its_gateway_listens_on() {
        for (files, url) in [
            (vec![("openskill.toml", "listen = '127.0.0.1:9000'")], "http://127.0.0.1:9000"),
            (
                vec![("openskill.toml", "listen = '[::]:9000'"), (".env", "OPENSKILL_TLS_CERT=a\n")],
                "https://[::1]:9000",
            ),
            (vec![("openskill.toml", "listen = '0.0.0.0:0'")], "http://127.0.0.1:8000"),
            (vec![("openskill.toml", "listen = '0.0.0.0:9000'\nhttp_base_url = 'http://a'")], "http://a"),
        ] {
            let folder = TempFolder::with("listen", &files);
            let mut raw = RawSettings::read(&Vec::new(), |_| None, &folder.0);
            assert_eq!(raw.value("OPENSKILL_HTTP_BASE_URL"), url, "{files:?}");
            raw.use_context(&[("OPENSKILL_HTTP_BASE_URL", "http://b".to_owned())], &["OPENSKILL_HTTP_BASE_URL"]);
            assert_eq!(raw.value("OPENSKILL_HTTP_BASE_URL"), "http://b");
        }
        let raw = RawSettings::for_test(&[("OPENSKILL_LISTEN", "127.0.0.1:9000")]);
        assert_eq!(raw.value("OPENSKILL_HTTP_BASE_URL"), "http://127.0.0.1:8000");
    }

    #[test]
    fn the_files_of_a_project_count_in_its_folders_and_their_paths_begin_where_they_are() {
        let folder = TempFolder::with("below", &[("openskill.toml", "cli_dir = 'skills'\n"), (".env", "TOKEN=a\n")]);
        let below = folder.0.join("skills/tests");
        std::fs::create_dir_all(&below).unwrap();
        // Not of the project, so it does not count.
        std::fs::write(below.join(".env"), "OPENSKILL_LOG=debug\n").unwrap();
        let named = |name: &str| (name == VARIABLE).then(|| folder.0.join("openskill.toml").into_os_string());
        let flags = vec![("OPENSKILL_TRACE_DIR", "traces".to_owned())];
        for (raw, here) in [
            (RawSettings::read(&flags, |_| None, &below), "below"),
            (RawSettings::read(&flags, named, Path::new("/nonexistent")), "named"),
        ] {
            assert!(raw.problems.is_empty(), "{:?}", raw.problems);
            assert_eq!(Path::new(raw.value("OPENSKILL_CLI_DIR")), folder.0.join("skills"), "{here}");
            assert_eq!(Path::new(raw.value("OPENSKILL_ALLOWED_ROOT")), folder.0.join("data"), "{here}");
            assert_eq!((raw.value("OPENSKILL_TRACE_DIR"), raw.value("OPENSKILL_LOG")), ("traces", "info"), "{here}");
            #[cfg(feature = "worker")]
            assert_eq!(raw.variables["TOKEN"], "a");
            assert_eq!(raw.project().unwrap().folder(), folder.0);
        }
        let missing = |name: &str| (name == VARIABLE).then(|| "missing.toml".into());
        let problems = RawSettings::read(&flags, missing, &folder.0).problems;
        assert!(problems.len() == 1 && problems[0].reason.contains("missing.toml"), "{problems:?}");
    }

    #[test]
    fn a_malformed_line_of_dot_env_is_not_shown() {
        let folder = TempFolder::with("secret", &[(".env", "GOOD=1\nTOKEN='s3cret\nlone s3cret\n")]);
        let problems = format!("{:?}", RawSettings::read(&Vec::new(), |_| None, &folder.0).problems);
        assert!(problems.contains(".env") && !problems.contains("s3cret"), "{problems}");
    }

    #[test]
    fn every_misspelled_setting_is_reported_with_its_file() {
        let folder = TempFolder::with(
            "typos",
            &[(".env", "OPENSKILL_TIMEOUT=1\nOPENSKILL_TAG=1\n"), ("openskill.toml", "lisen = 'x'\n")],
        );
        let problems = RawSettings::read(&Vec::new(), |_| None, &folder.0).problems;
        let told: Vec<_> = problems.iter().map(|it| (it.name.as_str(), it.origin.as_str())).collect();
        assert_eq!(told, [("OPENSKILL_TIMEOUT", ".env"), ("lisen", "openskill.toml")]);
    }
}
