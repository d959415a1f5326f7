//! Follows the files of keys and of issuers. A new file that can't be used changes nothing, and is reported once.

use std::path::Path;
use std::sync::Arc;

use openskill_identity::file;
use openskill_identity::jwt::issuers::parse;
use openskill_identity::key_file::KeyFile;
use openskill_proto::timestamp::Timestamp;
use tokio::task::JoinSet;

use super::registry::Registry;
use crate::state::followed::{Followed, INTERVAL};

/// Reads the files again and again, until it is dropped.
pub(crate) async fn follow(registry: Arc<Registry>) {
    let (mut keys, mut issuers) = (Followed::new(file::text), Followed::new(file::text));
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
