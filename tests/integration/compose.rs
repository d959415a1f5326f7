//! Docker Compose: workers scale up and down under load without a failed call.
//!
//! No image is pulled: the base image is made once, and kept. Without an engine the test is skipped.

use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openskill_tests::alone::beside_others;
use openskill_tests::port::Port;
use openskill_tests::require::{Need, skip};
use openskill_tests::rest;
use openskill_tests::wait::until;
use openskill_tests::{binary, repository};
use serde_json::json;
use tokio::process::Command;

const NOT_AVAILABLE: i32 = 3;

/// A project that is taken down when it is dropped.
struct Project {
    name: String,
    port: Port,
}

impl Project {
    fn new() -> Self {
        Self { name: format!("openskilltest{}", std::process::id()), port: Port::reserve() }
    }

    async fn compose(&self, arguments: &[&str]) -> Output {
        let output = Command::new(repository().join("deploy/compose.sh"))
            .args(arguments)
            .env("COMPOSE_PROJECT_NAME", &self.name)
            .env("OPENSKILL_TAG", &self.name)
            .env("OPENSKILL_PORT", self.port.number().to_string())
            .env("OPENSKILL_BINARY", binary())
            .env("WORKERS", "1")
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || output.status.code() == Some(NOT_AVAILABLE), "{arguments:?}: {stderr}");
        output
    }

    async fn echo(&self) -> rest::Answer {
        let body = json!({"input": {"text": "hello"}}).to_string();
        rest::send(self.port.address(), http::Method::POST, "/skills/echo:invoke", &[], body).await
    }

    async fn workers_up(&self) -> u64 {
        let answer = rest::send(self.port.address(), http::Method::GET, "/readyz", &[], "").await;
        answer.json()["workers"]["up"].as_u64().unwrap_or_default()
    }

    async fn wait_for(&self, workers: u64) {
        let what = format!("{workers} workers are up");
        until(&what, Duration::from_secs(60), || async { (self.workers_up().await == workers).then_some(()) }).await;
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let down = std::process::Command::new(repository().join("deploy/compose.sh"))
            .args(["down", "--volumes"])
            .env("COMPOSE_PROJECT_NAME", &self.name)
            .env("OPENSKILL_TAG", &self.name)
            .output();
        let _ = down;
        let image = format!("openskill:{}", self.name);
        let _ = std::process::Command::new("docker").args(["image", "rm", "-f", &image]).output();
        let stage = ["image", "prune", "-f", "--filter", "label=openskill.stage=build"];
        let _ = std::process::Command::new("docker").args(stage).output();
    }
}

/// Makes the base image if it is missing. An error if no engine answers.
async fn engine() -> Result<(), String> {
    let docker = Command::new("docker").arg("version").output().await.map_err(|error| error.to_string())?;
    if !docker.status.success() {
        return Err(String::from_utf8_lossy(&docker.stderr).trim().to_owned());
    }
    let script = repository().join("deploy/make-base-image.sh");
    let made = Command::new(script).arg("debian:bookworm-slim").stdin(Stdio::null()).output().await.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

#[tokio::test]
async fn scaling_workers_with_compose_loses_no_call() {
    let _turn = beside_others();
    if let Err(reason) = engine().await {
        skip(Need::Docker, &format!("no container engine answers ({reason}); install one: apt-get install docker.io"));
        return;
    }
    let project = Arc::new(Project::new());
    let up = project.compose(&["up"]).await;
    if up.status.code() == Some(NOT_AVAILABLE) {
        skip(Need::Compose, String::from_utf8_lossy(&up.stderr).trim());
        return;
    }
    project.wait_for(1).await;
    let answer = project.echo().await;
    assert_eq!(answer.json()["data"], json!({"echoed": "hello"}), "{answer:?}");

    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let (project, stop) = (Arc::clone(&project), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut answers = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                answers.push(project.echo().await);
            }
            answers
        })
    };
    project.compose(&["scale", "3"]).await;
    project.wait_for(3).await;
    project.compose(&["scale", "1"]).await;
    project.wait_for(1).await;
    stop.store(true, Ordering::Relaxed);
    let answers = load.await.unwrap();
    let failed: Vec<_> = answers.iter().filter(|answer| answer.status != 200).collect();
    assert!(failed.is_empty(), "{} of {} failed: {:?}", failed.len(), answers.len(), failed.first());
    assert!(answers.len() > 5, "{}", answers.len());
}
