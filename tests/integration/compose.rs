//! Docker Compose: workers scale up and down under load without a failed call, and so do gateways behind a proxy.
//!
//! No image is pulled: the base image is made once, and kept. Without an engine the tests are skipped.

use std::ffi::OsString;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openskill_tests::alone::beside_others;
use openskill_tests::containers::docker;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
use openskill_tests::rest;
use openskill_tests::wait::until;
use serde_json::json;
use tokio::process::Command;

pub(crate) mod images;
mod observe;
mod parity;
mod replicas;

use images::Images;

/// `PATH`, with the Compose of `make test-venv`: that of the machine may be too old.
fn path() -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let venv = repository().join("target/test-venv/bin");
    std::env::join_paths(std::iter::once(venv).chain(std::env::split_paths(&own))).unwrap()
}

/// A project that is taken down when it is dropped.
struct Project {
    name: String,
    port: Port,
    images: Images,
    environment: Vec<(&'static str, String)>,
}

impl Project {
    fn new(name: &str, images: Images) -> Self {
        let name = format!("openskilltest{name}{}", std::process::id());
        Self { name, port: Port::reserve(), images, environment: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.environment.push((name, value.to_string()));
        self
    }

    async fn compose(&self, arguments: &[&str]) -> Output {
        self.compose_with(arguments, "1").await
    }

    async fn compose_with(&self, arguments: &[&str], workers: &str) -> Output {
        self.run(Command::new(repository().join("deploy/compose.sh")).args(arguments).env("WORKERS", workers)).await
    }

    /// The running containers of a service.
    fn containers(&self, service: &str) -> Vec<String> {
        let project = format!("label=com.docker.compose.project={}", self.name);
        let service = format!("label=com.docker.compose.service={service}");
        let listed = docker(&["ps", "--quiet", "--filter", &project, "--filter", &service]).unwrap();
        listed.lines().map(str::to_owned).collect()
    }

    /// The container of a service that has one.
    fn container(&self, service: &str) -> String {
        self.containers(service).concat()
    }

    /// What its health check says.
    fn is_healthy(&self, service: &str) -> bool {
        let format = "{{.State.Health.Status}}";
        docker(&["inspect", "--format", format, &self.container(service)]).is_ok_and(|it| it == "healthy")
    }

    /// A file of its secrets.
    fn secret(&self, name: &str) -> std::path::PathBuf {
        let folder = self.environment.iter().find(|(name, _)| *name == "OPENSKILL_SECRETS").unwrap();
        std::path::Path::new(&folder.1).join(name)
    }

    /// `make compose-up`, as somebody who does not say how many workers there should be.
    async fn make(&self) -> Output {
        let root = repository();
        let mut make = Command::new("make");
        self.run(make.arg("-C").arg(root).arg("compose-up").env_remove("WORKERS").env_remove("MAKEFLAGS")).await
    }

    async fn run(&self, command: &mut Command) -> Output {
        let output = command
            .env("PATH", path())
            .env("COMPOSE_PROJECT_NAME", &self.name)
            .env("OPENSKILL_TAG", self.images.tag())
            .env("OPENSKILL_PORT", self.port.number().to_string())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command:?}: {stderr}");
        output
    }

    async fn echo(&self) -> rest::Answer {
        self.call("echo", json!({"text": "hello"})).await
    }

