//! What is there at the end.

use std::time::{Duration, Instant};

use openskill_proto::v1::OperationState;

use super::Event;
use super::client::{Client, metadata, outcome};
use super::journal::{Journal, now_ms};

/// How long operations may take to end once nothing is killed any more. The longest pause between two attempts is shorter.
const LIMIT: Duration = Duration::from_secs(90);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Cancels what is scheduled, waits until everything has ended, and writes down every operation. What has not ended in time
/// is written down as it is.
pub async fn audit(client: &mut Client, journal: &Journal) {
    let begun = Instant::now();
    for scheduled in client.list("state = scheduled").await.unwrap() {
        // What was postponed is scheduled, too. Its time has come soon.
        let metadata = metadata(&scheduled);
        let start = metadata.start_at.map_or(0, |it| it.seconds.unsigned_abs());
        if start > now_ms() / 1000 + LIMIT.as_secs() {
            journal.add(&Event::Listed { key: metadata.trace_id.clone(), operation: scheduled.name.clone() });
            client.cancel(&metadata.trace_id, &scheduled.name).await;
        }
    }
    while begun.elapsed() < LIMIT && !client.list("done = false").await.unwrap().is_empty() {
        tokio::time::sleep(PAUSE).await;
    }
    for listed in client.list("").await.unwrap() {
        let operation = client.get(&listed.name).await.unwrap();
        let metadata = metadata(&operation);
        let state = metadata.state().as_str_name().trim_start_matches("OPERATION_STATE_").to_owned();
        let is_end =
            matches!(metadata.state(), OperationState::Succeeded | OperationState::Failed | OperationState::Cancelled);
        assert_eq!(is_end, operation.done, "{operation:?}");
        let outcome = outcome(&operation);
        journal.add(&Event::Final { key: metadata.trace_id, operation: operation.name, state, outcome });
    }
}
