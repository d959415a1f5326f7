//! The settings for MCP clients: the key that gateway replicas use to seal sessions, the views, and the tasks that
//! represent long calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_gateway::config::{McpSecret, TasksConfig, ViewsConfig};
use openskill_identity::file;

use super::names;
use super::problem::{SettingProblem, SettingProblems};
use super::raw::RawSettings;
use super::reader::Reader;

/// The minimum length of the key, in bytes.
const MIN_BYTES: usize = 32;

/// The settings for MCP clients. The commands that serve MCP read the files.
#[derive(Debug, Clone, Default)]
pub(crate) struct McpSettings {
    key_file: Option<PathBuf>,
    views_file: Option<PathBuf>,
    tasks: TaskSettings,
    /// How long a call continues after its session's stream breaks.
    pub(crate) resumable: Duration,
    /// The maximum number of bytes of a result's text that a client gets at once.
    pub(crate) result_bytes: usize,
}

#[derive(Debug, Clone, Default)]
struct TaskSettings {
    store: TaskStore,
    after: Duration,
    lifetime: Duration,
}

#[derive(Debug, Clone, Default)]
enum TaskStore {
    #[default]
    Default,
    Memory,
    File(PathBuf),
}

/// The contents of the configured files.
#[derive(Debug, Default)]
pub(crate) struct McpFiles {
    pub(crate) secret: Option<McpSecret>,
    pub(crate) views: Option<ViewsConfig>,
}

pub(super) fn read(reader: &mut Reader<'_>) -> McpSettings {
    let file = |name| Some(reader.raw.value(name)).filter(|it| !it.is_empty()).map(PathBuf::from);
    let (key_file, views_file) = (file(names::MCP_KEY_FILE), file(names::MCP_VIEWS_FILE));
    let store = match reader.raw.value(names::MCP_TASKS) {
        "" => TaskStore::Default,
        "memory" => TaskStore::Memory,
        path => TaskStore::File(PathBuf::from(path)),
    };
    let after = reader.millis(names::MCP_TASK_AFTER, 0, 86_400_000);
    let lifetime = reader.seconds(names::MCP_TASK_LIFETIME, 60, 30 * 86_400);
    McpSettings {
        key_file,
        views_file,
        tasks: TaskSettings { store, after, lifetime },
        resumable: reader.seconds(names::MCP_RESUMABLE, 0, 3600),
        result_bytes: reader.number(names::MCP_RESULT_BYTES, 1024, 64 * 1024 * 1024),
    }
}

impl McpSettings {
    /// Returns when calls become tasks, and where tasks are kept. `by_default` is the file to use if no setting
    /// names one.
    pub(crate) fn tasks(&self, by_default: Option<PathBuf>) -> TasksConfig {
        let TaskSettings { store, after, lifetime } = self.tasks.clone();
        let (file, is_default) = match store {
            TaskStore::Default => (by_default, true),
            TaskStore::Memory => (None, false),
            TaskStore::File(file) => (Some(file), false),
        };
        TasksConfig { file, is_default, after, lifetime }
    }

    /// Reads the key and the views from the configured files.
    ///
    /// # Errors
    /// A file is unusable.
    pub(crate) fn files(&self, raw: &RawSettings) -> Result<McpFiles, SettingProblems> {
        let secret = |path: &Path| file::text(path).map_err(|error| error.to_string()).and_then(|text| key(&text));
        Ok(McpFiles {
            secret: read_file(names::MCP_KEY_FILE, self.key_file.as_deref(), raw, secret)?,
            views: read_file(names::MCP_VIEWS_FILE, self.views_file.as_deref(), raw, ViewsConfig::read)?,
        })
    }
}

fn read_file<T>(
    setting: &str,
    path: Option<&Path>,
    raw: &RawSettings,
    read: impl Fn(&Path) -> Result<T, String>,
) -> Result<Option<T>, SettingProblems> {
    let Some(path) = path else { return Ok(None) };
    read(path).map(Some).map_err(|reason| {
        let (name, origin) = (setting.to_owned(), raw.origin(setting).to_string());
        SettingProblems(vec![SettingProblem { name, origin, reason: format!("'{}': {reason}", path.display()) }])
    })
}

fn key(text: &str) -> Result<McpSecret, String> {
    let key = text.trim();
    if key.len() < MIN_BYTES {
        return Err(format!("it must contain at least {MIN_BYTES} random bytes: openssl rand -hex 32 makes a key"));
    }
    Ok(McpSecret(key.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_key_is_refused_and_line_ends_do_not_count() {
        assert!(key(&format!("{}\n\n", "k".repeat(31))).is_err());
        assert_eq!(key(&format!("{}\n", "k".repeat(32))).unwrap().0.len(), 32);
        assert!(!format!("{:?}", key(&"k".repeat(40))).contains("kkk"));
    }
}
