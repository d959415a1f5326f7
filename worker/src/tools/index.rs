//! Reads an index of servers, which is a TOML file of limited size.
//!
//! The built-in index is part of the program. Any other is read on each use, so that changes need no restart.

use std::collections::HashSet;
use std::path::Path;

use openskill_sandbox::plain_file;
use serde::Deserialize;

use super::entry::Entry;

/// The built-in index.
const SHIPPED: &str = include_str!("../../tool-index.toml");

/// The maximum size of an index in bytes, and the maximum number of its servers.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const MOST_SERVERS: usize = 500;

/// The servers that can be installed.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// The servers, in the file's order.
    #[serde(default, rename = "server")]
    pub servers: Vec<Entry>,
}

/// The reasons why an index can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The file can't be read.
    #[error("the tool index can't be read: {0}")]
    Unreadable(String),
    /// The file is not TOML or contains unknown keys.
    #[error("the tool index is invalid in line {line}: {reason}")]
    Invalid {
        /// The line of the error, from 1.
        line: usize,
        /// What is wrong in this line.
        reason: String,
    },
    /// A server breaks a rule.
    #[error("the tool index is invalid: server {number} ('{id}'): {reason}")]
    Server {
        /// The server's position in the file, from 1.
        number: usize,
        /// The server's id, or the beginning of an invalid one.
        id: String,
        /// What is wrong with the server.
        reason: String,
    },
    /// The index lists too many servers.
    #[error("the tool index has more than {MOST_SERVERS} servers")]
    TooMany,
}

impl Index {
    /// Reads an index from a file. Without a file, uses the built-in one. Blocks on the disk.
    ///
    /// # Errors
    /// Fails if the index can't be read or is invalid.
    pub fn read(file: Option<&Path>) -> Result<Self, IndexError> {
        let Some(file) = file else { return Self::parse(SHIPPED) };
        let text = plain_file::read_in_folder(file, MAX_BYTES);
        Self::parse(&text.map_err(|error| IndexError::Unreadable(error.to_string()))?)
    }

    /// Parses an index from text.
    ///
    /// # Errors
    /// Returns the first error in the text.
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
            let twice = || "an earlier entry has the same id".to_owned();
            let checked = entry.check().and_then(|()| ids.insert(&entry.id).then_some(()).ok_or_else(twice));
            checked.map_err(|reason| {
                let id = entry.id.chars().filter(|it| it.is_ascii_graphic()).take(40).collect();
                IndexError::Server { number: number + 1, id, reason }
            })?;
        }
        // A requirement with many hashes may span several lines.
        for requirement in index.servers.iter_mut().flat_map(|it| &mut it.requirements) {
            *requirement = requirement.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        Ok(index)
    }

    /// Returns the server with this id.
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
        assert!(invalid(&(server("a") + &server("a"))).contains("server 2 ('a'): an earlier entry has the same id"));
        assert!(invalid(&server("A b")).contains("server 1 ('Ab')"));
        assert_eq!(Index::parse("").unwrap(), Index::default());
        assert!(Index::read(Some(Path::new("/nonexistent/index.toml"))).is_err());
    }
}
