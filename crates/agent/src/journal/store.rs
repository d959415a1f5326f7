//! The database tables and transactions for conversations.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use parking_lot::RwLock;
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase as _, ReadableTable, StorageError, TableDefinition, WriteTransaction};

use super::meta::Meta;
use super::space::Space;
use crate::config::StoreLocation;
use crate::entry::{Entry, Stamped};
use crate::error::AgentError;

/// The size of the database cache in memory, in bytes.
const CACHE_BYTES: usize = 16 << 20;

/// Entries as JSON, by conversation id and number.
const ENTRIES: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("entries");

/// Conversation metadata ([`Meta`]) as JSON, by conversation id.
const CONVERSATIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("conversations");

/// Facts about the store itself.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");

/// The format of the stored data. Increment it when an older build would misread them.
const FORMAT: u64 = 1;

/// Index of conversations by principal and last use.
const BY_USE: TableDefinition<'_, (&str, u64, &str), ()> = TableDefinition::new("by_use");

/// The database of conversations, on disk or in memory.
#[derive(Debug)]
pub(super) struct Store {
    location: StoreLocation,
    /// `None` after a failure, until the database is reopened.
    database: RwLock<Option<Database>>,
}

pub(super) struct Transaction(WriteTransaction);

impl Store {
    /// Opens the store. Creates the file and its parent directories if they do not exist, accessible only to their
    /// owner.
    pub(super) fn open(location: &StoreLocation) -> Result<Self, AgentError> {
        let store = Self { location: location.clone(), database: RwLock::new(Some(database(location)?)) };
        // Readers require that all tables exist.
        let transaction = store.begin()?;
        transaction.tables()?;
        transaction.check_format().map_err(|reason| match location {
            StoreLocation::File(path) => AgentError::Store(format!("{}: {reason}", path.display())),
            StoreLocation::Memory => AgentError::Store(reason),
        })?;
        transaction.commit()?;
        Ok(store)
    }

    /// Reopens the database after a failure, because redb rejects all operations after a disk error.
    pub(super) fn reopen(&self) -> Result<(), AgentError> {
        // A store in memory can't have a disk error.
        if self.location == StoreLocation::Memory {
            return Ok(());
        }
        let mut current = self.database.write();
        drop(current.take());
        *current = Some(database(&self.location)?);
        Ok(())
    }

    /// Begins a transaction. Only one can be open at a time.
    pub(super) fn begin(&self) -> Result<Transaction, AgentError> {
        self.with_database(|database| Ok(Transaction(database.begin_write()?)))
    }

    /// Returns the metadata of a conversation.
    pub(super) fn meta(&self, id: &str) -> Result<Option<Meta>, AgentError> {
        self.with_database(|database| meta(&database.begin_read()?.open_table(CONVERSATIONS)?, id))
    }

    /// Returns entries after the number `after`, until their total size reaches `most` bytes.
    pub(super) fn read(&self, id: &str, after: u64, most: usize) -> Result<Vec<Stamped>, AgentError> {
        self.with_database(|database| {
            let table = database.begin_read()?.open_table(ENTRIES)?;
            let from = after.saturating_add(1);
            let (mut entries, mut bytes) = (Vec::new(), 0);
            for found in table.range((id, from)..=(id, u64::MAX))? {
                let found = found?.1;
                let stamped: Stamped = parse(found.value())?;
                bytes += found.value().len();
                entries.push(Stamped { bytes: found.value().len(), ..stamped });
                if bytes >= most {
                    break;
                }
            }
            Ok(entries)
        })
    }

    /// Returns conversations of a principal that were last used before a given time, most recently used first.
    pub(super) fn conversations(
        &self,
        principal: &str,
        before: Option<(u64, String)>,
        limit: usize,
    ) -> Result<Vec<(String, Meta)>, AgentError> {
        self.with_database(|database| {
            let transaction = database.begin_read()?;
            let (by_use, conversations) = (transaction.open_table(BY_USE)?, transaction.open_table(CONVERSATIONS)?);
            let (used, id) = before.as_ref().map_or((u64::MAX, "\u{10ffff}"), |(used, id)| (*used, id.as_str()));
            let mut page = Vec::new();
            for found in by_use.range((principal, 0, "")..(principal, used, id))?.rev().take(limit) {
                let key = found?.0;
                let id = key.value().2;
                if let Some(meta) = conversations.get(id)? {
                    page.push((id.to_owned(), parse(meta.value())?));
                }
            }
            Ok(page)
        })
    }

    /// Returns all conversations for which `wanted` returns true.
    pub(super) fn all(&self, wanted: impl Fn(&Meta) -> bool) -> Result<Vec<(String, Meta)>, AgentError> {
        self.with_database(|database| {
            let table = database.begin_read()?.open_table(CONVERSATIONS)?;
            let mut all = Vec::new();
            for found in table.iter()? {
                let (id, meta) = found?;
                let meta: Meta = parse(meta.value())?;
                if wanted(&meta) {
                    all.push((id.value().to_owned(), meta));
                }
            }
            Ok(all)
        })
    }

    fn with_database<T>(&self, act: impl FnOnce(&Database) -> Result<T, AgentError>) -> Result<T, AgentError> {
        let current = self.database.read();
        let database = current.as_ref().ok_or_else(|| AgentError::Store("the store is being reopened".to_owned()))?;
        act(database)
    }
}

impl Transaction {
    /// Opens all tables. Creates missing tables.
    fn tables(&self) -> Result<(), AgentError> {
        self.0.open_table(ENTRIES)?;
        self.0.open_table(CONVERSATIONS)?;
        self.0.open_table(BY_USE)?;
        Ok(())
    }

