//! What is set for MCP clients: the key with which replicas seal sessions, and the tasks that calls become.

use std::path::PathBuf;
use std::time::Duration;

use openskill_gateway::config::{Secret, TasksConfig};
use openskill_identity::file;

use super::names;
use super::problem::{Problem, Problems};
use super::raw::Raw;
use super::reader::Reader;

/// The shortest key, in bytes.
const MIN_BYTES: usize = 32;

/// Where the key is. It is read by the commands that serve MCP.
#[derive(Debug, Clone, Default)]
pub(crate) struct McpSettings {
    key_file: Option<PathBuf>,
    tasks: Tasks,
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

pub(super) fn read(reader: &mut Reader<'_>) -> McpSettings {
    let key_file = Some(reader.raw.value(names::MCP_KEY_FILE)).filter(|it| !it.is_empty()).map(PathBuf::from);
    let place = match reader.raw.value(names::MCP_TASKS) {
        "" => Place::Default,
        "memory" => Place::Memory,
        path => Place::File(PathBuf::from(path)),
    };
    let after = reader.millis(names::MCP_TASK_AFTER, 0, 86_400_000);
    let lifetime = reader.seconds(names::MCP_TASK_LIFETIME, 60, 30 * 86_400);
    McpSettings { key_file, tasks: Tasks { place, after, lifetime } }
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

    /// The key, if a file of it is set.
    ///
    /// # Errors
    /// The file can't be used.
    pub(crate) fn secret(&self, raw: &Raw) -> Result<Option<Secret>, Problems> {
        let Some(path) = &self.key_file else { return Ok(None) };
        let read = file::text(path).map_err(|error| error.to_string()).and_then(|text| key(&text));
        read.map(Some).map_err(|reason| {
            let (name, origin) = (names::MCP_KEY_FILE.to_owned(), raw.origin(names::MCP_KEY_FILE).to_string());
            Problems(vec![Problem { name, origin, reason: format!("'{}': {reason}", path.display()) }])
        })
    }
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