    async fn call(&self, skill: &str, input: serde_json::Value) -> rest::Answer {
        let (path, body) = (format!("/skills/{skill}:invoke"), json!({ "input": input }).to_string());
        rest::send(self.port.address(), http::Method::POST, &path, &[], body).await
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
            // Nothing looks at how containers end here.
            .args(["down", "--volumes", "--timeout", "0"])
            .env("PATH", path())
            .env("COMPOSE_PROJECT_NAME", &self.name)
            .env("OPENSKILL_TAG", self.images.tag())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .output();
        let _ = down;
    }
}

#[tokio::test]
async fn scaling_workers_with_compose_loses_no_call() {
    let _turn = beside_others();
    let Some(images) = Images::or_skip() else { return };
    let project = Arc::new(Project::new("scale", images));
    project.compose(&["up"]).await;
    project.wait_for(1).await;
    let answer = project.echo().await;
    assert_eq!(answer.json()["data"], json!({"echoed": "hello"}), "{answer:?}");
    let answer = project.call("log_transform", json!({"input_path": "data/logs/app.log", "limit": 1})).await;
    assert_eq!(answer.status, 200, "the image has the data that the pages use: {answer:?}");

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

    project.compose(&["scale", "2"]).await;
    project.wait_for(2).await;
    project.make().await;
    project.wait_for(2).await;
}

/// No engine is needed for that, and no image.
#[test]
fn both_files_are_valid_with_every_profile_and_images_are_arguments() {
    let is_plugin = docker(&["compose", "version"]).is_ok();
    let mut command = std::process::Command::new(if is_plugin { "docker" } else { "docker-compose" });
    command.env("PATH", path());
    if is_plugin {
        command.arg("compose");
    }
    let images = ["COLLECTOR", "JAEGER", "PROMETHEUS", "GRAFANA", "NGINX"];
    let [plain, secure] = ["", ".secure"].map(|it| repository().join(format!("deploy/docker-compose{it}.yml")));
    command.arg("-f").arg(plain).arg("-f").arg(secure).arg("config").env("COMPOSE_PROFILES", "replicas,observe");
    command.envs(images.map(|it| (format!("{it}_IMAGE"), format!("own/{}:1", it.to_lowercase()))));
    let Ok(output) = command.output() else {
        return skip(Need::Compose, "there is no Compose; `make test-venv` installs it");
    };
    let config = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for image in images {
        assert!(config.contains(&format!("image: own/{}:1", image.to_lowercase())), "{image}: {config}");
    }
    // Each of the eight services bounds its logs. Compose prints what they share, too, after them.
    let services = config.split("\nx-").next().unwrap();
    assert_eq!(services.matches("max-size: 10m").count(), 8, "{config}");
}

#[test]
fn up_prints_the_address_that_clients_call() {
    let folder = Folder::new();
    let engine = "#!/bin/sh\ncase \"$*\" in *' port proxy 8080') echo 127.0.0.1:1;; \
                  *' port gateway 8000') echo 127.0.0.1:2;; *) echo some;; esac\n";
    let engine = folder.write("docker", engine);
    std::fs::set_permissions(engine, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    folder.write("ca.pem", "");
    let said = |environment: &[(&str, &str)]| {
        let mut up = std::process::Command::new(repository().join("deploy/compose.sh"));
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        up.arg("up").env("PATH", path).env("WORKERS", "1").env("OPENSKILL_SECRETS", folder.path());
        let up = up.env_remove("OPENSKILL_BINARY").envs(environment.iter().copied());
        String::from_utf8(up.output().unwrap().stdout).unwrap()
    };
    for (environment, url) in [
        (&[][..], "http://127.0.0.1:2"),
        (&[("COMPOSE_PROFILES", "observe,replicas")], "http://127.0.0.1:1"),
        (&[("COMPOSE_PROFILES", "replicas"), ("OPENSKILL_SECURE", "1")], "https://127.0.0.1:1"),
    ] {
        let said = said(environment);
        assert!(said.ends_with(&format!("ready with 1 worker(s): {url}\n")), "{said}");
    }
}

#[test]
fn make_sets_the_number_of_workers_only_if_somebody_says_it() {
    let plan = |argument: &[&str]| {
        let mut make = std::process::Command::new("make");
        make.arg("-C").arg(repository()).args(["--dry-run", "compose-up"]).args(argument);
        String::from_utf8(make.env_remove("WORKERS").env_remove("MAKEFLAGS").output().unwrap().stdout).unwrap()
    };
    assert!(!plan(&[]).contains("WORKERS="), "{}", plan(&[]));
    assert!(plan(&["WORKERS=3"]).contains("WORKERS=3 deploy/compose.sh up"), "{}", plan(&["WORKERS=3"]));
}

/// What `.dockerignore` leaves out, by the few forms of patterns that are in it.
fn is_left_out(path: &str) -> bool {
    let rules = std::fs::read_to_string(repository().join(".dockerignore")).unwrap();
    let rules = rules.lines().filter(|it| !it.is_empty() && !it.starts_with('#'));
    let matches = |pattern: &str| match pattern.rsplit_once("**/") {
        Some((folder, name)) => {
            let file = path.rsplit('/').next().unwrap();
            path.starts_with(folder) && name.strip_prefix('*').map_or(file == name, |end| file.ends_with(end))
        }
        None => path == pattern || path.starts_with(&format!("{pattern}/")),
    };
    rules.fold(false, |left_out, rule| match rule.strip_prefix('!') {
        Some(pattern) => left_out && !matches(pattern),
        None => left_out || matches(rule),
    })
}

#[test]
fn the_image_gets_every_file_of_the_data_and_the_skills() {
    assert!(is_left_out("gateway/trace.log") && is_left_out("deploy/server.key") && is_left_out("target/x"));
    let listed = std::process::Command::new("git")
        .arg("-C")
        .arg(repository())
        .args(["ls-files", "data", "worker/skills"])
        .output()
        .unwrap();
    let files = String::from_utf8(listed.stdout).unwrap();
    assert!(files.lines().any(|it| it == "data/logs/app.log"), "{files}");
    let left_out: Vec<_> = files.lines().filter(|it| is_left_out(it)).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

#[test]
fn the_seccomp_profile_lets_no_process_trace_another() {
    let calls = std::fs::read_to_string(repository().join("deploy/seccomp.json")).unwrap();
    for call in ["ptrace", "process_vm_readv", "process_vm_writev"] {
        assert!(!calls.contains(&format!("\"{call}\"")), "{call}");
    }
}

#[test]
fn the_gateway_alone_gets_the_variables_of_model_providers() {
    let reference = std::fs::read_to_string(repository().join("docs/configuration.md")).unwrap();
    let compose = std::fs::read_to_string(repository().join("deploy/docker-compose.yml")).unwrap();
    let gateway = compose.split("\n  gateway:").nth(1).unwrap().split("\n  worker:").next().unwrap();
    let is_name = |it: &&str| it.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let of_provider =
        |it: &&str| ["OPENAI_", "DASHSCOPE_", "ANTHROPIC_", "GEMINI_"].iter().any(|of| it.starts_with(of));
    let is_provider = |it: &&str| is_name(it) && of_provider(it);
    let names: std::collections::BTreeSet<_> = reference.split('`').filter(is_provider).collect();
    assert!(names.len() >= 13, "{names:?}");
    for name in names {
        assert_eq!(compose.matches(&format!(" {name}:\n")).count(), 1, "{name}");
        assert!(gateway.contains(&format!("      {name}:\n")), "{name}");
    }
}
