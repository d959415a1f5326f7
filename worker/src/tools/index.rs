//! An index of servers: TOML, of bounded size.
//!
//! The one that ships is part of the program. Another is read at each use, so that a change needs no restart.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;

use super::entry::Entry;
use crate::plain_file;

/// The index that ships.
const SHIPPED: &str = include_str!("../../tool-index.toml");

/// The largest index in bytes, and the most servers of one.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const MOST_SERVERS: usize = 500;

/// The servers that can be installed.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// In the order of the file.
    #[serde(default, rename = "server")]
    pub servers: Vec<Entry>,
}

/// Why an index can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// It can't be read.
    #[error("the tool index can't be read: {0}")]
    Unreadable(String),
    /// It is no TOML, or has unknown keys.
    #[error("the tool index is invalid in line {line}: {reason}")]
    Invalid {
        /// From 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A server breaks a rule.
    #[error("the tool index is invalid: server {number} ('{id}'): {reason}")]
    Server {
        /// From 1.
        number: usize,
        /// The server's id, or the beginning of what stands there.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There are too many.
    #[error("the tool index has more than {MOST_SERVERS} servers")]
    TooMany,
}

impl Index {
    /// Reads an index; the one that ships if there is no file. Blocks on the disk.
    ///
    /// # Errors
    /// It can't be read, or is invalid.
    pub fn read(file: Option<&Path>) -> Result<Self, IndexError> {
        let Some(file) = file else { return Self::parse(SHIPPED) };
        let text = plain_file::read_in_folder(file, MAX_BYTES);
        Self::parse(&text.map_err(|error| IndexError::Unreadable(error.to_string()))?)
    }

    /// Reads the text of an index.
    ///
    /// # Errors
    /// It is invalid: the first fault.
    pub(super) fn parse(text: &str) -> Result<Self, IndexError> {
        let mut index: Self = toml_edit::de::from_str(text).map_err(|error| {
            let line =
                error.span().map_or(1, |span| 1 + text.bytes().take(span.start).filter(|it| *it == b'\n').count());
            IndexError::Invalid { line, reason: error.message().lines().next().unwrap_or_default().to_owned() }
        })?;
        if index.servers.len() > MOST_SERVERS {
            return Err(IndexError::TooMany);
        }
        let mut ids = HashSet::new();
        for (number, entry) in index.servers.iter().enumerate() {
            let twice = || "its id is that of an earlier one".to_owned();
            let checked = entry.check().and_then(|()| ids.insert(&entry.id).then_some(()).ok_or_else(twice));
            checked.map_err(|reason| {
                let id = entry.id.chars().filter(|it| it.is_ascii_graphic()).take(40).collect();
                IndexError::Server { number: number + 1, id, reason }
            })?;
        }
        // A requirement with many hashes is easier to read on several lines.
        for requirement in index.servers.iter_mut().flat_map(|it| &mut it.requirements) {
            *requirement = requirement.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        Ok(index)
    }

    /// The server of this id.
    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.servers.iter().find(|it| it.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_that_ships_is_valid_and_its_servers_can_be_installed() {
        let index = Index::read(None).unwrap();
        assert!(!index.servers.is_empty());
        for entry in &index.servers {
            assert!(!entry.tools.is_empty(), "{} has no pins", entry.id);
        }
        assert!(index.get("time").unwrap().tools.contains_key("get_current_time"));
    }

    #[test]
    fn a_fault_is_reported_with_its_place() {
        let invalid = |text: &str| Index::parse(text).unwrap_err().to_string();
        assert!(invalid("[[server]]\nid = 1\n").contains("line 2"));
        assert!(invalid("[[server]]\nid = 'a'\nevil = 1\n").contains("unknown field"));
        let server = |id: &str| {
            let hash = "0".repeat(64);
            format!(
                "[[server]]\nid = '{id}'\ntitle = 't'\nversion = '1'\ndescription = 'd'\nentry = 'e'\n\
                 requirements = ['e==1 --hash=sha256:{hash}']\n[server.tools.now]\ninputSchema = '{hash}'\n"
            )
        };
        assert_eq!(Index::parse(&server("a")).unwrap().servers[0].tools.len(), 1);
        assert!(invalid(&(server("a") + &server("a"))).contains("server 2 ('a'): its id is that of an earlier one"));
        assert!(invalid(&server("A b")).contains("server 1 ('Ab')"));
        assert_eq!(Index::parse("").unwrap(), Index::default());
        assert!(Index::read(Some(Path::new("/nonexistent/index.toml"))).is_err());
    }
}
