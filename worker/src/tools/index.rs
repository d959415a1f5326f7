//! An index of servers, which is a TOML file of limited size: reads it, validates its servers, and creates the files of
//! a server's folder for an installation.
//!
//! The built-in index is part of the program. Any other is read on each use, so that changes need no restart.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use openskill_sandbox::plain_file;
use openskill_telemetry::log::text::is_hidden;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::Variables;
use crate::manifest::mcp::LOCK_SUFFIX;
use crate::manifest::{ID_RULE, valid_id};
use crate::runners::mcp::pins::{PARTS, Pin, Pins};

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

/// The maximum length of an id, in bytes. The ids of the server's tools begin with it.
const MAX_ID_BYTES: usize = 32;

/// The maximum lengths of texts in bytes, and the maximum number of items in each list.
const MAX_TITLE_BYTES: usize = 100;
const MAX_DESCRIPTION_BYTES: usize = 1000;
const MAX_WORD_BYTES: usize = 64;
const MAX_ARGUMENT_BYTES: usize = 1024;
const MAX_REQUIREMENT_BYTES: usize = 16 * 1024;
const MOST_WORDS: usize = 64;
const MOST_REQUIREMENTS: usize = 256;
const MOST_TOOLS: usize = 200;

/// The default timeout for the start, in seconds.
const START_S: u64 = 30;

/// A server that an index lists.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The id of the server's manifest. Its tools' ids are `<id>__<tool>`.
    pub id: String,
    /// A short title for people.
    pub title: String,
    /// The version of the server in the index.
    pub version: String,
    /// A description for people and models.
    pub description: String,
    /// Words that match tasks, in any language.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// The program that one of its packages contains.
    pub entry: String,
    /// The arguments with which the program is started.
    #[serde(default)]
    pub args: Vec<String>,
    /// The required Python version, such as `3.12`. `None` if the worker's interpreter suffices.
    pub python: Option<String>,
    /// All packages in the format of a requirements file, each with its version and its wheels' SHA-256.
    pub requirements: Vec<String>,
    /// The manifest's `network`: `none`, `full` or a list of ports.
    #[serde(default = "no_network")]
    pub network: Value,
    /// The worker's variables that the server needs.
    #[serde(default)]
    pub env: Vec<String>,
    /// The timeout for the start, in seconds.
    #[serde(default = "start_s")]
    pub start_s: u64,
    /// The tools, by the names that the server uses, each with the SHA-256 of its definition's parts. A server without
    /// tools can't be installed.
    #[serde(default)]
    pub tools: BTreeMap<String, Pin>,
}

fn no_network() -> Value {
    json!("none")
}

fn start_s() -> u64 {
    START_S
}

impl Entry {
    /// Checks everything except what the installation checks by the rules for manifests.
    ///
    /// # Errors
    /// Returns the reason, for people, if the entry is invalid.
    pub(super) fn check(&self) -> Result<(), String> {
        if !valid_id(&self.id) || self.id.len() > MAX_ID_BYTES || self.id.contains("__") {
            return Err(format!("its id must be {ID_RULE}, at most {MAX_ID_BYTES} in all, and without '__'"));
        }
        check_text("title", &self.title, MAX_TITLE_BYTES)?;
        check_text("version", &self.version, MAX_WORD_BYTES)?;
        check_text("description", &self.description, MAX_DESCRIPTION_BYTES)?;
        check_list("keywords", &self.keywords, MAX_WORD_BYTES)?;
        check_list("args", &self.args, MAX_ARGUMENT_BYTES)?;
        check_list("env", &self.env, MAX_WORD_BYTES)?;
        let plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
        if !self.entry.starts_with(|it: char| it.is_ascii_alphanumeric()) || !self.entry.chars().all(plain) {
            return Err("its entry must be the name of a program that its packages install".to_owned());
        }
        if self.requirements.is_empty() || self.requirements.len() > MOST_REQUIREMENTS {
            return Err(format!("requirements must be 1 to {MOST_REQUIREMENTS} packages"));
        }
        if let Some(wrong) = self.requirements.iter().find(|it| !is_pinned(it)) {
            let shown: String = wrong.chars().filter(|it| !is_hidden(*it)).take(60).collect();
            let form = "name==1.0 --hash=sha256:... with 64 hexadecimal digits";
            return Err(format!("requirements: '{shown}' has no exact version or no hash: write {form}"));
        }
        if self.tools.len() > MOST_TOOLS {
            return Err(format!("it has more than {MOST_TOOLS} tools"));
        }
        self.tools.iter().try_for_each(|(tool, pin)| check_pin(tool, pin))
    }

    /// Returns the variables that it needs and this worker does not have.
    pub(super) fn missing_variables(&self, variables: &Variables) -> Vec<&str> {
        self.env.iter().map(String::as_str).filter(|name| variables.get(name).is_none()).collect()
    }

    /// Returns the text of its manifest.
    pub(super) fn manifest(&self) -> String {
        let mut python = json!({"requirements": self.requirements, "require_hashes": true});
        if let Some(version) = &self.python {
            python["version"] = json!(version);
        }
        let manifest = json!({
            "id": self.id,
            "version": self.version,
            "description": self.description,
            "type": "mcp",
            "runtime": "stdio",
            "entry": self.entry,
            "jail": "strict",
            "network": self.network,
            "env": self.env,
            "python": python,
            "mcp": {"args": self.args, "pin": "strict", "isolated": true, "start_s": self.start_s},
        });
        pretty(&manifest)
    }

