//! The evaluation of real models counts what it says it counts.

use openskill_tests::{binary, repository};
use tokio::process::Command;

#[tokio::test]
async fn calls_are_counted_as_valid_repaired_and_corrected() {
    let output = Command::new("python3")
        .args(["-B", "tests/evaluations/check.py"])
        .current_dir(repository())
        .env("OPENSKILL_BIN", binary())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let (table, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Of four tools one is never called, one is called well, one is repaired, and one call is refused: the feedback corrects
    // it, and a bare error does not.
    assert!(table.contains("| core | 4 | 1 | 1 | 1 | 1 | 1 | 0 |"), "{table}\n{log}");
}
