//! Logs installations for audits, with the target `openskill::audit`: who did what with which server, and the
//! result.
//!
//! Callers can cause refusals at will, so the number of their log lines per second is limited.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::folder::{Record, ToolsFolder};
use super::refusal::InstallRefusal;

/// The maximum length of a caller's text in a line, in bytes.
const MAX_TEXT_BYTES: usize = 128;

/// The principal or operator who installs or removes a server.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    /// A principal, `anonymous`, or `operator`.
    pub(crate) name: String,
    /// The call's trace id. Empty for the operator.
    pub(crate) trace_id: String,
    /// The reason in the caller's own words. May be empty.
    pub(crate) reason: String,
}

impl Actor {
    /// Represents a person with access to the host's files.
    pub(crate) fn operator() -> Self {
        Self { name: "operator".to_owned(), trace_id: String::new(), reason: String::new() }
    }
}

/// Logs a step: that an installation begins, or that a server was installed or removed. If no other line follows the
/// beginning, the call was cancelled or its worker was killed, and nothing was published.
pub(super) fn log(step: &str, actor: &Actor, server: &str, version: &str) {
    line(step, actor, server, version, "");
}

/// Logs that an installation was refused.
pub(super) fn log_refusal(actor: &Actor, server: &str, version: &str, refusal: &InstallRefusal) {
    if openskill_telemetry::log::admits("installations that were refused") {
        line("installation refused", actor, server, version, refusal.word());
    }
}

fn line(decision: &str, actor: &Actor, server: &str, version: &str, outcome: &str) {
    let Actor { name: principal, trace_id, reason } = actor;
    let reason = &reason[..reason.floor_char_boundary(MAX_TEXT_BYTES)];
    tracing::warn!(target: "openskill::audit", decision, principal, server, version, outcome, reason, trace_id);
}

/// Logs the operator's changes to the folder of installed servers. The workers that serve the folder do this, because
/// a command ends before its log could be collected.
pub(crate) struct ToolsWatch {
    folder: ToolsFolder,
    /// The servers that the last check found.
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
        removed.iter().for_each(|it| log("removed", &operator, &it.id, &it.version));
        installed.iter().for_each(|it| log("installed", &operator, &it.id, &it.version));
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
    use super::super::index::tests::entry;
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
