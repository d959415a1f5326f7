//! What is there at the end.

use std::time::{Duration, Instant};

use openskill_proto::longrunning::{ListOperationsRequest, Operation};
use openskill_proto::v1::OperationState;
use tonic::Status;

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
    for scheduled in list(client, "state = scheduled").await.unwrap() {
        // What was postponed is scheduled, too. Its time has come soon.
        let metadata = metadata(&scheduled);
        let start = metadata.start_at.map_or(0, |it| it.seconds.unsigned_abs());
        if start > now_ms() / 1000 + LIMIT.as_secs() {
            journal.add(&Event::Listed { key: metadata.trace_id.clone(), operation: scheduled.name.clone() });
            client.cancel(&metadata.trace_id, &scheduled.name).await;
        }
    }
    while begun.elapsed() < LIMIT && !list(client, "done = false").await.unwrap().is_empty() {
        tokio::time::sleep(PAUSE).await;
    }
    for listed in list(client, "").await.unwrap() {
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

/// Lists all operations that match, page by page.
async fn list(client: &mut Client, filter: &str) -> Result<Vec<Operation>, Status> {
    let (mut found, mut page_token) = (Vec::new(), String::new());
    loop {
        let request =
            ListOperationsRequest { filter: filter.to_owned(), page_token, page_size: 40, ..Default::default() };
        let page = client.operations.list_operations(request).await?.into_inner();
        found.extend(page.operations);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(found);
        }
    }
}
