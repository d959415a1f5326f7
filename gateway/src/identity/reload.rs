//! Follows the files of keys and of issuers. An invalid new file changes nothing, and is reported once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use openskill_identity::file;
use openskill_identity::jwt::issuers::parse;
use openskill_identity::key_file::KeyFile;
use openskill_net::file_watcher::{FileWatcher, INTERVAL};
use openskill_proto::timestamp::Timestamp;
use tokio::task::JoinSet;

use super::registry::Registry;

/// Polls the files until the future is dropped.
pub(crate) async fn follow(registry: Arc<Registry>) {
    let watcher = |path: PathBuf| FileWatcher::new(None, move || file::text(&path).map_err(|error| error.to_string()));
    let mut keys = registry.file.clone().map(watcher);
    let mut issuers = registry.tokens.as_ref().map(|tokens| watcher(tokens.file.clone()));
    let (mut followed, mut reading) = (Vec::new(), JoinSet::new());
    loop {
        if let Some(tokens) = &registry.tokens {
            tokens.follow_new(&mut followed).into_iter().for_each(|it| drop(reading.spawn(it)));
            while reading.try_join_next().is_some() {}
        }
        tokio::time::sleep(INTERVAL).await;
        registry.end_expired(Timestamp::now());
        if let Some(keys) = &mut keys
            && let Some(read) = keys.poll_change().await
        {
            match read.and_then(|text| KeyFile::parse(&text)) {
                Ok(contents) => {
                    let principals = contents.principals.len();
                    registry.replace(contents);
                    if keys.changes() > 1 {
                        tracing::info!(principals, "the key file was reloaded");
                    }
                }
                Err(reason) => tracing::error!(
                    reason,
                    "the key file cannot be used: the previous keys stay valid (OPENSKILL_KEYS)"
                ),
            }
        }
        if let (Some(tokens), Some(issuers)) = (&registry.tokens, &mut issuers)
            && let Some(read) = issuers.poll_change().await
        {
            let folder = tokens.file.parent().unwrap_or(Path::new("."));
            match read.and_then(|text| parse(&text, folder)) {
                Ok(parsed) => {
                    let count = parsed.len();
                    tokens.replace(parsed);
                    if issuers.changes() > 1 {
                        tracing::info!(issuers = count, "the issuer file was reloaded");
                    }
                }
                Err(reason) => tracing::error!(
                    reason,
                    "the issuer file cannot be used: the previous issuers stay valid (OPENSKILL_JWT)"
                ),
            }
        }
    }
}
