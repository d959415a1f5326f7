//! Operations while everything is killed: the short form of `make histories`.

use std::time::Duration;

use openskill_tests::history::kill;
use openskill_tests::history::plan::Plan;

#[tokio::test]
async fn a_history_stays_valid_while_gateways_and_workers_are_killed() {
    let plan = Plan::random(20_260_101, Duration::from_secs(9), 30, 3);
    let report = kill::run("test", plan, 1).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.events.len() > 100, "{report}");
}
