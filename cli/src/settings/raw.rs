//! The unparsed settings, each with its source.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::names::{ALL, Setting, TOKEN, TOKEN_FILE, file_key};
use super::problem::SettingProblem;
use super::unknown::{is_known, near_key, near_variable};

/// Settings from flags: names and values.
pub(crate) type Overrides = Vec<(&'static str, String)>;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment,
    DotEnv,
    File,
    Context,
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::DotEnv => ".env",
            Self::File => "openskill.toml",
            Self::Context => "context",
            Self::Default => "default",
        })
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
        let (dot_env, mut problems) = read_dot_env(&folder.join(".env"));
        let (file, more) = read_file(&folder.join("openskill.toml"));
        problems.extend(more);
        let mut environment_values = HashMap::new();
        for setting in ALL.iter() {
            match environment(setting.name).map(OsString::into_string) {
                Some(Ok(value)) => drop(environment_values.insert(setting.name, value)),
                Some(Err(_)) => problems.push(SettingProblem {
                    name: setting.name.to_owned(),
                    origin: Origin::Environment.to_string(),
                    reason: "must be UTF-8".to_owned(),
                }),
                None => {}
            }
        }
        let find = |setting: &Setting| {
            let flag = flags.iter().find(|(name, _)| *name == setting.name).map(|(_, value)| value.clone());
            let some = |value: Option<String>, origin| value.filter(|it| !it.is_empty()).map(|it| (it, origin));
            some(flag, Origin::Flag)
                .or_else(|| some(environment_values.get(setting.name).cloned(), Origin::Environment))
                .or_else(|| some(dot_env.get(setting.name).cloned(), Origin::DotEnv))
                .or_else(|| some(file.get(setting.name).cloned(), Origin::File))
                .unwrap_or_else(|| (setting.default.to_owned(), Origin::Default))
        };
        Self { values: ALL.iter().map(|setting| (setting.name, find(setting))).collect(), problems }
    }

    /// Creates settings from the values of a context, with defaults for all other settings.
    pub(crate) fn from_context(values: &[(&'static str, String)]) -> Self {
        let find = |name| values.iter().find(|(of, _)| *of == name).map(|(_, value)| (value.clone(), Origin::Context));
        let all = ALL.iter().map(|it| (it.name, find(it.name).unwrap_or((it.default.to_owned(), Origin::Default))));
        Self { values: all.collect(), problems: Vec::new() }
    }

    /// Replaces `settings`, the settings that form a context, with the values of a context. Settings from flags
    /// stay.
    pub(crate) fn use_context(&mut self, values: &[(&'static str, String)], settings: &[&'static str]) {
        let context = Self::from_context(values);
        // A token replaces a token file, and vice versa.
        let has_token = [TOKEN, TOKEN_FILE].into_iter().any(|name| self.origin(name) == Origin::Flag);
        for &name in settings {
            if self.origin(name) == Origin::Flag {
                continue;
            }
            if has_token && [TOKEN, TOKEN_FILE].contains(&name) {
                self.values.insert(name, (String::new(), Origin::Default));
            } else if let Some(value) = context.values.get(name) {
                self.values.insert(name, value.clone());
            }
        }
    }

    pub(crate) fn value(&self, name: &str) -> &str {
        self.values.get(name).map(|(value, _)| value.as_str()).unwrap_or_default()
    }

    pub(crate) fn origin(&self, name: &str) -> Origin {
        self.values.get(name).map_or(Origin::Default, |(_, origin)| origin.clone())
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
        Err(error) => return (HashMap::new(), vec![unreadable(".env", &error.to_string())]),
    };
    for line in lines {
        match line {
            Ok((name, _)) if name.starts_with("OPENSKILL_") && !is_known(&name) => {
                found.1.push(unknown(&name, near_variable(&name), &Origin::DotEnv));
            }
            Ok((name, value)) => {
                found.0.insert(name, value);
            }
            Err(error) => found.1.push(unreadable(".env", &error.to_string())),
        }
    }
    found
}

fn read_file(path: &Path) -> ValuesAndProblems {
    let mut found = ValuesAndProblems::default();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return found,
        Err(error) => return (HashMap::new(), vec![unreadable("openskill.toml", &error.to_string())]),
    };
    let table: serde_json::Map<String, Value> = match toml_edit::de::from_str(&text) {
        Ok(table) => table,
        Err(error) => return (HashMap::new(), vec![unreadable("openskill.toml", &error.to_string())]),
    };
    for (key, value) in table {
        match ALL.iter().find(|setting| file_key(setting.name) == key) {
            Some(setting) => {
                found.0.insert(setting.name.to_owned(), as_text(&value));
            }
            None => found.1.push(unknown(&key, near_key(&key).as_deref(), &Origin::File)),
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

fn unknown(name: &str, near: Option<&str>, origin: &Origin) -> SettingProblem {
    let near = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
    let reason = format!("unknown setting: {near}`openskill config --reference` lists all settings");
    SettingProblem { name: name.to_owned(), origin: origin.to_string(), reason }
}

fn unreadable(file: &str, reason: &str) -> SettingProblem {
    SettingProblem { name: file.to_owned(), origin: "file".to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::*;

    struct Folder(std::path::PathBuf);

    impl Folder {
        fn with(name: &str, files: &[(&str, &str)]) -> Self {
            let path = std::env::temp_dir().join(format!("openskill-settings-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            for (file, text) in files {
                std::fs::write(path.join(file), text).unwrap();
            }
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_flag_precedes_the_environment_then_dot_env_then_the_file_then_the_default() {
        let folder = Folder::with(
            "order",
            &[
                (".env", "OPENSKILL_LOG=b\nOPENSKILL_PYTHON=b\nOTHER=x\n"),
                ("openskill.toml", "log = 'c'\nshards = 3\n"),
            ],
        );
        let environment = |name: &str| (name == names::PYTHON).then(|| "a".into());
        let flags = vec![(names::LISTEN, "flag".to_owned())];
        let raw = RawSettings::read(&flags, environment, &folder.0);
        for (name, value, origin) in [
            (names::LISTEN, "flag", Origin::Flag),
            (names::PYTHON, "a", Origin::Environment),
            (names::LOG, "b", Origin::DotEnv),
            (names::SHARDS, "3", Origin::File),
            (names::TIMEOUT_MS, "15000", Origin::Default),
        ] {
            assert_eq!((raw.value(name), raw.origin(name)), (value, origin), "{name}");
        }
    }

    #[test]
    fn every_misspelled_setting_is_reported_with_its_file() {
        let folder = Folder::with("typos", &[(".env", "OPENSKILL_TIMEOUT=1\n"), ("openskill.toml", "lisen = 'x'\n")]);
        let problems = RawSettings::read(&Vec::new(), |_| None, &folder.0).problems;
        let told: Vec<_> = problems.iter().map(|it| (it.name.as_str(), it.origin.as_str())).collect();
        assert_eq!(told, [("OPENSKILL_TIMEOUT", ".env"), ("lisen", "openskill.toml")]);
    }
}
