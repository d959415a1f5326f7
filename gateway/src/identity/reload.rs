//! Follows the files of keys and of issuers. A new file that can't be used changes nothing, and is reported once.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openskill_identity::file::{self, FileError};
use openskill_identity::jwt::issuers::parse;
use openskill_identity::key_file::KeyFile;
use openskill_proto::timestamp::Timestamp;
use tokio::task::JoinSet;

use super::registry::Registry;

/// How often the file is read. A change counts when it was read twice, and with what a stream needs to end, that is less than a
/// second.
const INTERVAL: Duration = Duration::from_millis(250);

/// Reads the files again and again, until it is dropped.
pub(crate) async fn follow(registry: Arc<Registry>) {
    let (mut keys, mut issuers) = (Followed::default(), Followed::default());
    let (mut followed, mut reading) = (Vec::new(), JoinSet::new());
    loop {
        if let Some(tokens) = &registry.tokens {
            tokens.follow_new(&mut followed).into_iter().for_each(|it| drop(reading.spawn(it)));
            while reading.try_join_next().is_some() {}
        }
        tokio::time::sleep(INTERVAL).await;
        registry.end_expired(Timestamp::now());
        if let Some(path) = &registry.file
            && let Some((read, is_first)) = keys.look(path).await
        {
            match read.and_then(|text| KeyFile::parse(&text)) {
                Ok(contents) => {
                    let principals = contents.principals.len();
                    registry.replace(contents);
                    if !is_first {
                        tracing::info!(principals, "the file of keys was read again");
                    }
                }
                Err(reason) => tracing::error!(
                    reason,
                    "the file of keys cannot be used: the keys before it stay valid (OPENSKILL_KEYS)"
                ),
            }
        }
        if let Some(tokens) = &registry.tokens
            && let Some((read, is_first)) = issuers.look(&tokens.file).await
        {
            let folder = tokens.file.parent().unwrap_or(Path::new("."));
            match read.and_then(|text| parse(&text, folder)) {
                Ok(issuers) => {
                    let count = issuers.len();
                    tokens.replace(issuers);
                    if !is_first {
                        tracing::info!(issuers = count, "the file of issuers was read again");
                    }
                }
                Err(reason) => tracing::error!(
                    reason,
                    "the file of issuers cannot be used: the issuers before it stay valid (OPENSKILL_JWT)"
                ),
            }
        }
    }
}

/// A file that is read again and again. All of it is read: times and sizes of files can miss a change. Two reads must be equal:
/// an editor that writes in place leaves a part of the file for a moment, and a part may be valid and allow more than the whole.
#[derive(Default)]
struct Followed {
    last: Option<Read>,
    before: Option<Read>,
}

type Read = Result<String, FileError>;

impl Followed {
    /// What the file has now, if that is something else than before, and whether it is the first time.
    async fn look(&mut self, path: &Path) -> Option<(Result<String, String>, bool)> {
        let path = path.to_owned();
        // A file system that hangs must not keep the main thread.
        let read = tokio::task::spawn_blocking(move || file::text(&path)).await.ok()?;
        let is_settled = self.before.as_ref() == Some(&read);
        self.before = Some(read.clone());
        if !is_settled || self.last.as_ref() == Some(&read) {
            return None;
        }
        let is_first = self.last.is_none();
        self.last = Some(read.clone());
        Some((read.map_err(|error| error.to_string()), is_first))
    }
}