    /// Checks that this build knows the format of the data, which a new store does not name yet.
    fn check_format(&self) -> Result<(), String> {
        let text = |error: redb::Error| error.to_string();
        let mut about = self.0.open_table(ABOUT).map_err(|error| text(error.into()))?;
        let found = about.get("format").map_err(|error| text(error.into()))?.map(|it| it.value());
        match found {
            Some(FORMAT) => Ok(()),
            Some(other) => Err(format!(
                "its format is {other}, and this build knows {FORMAT}: start the build that wrote it, or move it away to begin \
                 with a new one"
            )),
            None => about.insert("format", FORMAT).map(drop).map_err(|error| text(error.into())),
        }
    }

    /// Creates a conversation.
    pub(super) fn create(&self, id: &str, principal: String, now: u64) -> Result<(), AgentError> {
        self.put(id, None, &Meta::new(principal, now))
    }

    /// Appends entries to a conversation if there is enough space. Changes nothing on failure.
    pub(super) fn append(
        &self,
        id: &str,
        entries: Vec<Entry>,
        now: u64,
        space: &mut Space,
    ) -> Result<Vec<Stamped>, AgentError> {
        let before = self.meta(id)?.ok_or(AgentError::NoConversation)?;
        let time_us = now.max(before.used_us);
        let mut json = Vec::with_capacity(entries.len());
        let mut written = Vec::with_capacity(entries.len());
        for (entry, number) in entries.into_iter().zip(before.last + 1..) {
            let mut stamped = Stamped { number, time_us, entry, bytes: 0 };
            let text = serde_json::to_vec(&stamped).map_err(|error| AgentError::Store(error.to_string()))?;
            stamped.bytes = text.len();
            written.push(stamped);
            json.push(text);
        }
        let mut meta = before.clone();
        written.iter().for_each(|it| meta.apply(it));
        space.take(id, &before, &meta, &written)?;
        let mut table = self.0.open_table(ENTRIES)?;
        for (stamped, json) in written.iter().zip(&json) {
            table.insert((id, stamped.number), json.as_slice())?;
        }
        self.put(id, Some(&before), &meta)?;
        Ok(written)
    }

    /// Deletes a conversation if it exists.
    pub(super) fn delete(&self, id: &str) -> Result<(), AgentError> {
        let Some(meta) = self.meta(id)? else { return Ok(()) };
        self.0.open_table(ENTRIES)?.retain_in((id, 0)..=(id, u64::MAX), |_, _| false)?;
        self.0.open_table(CONVERSATIONS)?.remove(id)?;
        self.0.open_table(BY_USE)?.remove((meta.principal.as_str(), meta.used_us, id))?;
        Ok(())
    }

    /// Commits all changes atomically and durably.
    pub(super) fn commit(self) -> Result<(), AgentError> {
        Ok(self.0.commit()?)
    }

    fn meta(&self, id: &str) -> Result<Option<Meta>, AgentError> {
        meta(&self.0.open_table(CONVERSATIONS)?, id)
    }

    fn put(&self, id: &str, before: Option<&Meta>, meta: &Meta) -> Result<(), AgentError> {
        let json = serde_json::to_vec(meta).map_err(unreadable)?;
        self.0.open_table(CONVERSATIONS)?.insert(id, json.as_slice())?;
        let mut by_use = self.0.open_table(BY_USE)?;
        if let Some(before) = before {
            by_use.remove((before.principal.as_str(), before.used_us, id))?;
        }
        by_use.insert((meta.principal.as_str(), meta.used_us, id), ())?;
        Ok(())
    }
}

impl<E: Into<redb::Error>> From<E> for AgentError {
    fn from(error: E) -> Self {
        Self::Store(match error.into() {
            redb::Error::Io(error) if error.kind() == ErrorKind::StorageFull => {
                "the disk is full: free some space, then continue".to_owned()
            }
            error => error.to_string(),
        })
    }
}

/// Returns the error for stored data that is not in the format of this program.
fn unreadable(error: serde_json::Error) -> AgentError {
    AgentError::Store(format!("the stored data can't be read: {error}"))
}

fn meta(table: &impl ReadableTable<&'static str, &'static [u8]>, id: &str) -> Result<Option<Meta>, AgentError> {
    table.get(id)?.map(|it| parse(it.value())).transpose()
}

fn parse<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, AgentError> {
    serde_json::from_slice(json).map_err(unreadable)
}

fn database(location: &StoreLocation) -> Result<Database, AgentError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    match location {
        StoreLocation::Memory => {
            let made = builder.create_with_backend(InMemoryBackend::new());
            made.map_err(|error| AgentError::Store(error.to_string()))
        }
        StoreLocation::File(path) => {
            private(path).map_err(|error| AgentError::Store(format!("{}: {error}", path.display())))?;
            builder.create(path).map_err(|error| AgentError::Store(format!("{}: {}", path.display(), advice(&error))))
        }
    }
}

/// Creates the file and its directory if they do not exist, accessible only to their owner.
fn private(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    fs::OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path).map(drop)
}

fn advice(error: &redb::DatabaseError) -> String {
    use redb::DatabaseError::{DatabaseAlreadyOpen, LockProtocolMismatch, Storage};
    match error {
        DatabaseAlreadyOpen | LockProtocolMismatch => {
            "another process has it open: stop that process, or set another file".to_owned()
        }
        Storage(StorageError::Corrupted(_)) => {
            "it is damaged, or not a store of conversations: move it away to begin with a new one".to_owned()
        }
        Storage(StorageError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
            "it is not a store of conversations: move it away, or set another file".to_owned()
        }
        other => other.to_string(),
    }
}
