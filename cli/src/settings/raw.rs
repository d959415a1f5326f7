//! The unparsed settings, each with its source.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::names::{ALL, Setting, default_value, is_known};
use super::problem::{SettingProblem, SettingProblems};
use super::unknown::nearest;

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
            Self::DotEnv => ".env",
            Self::File => "openskill.toml",
            Self::Context => "context",
            Self::Default => "default",
        }
    }
}

/// The value of every setting, by name.
#[derive(Debug)]
pub(crate) struct RawSettings {
    values: HashMap<&'static str, (String, Origin)>,
    /// Problems with whole sources, such as an unreadable file.
    pub(super) problems: Vec<SettingProblem>,
}

impl RawSettings {
    /// Reads all sources. `.env` and `openskill.toml` are read from `folder`.
    pub(crate) fn read(flags: &Overrides, environment: impl Fn(&str) -> Option<OsString>, folder: &Path) -> Self {
        debug_assert!(flags.iter().all(|(name, _)| is_known(name)), "{flags:?}");
        let (dot_env, mut problems) = read_dot_env(&folder.join(".env"));
        let (file, more) = read_file(&folder.join("openskill.toml"));
        problems.extend(more);
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
            given.find(|(value, _)| !value.is_empty()).unwrap_or_else(|| (setting.default.to_owned(), Origin::Default))
        };
        Self { values: ALL.iter().map(|setting| (setting.name, find(setting))).collect(), problems }
    }

    /// Creates settings that all have their defaults.
    pub(crate) fn defaults() -> Self {
        let values = ALL.iter().map(|it| (it.name, (it.default.to_owned(), Origin::Default)));
        Self { values: values.collect(), problems: Vec::new() }
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

/// The settings in a file, and the problems with it.
type ValuesAndProblems = (HashMap<String, String>, Vec<SettingProblem>);

/// Reads `.env`. The file may contain variables of other programs. Reports unknown variables that begin with
/// `OPENSKILL_`, which are probably misspelled.
fn read_dot_env(path: &Path) -> ValuesAndProblems {
    let mut found = ValuesAndProblems::default();
    let lines = match dotenvy::from_path_iter(path) {
        Ok(lines) => lines,
        Err(error) if error.not_found() => return found,
        Err(error) => return (HashMap::new(), vec![unreadable(".env", &error)]),
    };
    for line in lines {
        match line {
            Ok((name, _)) if name.starts_with("OPENSKILL_") && !is_known(&name) => {
                found.1.push(unknown(&name, nearest(&name).map(|it| it.name), Origin::DotEnv));
            }
            Ok((name, value)) => drop(found.0.insert(name, value)),
            Err(error) => found.1.push(unreadable(".env", &error)),
        }
    }
    found
}

fn read_file(path: &Path) -> ValuesAndProblems {
    let mut found = ValuesAndProblems::default();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return found,
        Err(error) => return (HashMap::new(), vec![unreadable("openskill.toml", &error)]),
    };
    let table: serde_json::Map<String, Value> = match toml_edit::de::from_str(&text) {
        Ok(table) => table,
        Err(error) => return (HashMap::new(), vec![unreadable("openskill.toml", &error)]),
    };
    for (key, value) in table {
        match ALL.iter().find(|setting| setting.key == key) {
            Some(setting) => drop(found.0.insert(setting.name.to_owned(), as_text(&value))),
            None => found.1.push(unknown(&key, nearest(&key).map(|it| it.key), Origin::File)),
        }
    }
    found
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(as_text).collect::<Vec<_>>().join(","),
        Value::Object(_) => "a table".to_owned(),
        // 16.0 becomes 16, since numeric settings are whole numbers.
        Value::Number(number) => {
            let text = number.to_string();
            text.strip_suffix(".0").unwrap_or(&text).to_owned()
        }
        // Resolving accepts false and true as well as 0 and 1.
        Value::Bool(_) | Value::Null => value.to_string(),
    }
}

fn unknown(name: &str, near: Option<&str>, origin: Origin) -> SettingProblem {
    let near = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
    let reason = format!("unknown setting: {near}`openskill config --reference` lists all settings");
    SettingProblem::new(name, origin.name(), reason)
}

fn unreadable(file: &str, error: &dyn std::error::Error) -> SettingProblem {
    SettingProblem::new(file, "file", error.to_string())
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
    fn every_misspelled_setting_is_reported_with_its_file() {
        let folder =
            TempFolder::with("typos", &[(".env", "OPENSKILL_TIMEOUT=1\n"), ("openskill.toml", "lisen = 'x'\n")]);
        let problems = RawSettings::read(&Vec::new(), |_| None, &folder.0).problems;
        let told: Vec<_> = problems.iter().map(|it| (it.name.as_str(), it.origin.as_str())).collect();
        assert_eq!(told, [("OPENSKILL_TIMEOUT", ".env"), ("lisen", "openskill.toml")]);
    }
}
