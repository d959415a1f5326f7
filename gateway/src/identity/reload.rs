//! Follows the file of keys. A new file that can't be used changes nothing, and is reported once.

use std::sync::Arc;
use std::time::Duration;

use openskill_identity::file;
use openskill_identity::roll::Roll;
use openskill_proto::timestamp::Timestamp;

use super::register::Register;

/// How often the file is read. A change counts when it was read twice, and with what a stream needs to end, that is less than a
/// second.
const INTERVAL: Duration = Duration::from_millis(250);

/// Reads the file again and again, until it is dropped. It reads all of it: times and sizes of files can miss a change. Two
/// reads must be equal: an editor that writes in place leaves a part of the file for a moment, and a part may be valid and
/// allow more than the whole.
pub(crate) async fn follow(register: Arc<Register>) {
    let (mut last, mut before) = (None, None);
    loop {
        tokio::time::sleep(INTERVAL).await;
        register.end_expired(Timestamp::now());
        let path = register.file.clone();
        // A file system that hangs must not keep the main thread.
        let Ok(read) = tokio::task::spawn_blocking(move || file::text(&path)).await else { continue };
        let is_settled = before.as_ref() == Some(&read);
        before = Some(read.clone());
        if !is_settled || last.as_ref() == Some(&read) {
            continue;
        }
        let parsed = read.as_ref().map_err(ToString::to_string).and_then(|text| Roll::parse(text));
        match parsed {
            Ok(roll) => {
                let (principals, is_first) = (roll.principals.len(), last.is_none());
                register.replace(roll);
                if !is_first {
                    tracing::info!(principals, "the file of keys was read again");
                }
            }
            Err(reason) => {
                tracing::error!(
                    reason,
                    "the file of keys cannot be used: the keys before it stay valid (OPENSKILL_KEYS)"
                );
            }
        }
        last = Some(read);
    }
}
