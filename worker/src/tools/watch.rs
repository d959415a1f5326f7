//! Logs the operator's changes to the folder of installed servers. The workers that serve the folder do this,
//! because a command ends before its log could be collected.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::audit::{self, Actor};
use super::folder::{Record, ToolsFolder};

/// The servers that the last check found.
pub(crate) struct ToolsWatch {
    folder: ToolsFolder,
    known: Mutex<BTreeMap<String, Record>>,
}

/// The changes since the last check.
#[derive(Debug, PartialEq, Eq)]
struct Changes {
    removed: Vec<Record>,
    installed: Vec<Record>,
}

impl ToolsWatch {
    /// Starts with the current servers, which do not count as changes.
    pub(crate) fn begin(folder: ToolsFolder) -> Self {
        Self { known: Mutex::new(folder.records()), folder }
    }

    /// Logs the changes since the last check. Installations by calls are logged where they run.
    pub(crate) fn log_changes(&self) {
        let Changes { removed, installed } = self.changes();
        let operator = Actor::operator();
        removed.iter().for_each(|it| audit::log_removal(&operator, &it.id, &it.version));
        installed.iter().for_each(|it| audit::log_install(&operator, &it.id, &it.version));
    }

    fn changes(&self) -> Changes {
        let now = self.folder.records();
        let mut known = self.known.lock();
        let before = std::mem::replace(&mut *known, now);
        let operator = Actor::operator().name;
        let is_news = |it: &&Record| it.by == operator && before.get(&it.id) != Some(it);
        let installed = known.values().filter(is_news).cloned().collect();
        let removed = before.values().filter(|it| known.get(&it.id) != Some(it)).cloned().collect();
        Changes { removed, installed }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::tests::entry;
    use super::*;

    fn record(id: &str, by: &str) -> Record {
        let (version, at) = ("1.0".to_owned(), "2026-11-25T00:00:00Z".to_owned());
        Record { id: id.to_owned(), version, tools: Vec::new(), by: by.to_owned(), at, trace_id: String::new() }
    }

    #[test]
    fn the_operator_s_changes_are_seen_once_and_those_of_calls_only_when_they_are_removed() {
        let path = std::env::temp_dir().join(format!("openskill-tools-watched-{}", std::process::id()));
        let folder = ToolsFolder::at(&path);
        folder.make().unwrap();
        let lock = folder.lock().unwrap().unwrap();
        let publish = |id: &str, by: &str| {
            folder.publish(&lock, &entry(id, "Does something."), &record(id, by)).unwrap();
        };
        publish("old", "operator");
        let watched = ToolsWatch::begin(folder.clone());
        let nothing = Changes { removed: Vec::new(), installed: Vec::new() };
        assert_eq!(watched.changes(), nothing);
        publish("clock", "operator");
        publish("git", "ann");
        assert_eq!(watched.changes(), Changes { removed: Vec::new(), installed: vec![record("clock", "operator")] });
        assert_eq!(watched.changes(), nothing);
        folder.remove(&lock, "git").unwrap();
        folder.remove(&lock, "old").unwrap();
        let removed = vec![record("git", "ann"), record("old", "operator")];
        assert_eq!(watched.changes(), Changes { removed, installed: Vec::new() });
        std::fs::remove_dir_all(&path).unwrap();
        assert_eq!(watched.changes().removed, [record("clock", "operator")]);
    }
}
