//! Creates and revokes keys in a key file. Edits preserve comments and order, and replace the file atomically: a
//! reader sees either the old or the new file.

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use openskill_proto::timestamp::Timestamp;
use serde::Serialize;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use crate::file::{self, FileError};
use crate::key::{KeyId, NewKey};
use crate::key_file::{KeyFile, MAX_KEYS, check_name};

/// The beginning of a new key file, before the first principal.
const HEAD: &str =
    "# Who may use the gateway. `openskill keys` edits this file; a running gateway reads changes within a second.\n";

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The existing file is unusable.
    #[error("{0}")]
    File(#[from] FileError),
    /// The change is invalid for this file.
    #[error("{0}")]
    Refused(String),
    /// The new file could not be written.
    #[error("it cannot be written: {0}")]
    Unwritable(std::io::Error),
}

impl From<String> for EditError {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

/// The policy of a new principal, with the fields of the file. Fields that are `None` or empty are omitted there.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NewPolicy {
    /// Skills that it may call. [`crate::policy::Policy`] documents this field and the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// Toolsets whose skills it may call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub toolsets: Vec<String>,
    /// Whether it may call destructive skills.
    pub destructive: Option<bool>,
    /// Whether its calls may ask their user questions.
    pub interactive: Option<bool>,
    /// Whether it may administer the gateway.
    pub admin: Option<bool>,
    /// The maximum number of calls per second.
    pub rate: Option<f64>,
    /// The maximum number of calls that may begin at once.
    pub burst: Option<u32>,
    /// The maximum number of calls in flight.
    pub in_flight: Option<usize>,
    /// The maximum number of argument bytes in flight.
    pub bytes: Option<usize>,
    /// The maximum number of session ids in use.
    pub sessions: Option<usize>,
}

/// Adds a key for a principal. Adds a new principal with this policy. Creates a missing file.
///
/// # Errors
/// The principal already has two keys; it exists and a policy is given; or the file is unusable or cannot be
/// written.
pub fn create(
    path: &Path,
    principal: &str,
    policy: &NewPolicy,
    expires: Option<Timestamp>,
) -> Result<NewKey, EditError> {
    check_name(principal)?;
    let path = &target(path);
    let lock = file::lock_folder(path).map_err(EditError::Unwritable)?;
    let mut document = open(path)?;
    let all = document.entry("principals").or_insert_with(implicit);
    let all = all.as_table_mut().ok_or_else(|| "write principals as [principals.NAME] tables".to_owned())?;
    let is_new = !all.contains_key(principal);
    if !is_new && *policy != NewPolicy::default() {
        return Err(format!("the principal '{principal}' already has a policy: change it in the file").into());
    }
    if is_new && policy.skills.is_empty() && policy.toolsets.is_empty() && policy.admin != Some(true) {
        let reason =
            format!("the principal '{principal}' is new: set the skills or toolsets that it may call, or admin");
        return Err(reason.into());
    }
    let written = toml_edit::ser::to_document(policy).map_err(|error| error.to_string())?;
    let entry = all.entry(principal).or_insert_with(|| Item::Table(written.into_table()));
    let entry = entry.as_table_mut().ok_or_else(|| format!("write [principals.{principal}] as a table"))?;
    if !path.exists() {
        entry.decor_mut().set_prefix(HEAD);
    }
    let keys = entry.entry("keys").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let keys =
        keys.as_array_of_tables_mut().ok_or_else(|| format!("write keys as [[principals.{principal}.keys]] tables"))?;
    if keys.len() >= MAX_KEYS {
        return Err(format!("the principal '{principal}' has {MAX_KEYS} keys: revoke one of them first").into());
    }
    let key = NewKey::generate();
    keys.push(key_table(&key, expires));
    store(path, &document, &lock)?;
    Ok(key)
}

/// Removes a key but not its principal. Returns the principal's name.
///
/// # Errors
/// The key does not exist, or the file is unusable or cannot be written.
pub fn revoke(path: &Path, id: KeyId) -> Result<String, EditError> {
    let path = &target(path);
    let lock = file::lock_folder(path).map_err(EditError::Unwritable)?;
    let contents = file::read(path)?;
    let mut owners = contents.principals.iter().filter(|(_, it)| it.keys.iter().any(|key| key.id == id));
    let Some((owner, _)) = owners.next() else {
        return Err(format!("there is no key {id}: `openskill keys list` lists all").into());
    };
    let mut document = open(path)?;
    let shown = id.to_string();
    let keys = document.get_mut("principals").and_then(|it| it.get_mut(owner)).and_then(|it| it.get_mut("keys"));
    let is_other = |id: Option<&str>| id != Some(shown.as_str());
    match keys {
        Some(Item::ArrayOfTables(keys)) => keys.retain(|key| is_other(key.get("id").and_then(Item::as_str))),
        Some(Item::Value(toml_edit::Value::Array(keys))) => {
            keys.retain(|key| is_other(key.as_inline_table().and_then(|it| it.get("id")?.as_str())));
        }
        _ => {}
    }
    store(path, &document, &lock)?;
    Ok(owner.clone())
}

fn implicit() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

