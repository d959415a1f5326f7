//! What a gateway has for MCP clients: the key with which its replicas seal sessions, its views, and the tasks that calls become.

use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_gateway::config::{Secret, TasksConfig, ViewsConfig};
use openskill_identity::file;

use super::names;
use super::problem::{Problem, Problems};
use super::raw::Raw;
use super::reader::Reader;

/// The shortest key, in bytes.
const MIN_BYTES: usize = 32;

/// Where the key and the views are. They are read by the commands that serve MCP.
#[derive(Debug, Clone, Default)]
pub(crate) struct McpSettings {
    key_file: Option<PathBuf>,
    views_file: Option<PathBuf>,
    tasks: Tasks,
    /// How long a call goes on after the stream of its session broke.
    pub(crate) resumable: Duration,
    /// How much text of a result a client gets at once.
    pub(crate) result_bytes: usize,
}

/// When calls become tasks, and where those are kept.
#[derive(Debug, Clone, Default)]
struct Tasks {
    place: Place,
    after: Duration,
    lifetime: Duration,
}

#[derive(Debug, Clone, Default)]
enum Place {
    #[default]
    Default,
    Memory,
    File(PathBuf),
}

/// What the files have.
#[derive(Debug, Default)]
pub(crate) struct McpFiles {
    pub(crate) secret: Option<Secret>,
    pub(crate) views: Option<ViewsConfig>,
}

pub(super) fn read(reader: &mut Reader<'_>) -> McpSettings {
    let file = |name| Some(reader.raw.value(name)).filter(|it| !it.is_empty()).map(PathBuf::from);
    let (key_file, views_file) = (file(names::MCP_KEY_FILE), file(names::MCP_VIEWS_FILE));
    let place = match reader.raw.value(names::MCP_TASKS) {
        "" => Place::Default,
        "memory" => Place::Memory,
        path => Place::File(PathBuf::from(path)),
    };
    let after = reader.millis(names::MCP_TASK_AFTER, 0, 86_400_000);
    let lifetime = reader.seconds(names::MCP_TASK_LIFETIME, 60, 30 * 86_400);
    McpSettings {
        key_file,
        views_file,
        tasks: Tasks { place, after, lifetime },
        resumable: reader.seconds(names::MCP_RESUMABLE, 0, 3600),
        result_bytes: reader.number(names::MCP_RESULT_BYTES, 1024, 64 * 1024 * 1024),
    }
}

impl McpSettings {
    /// When calls become tasks, and where those are kept. `by_default`: the file, unless one is set.
    pub(crate) fn tasks(&self, by_default: Option<PathBuf>) -> TasksConfig {
        let Tasks { place, after, lifetime } = self.tasks.clone();
        let (file, is_default) = match place {
            Place::Default => (by_default, true),
            Place::Memory => (None, false),
            Place::File(file) => (Some(file), false),
        };
        TasksConfig { file, is_default, after, lifetime }
    }

    /// The key and the views, as far as files of them are set.
    ///
    /// # Errors
    /// A file can't be used.
    pub(crate) fn files(&self, raw: &Raw) -> Result<McpFiles, Problems> {
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
    raw: &Raw,
    read: impl Fn(&Path) -> Result<T, String>,
) -> Result<Option<T>, Problems> {
    let Some(path) = path else { return Ok(None) };
    read(path).map(Some).map_err(|reason| {
        let (name, origin) = (setting.to_owned(), raw.origin(setting).to_string());
        Problems(vec![Problem { name, origin, reason: format!("'{}': {reason}", path.display()) }])
    })
}

fn key(text: &str) -> Result<Secret, String> {
    let key = text.trim();
    if key.len() < MIN_BYTES {
        return Err(format!("it must hold at least {MIN_BYTES} random bytes: openssl rand -hex 32 makes a key"));
    }
    Ok(Secret(key.as_bytes().to_vec()))
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
