//! The scenarios of the conformance suite, as a driver of our own makes them.

use std::time::Duration;

use openskill_tests::folder::Folder;
use openskill_tests::repository;
use tokio::process::Command;

use super::{setup, skills};

#[tokio::test]
async fn every_scenario_of_the_conformance_suite_passes() {
    // A copy: whoever else may write the file of a checkout, nobody may write this one.
    let folder = Folder::new();
    let views = folder.write("views.toml", std::fs::read_to_string(skills().join("views.toml")).unwrap());
    let system = setup().with("OPENSKILL_MCP_VIEWS_FILE", views.display()).start().await;
    system.has_skill("blocks__test_refusal").await;
    let mut command = Command::new("python3");
    command.arg(repository().join("tests/clients/mcp_conformance.py")).arg(format!("{}/mcp", system.url()));
    // The schemas of the protocol are not part of the repository.
    command.arg("-").env("PYTHONDONTWRITEBYTECODE", "1").kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(300), command.output()).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("83 of 83 pass"), "{said}");
}