/// Converts a key to a TOML table.
fn key_table(key: &NewKey, expires: Option<Timestamp>) -> Table {
    let shown = |time: Timestamp| value(time.seconds_text());
    let mut table = Table::new();
    table.insert("id", value(key.id.to_string()));
    table.insert("sha256", value(key.hash.to_string()));
    table.insert("created", shown(Timestamp::now()));
    if let Some(expires) = expires {
        table.insert("expires", shown(expires));
    }
    table
}

/// Resolves a symbolic link: an edit locks and replaces the target and keeps the link.
fn target(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Reads the file as a document. A missing file is an empty document.
fn open(path: &Path) -> Result<DocumentMut, EditError> {
    let text = match file::text(path) {
        Ok(text) => text,
        Err(FileError::Unreadable(_)) if !path.exists() => String::new(),
        Err(error) => return Err(error.into()),
    };
    KeyFile::parse(&text).map_err(FileError::Invalid)?;
    text.parse().map_err(|error: toml_edit::TomlError| FileError::Invalid(error.message().to_owned()).into())
}

/// Replaces the file and keeps its mode and owner. `folder` is its directory.
fn store(path: &Path, document: &DocumentMut, folder: &File) -> Result<(), EditError> {
    let text = document.to_string();
    KeyFile::parse(&text)?;
    if text.len() as u64 > file::MAX_BYTES {
        return Err(format!("the file would have more than {} bytes", file::MAX_BYTES).into());
    }
    let replaced = file::replace(path, text.as_bytes(), 0o600, |new| keep_access(path, new));
    // A revoked key must not reappear after a power loss.
    replaced.and_then(|()| folder.sync_all()).map_err(EditError::Unwritable)
}

/// Gives a new file the mode and owner of the one that it replaces, if there is one.
fn keep_access(path: &Path, new: &File) -> std::io::Result<()> {
    let (Ok(before), own) = (path.metadata(), new.metadata()?) else { return Ok(()) };
    if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
        std::os::unix::fs::fchown(new, Some(before.uid()), Some(before.gid()))?;
    }
    new.set_permissions(std::fs::Permissions::from_mode(before.mode() & 0o777))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::PresentedKey;

    struct TempFolder(PathBuf);

    impl TempFolder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("openskill-edit-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn keys(&self) -> PathBuf {
            self.0.join("keys.toml")
        }
    }

    impl Drop for TempFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn echo() -> NewPolicy {
        NewPolicy { skills: vec!["echo".to_owned()], rate: Some(2.0), interactive: Some(false), ..NewPolicy::default() }
    }

    #[test]
    fn a_key_is_created_used_and_revoked() {
        let folder = TempFolder::new("life");
        let path = folder.keys();
        let first = create(&path, "reports", &echo(), None).unwrap();
        let second = create(&path, "reports", &NewPolicy::default(), Some(Timestamp(4_000_000_000_000_000))).unwrap();
        let contents = file::read(&path).unwrap();
        let principal = &contents.principals["reports"];
        assert!(principal.policy.allows("echo", "", false) && !principal.policy.interactive);
        let presented = PresentedKey::parse(first.text.as_bytes()).unwrap();
        assert!(presented.hash.matches(&principal.keys[0].hash));
        assert_eq!(principal.keys[1].id, second.id);
        assert!(principal.keys[1].expires.is_some());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&first.text[21..]), "the secret is in the file: {text}");
        assert!(text.starts_with(HEAD) && text.matches(HEAD).count() == 1, "{text}");
        assert_eq!(revoke(&path, first.id).unwrap(), "reports");
        assert_eq!(file::read(&path).unwrap().principals["reports"].keys.len(), 1);
        assert!(revoke(&path, first.id).is_err(), "it is gone");
    }

    #[test]
    fn edits_at_the_same_time_lose_nothing_and_leave_nothing_behind() {
        let folder = TempFolder::new("race");
        let path = folder.keys();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || create(path, &format!("p{number}"), &echo(), None).unwrap());
            }
        });
        assert_eq!(file::read(&path).unwrap().principals.len(), 8);
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn comments_order_and_mode_stay_as_they_are() {
        let folder = TempFolder::new("comments");
        let path = folder.keys();
        std::fs::write(&path, "# Ours.\n[principals.b] # the second\nskills = [\"x\"]\n\n[principals.a]\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let key = create(&path, "b", &NewPolicy::default(), None).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# Ours.\n[principals.b] # the second\nskills = [\"x\"]\n"), "{text}");
        assert!(text.find("principals.b").unwrap() < text.find("principals.a").unwrap(), "{text}");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
        revoke(&path, key.id).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("# the second"));
    }

    #[test]
    fn a_third_key_a_second_policy_and_a_bad_name_are_refused_and_change_nothing() {
        let folder = TempFolder::new("refused");
        let path = folder.keys();
        create(&path, "a", &echo(), None).unwrap();
        create(&path, "a", &NewPolicy::default(), None).unwrap();
        let before = std::fs::read_to_string(&path).unwrap();
        for (name, policy) in [
            ("a", NewPolicy::default()),
            ("a", echo()),
            ("A", echo()),
            ("b", NewPolicy { rate: Some(-1.0), ..echo() }),
            ("b", NewPolicy { skills: vec!["e*".to_owned()], ..echo() }),
        ] {
            assert!(matches!(create(&path, name, &policy, None), Err(EditError::Refused(_))), "{name} {policy:?}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    }
}