    /// Returns the files of its folder, by name.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let toolset = json!({"toolset": self.id, "description": self.title});
        let pins = Pins { server: self.id.clone(), tools: self.tools.clone() };
        vec![
            ("toolset.yaml".to_owned(), pretty(&toolset)),
            (self.manifest_name(), self.manifest()),
            (format!("{}{LOCK_SUFFIX}", self.id), pretty(&json!(pins))),
        ]
    }

    /// Returns the file name of its manifest.
    pub(super) fn manifest_name(&self) -> String {
        format!("{}.json", self.id)
    }
}

/// Formats JSON, which is also valid YAML.
pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn check_text(field: &str, text: &str, most: usize) -> Result<(), String> {
    if text.trim().is_empty() || text.len() > most || text.chars().any(is_hidden) {
        return Err(format!("{field} must be 1 to {most} bytes, on one line and without invisible characters"));
    }
    Ok(())
}

fn check_list(field: &str, items: &[String], most: usize) -> Result<(), String> {
    if items.len() > MOST_WORDS {
        return Err(format!("{field} has more than {MOST_WORDS} items"));
    }
    items.iter().try_for_each(|it| check_text(field, it, most))
}

/// Returns whether a requirement has an exact version and the SHA-256 of at least one file.
fn is_pinned(requirement: &str) -> bool {
    let is_hash = |word: &str| word.strip_prefix("--hash=sha256:").is_some_and(is_sha256);
    let (hashes, rest): (Vec<&str>, Vec<&str>) = requirement.split_whitespace().partition(|it| is_hash(it));
    let exact = rest
        .first()
        .and_then(|it| it.split_once("=="))
        .is_some_and(|(name, version)| !name.is_empty() && !version.is_empty() && !version.contains(['*', ',']));
    let no_options = rest.iter().all(|it| !it.starts_with('-'));
    requirement.len() <= MAX_REQUIREMENT_BYTES && exact && no_options && !hashes.is_empty()
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
}

fn check_pin(tool: &str, pin: &Pin) -> Result<(), String> {
    check_text("the name of a tool", tool, 256)?;
    let unknown = pin.keys().find(|part| !PARTS.contains(&part.as_str()));
    if let Some(part) = unknown {
        return Err(format!("tools: '{tool}' has the unknown part '{part}': expected one of {}", PARTS.join(", ")));
    }
    if !pin.contains_key("inputSchema") || !pin.values().all(|it| is_sha256(it)) {
        return Err(format!(
            "tools: '{tool}' must have the SHA-256 of inputSchema and of each other part that there is"
        ));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a valid entry.
    pub(crate) fn entry(id: &str, description: &str) -> Entry {
        let hash = "0".repeat(64);
        Entry {
            id: id.to_owned(),
            title: id.to_owned(),
            version: "1.0".to_owned(),
            description: description.to_owned(),
            keywords: Vec::new(),
            entry: "server".to_owned(),
            args: Vec::new(),
            python: None,
            requirements: vec![format!("server==1.0 --hash=sha256:{hash}")],
            network: no_network(),
            env: Vec::new(),
            start_s: START_S,
            tools: [("now".to_owned(), [("inputSchema".to_owned(), hash)].into())].into(),
        }
    }

    #[test]
    fn what_an_operator_did_not_fix_is_refused() {
        assert_eq!(entry("clock", "Tells the time.").check(), Ok(()));
        let with = |change: fn(&mut Entry)| {
            let mut changed = entry("clock", "Tells the time.");
            change(&mut changed);
            changed.check().unwrap_err()
        };
        for (change, word) in [
            ((|it| it.id = "a__b".to_owned()) as fn(&mut Entry), "without '__'"),
            (|it| it.id = "x".repeat(33), "at most 32"),
            (|it| it.title = "a\nb".to_owned(), "one line"),
            (|it| it.description = "Tells\u{200b} the time.".to_owned(), "invisible"),
            (|it| it.description = "\u{e0041}".repeat(3), "invisible"),
            (|it| it.entry = "../server".to_owned(), "name of a program"),
            (|it| it.entry = "-c".to_owned(), "name of a program"),
            (|it| it.requirements = vec!["server==1.0".to_owned()], "no hash"),
            (|it| it.requirements = vec![it.requirements[0].replace("==", ">=")], "no exact version"),
            (|it| it.requirements = vec![it.requirements[0].replace("==1.0", "==1.*")], "no exact version"),
            (|it| it.requirements = vec![format!("{} --index-url=x", it.requirements[0])], "no exact version"),
            (|it| it.requirements = vec![it.requirements[0].replace("sha256:0", "md5:0")], "no hash"),
            (|it| it.requirements.clear(), "1 to 256"),
            (|it| drop(it.tools.insert("x".to_owned(), Pin::new())), "SHA-256 of inputSchema"),
            (|it| drop(it.tools.get_mut("now").unwrap().insert("icon".to_owned(), "0".repeat(64))), "unknown part"),
        ] {
            let reason = with(change);
            assert!(reason.contains(word), "{word}: {reason}");
        }
    }

    #[test]
    fn its_manifest_demands_a_strict_jail_its_pins_and_every_hash() {
        let text = entry("clock", "Tells the time.").manifest();
        let rules = crate::manifest::Rules { allowed_root: std::path::Path::new("/"), toolset: None };
        let manifest =
            crate::manifest::Manifest::parse(std::path::Path::new("/tools/clock/clock.json"), &text, rules).unwrap();
        assert_eq!(manifest.jail.level, openskill_sandbox::jail::Level::Strict);
        let crate::manifest::RunnerSpec::Mcp(mcp) = manifest.how else { panic!("no server") };
        assert_eq!(mcp.pin, crate::manifest::mcp::Pinning::Strict);
        assert!(mcp.isolated && mcp.needs.require_hashes && !mcp.needs.source_builds);
    }

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
