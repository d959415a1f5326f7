//! Two gateways behind a proxy, with certificates and keys.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;
use openskill_tests::alone::beside_others;
use openskill_tests::certs::Client;
use openskill_tests::containers::{Image, docker};
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::require::{Need, skip};
use openskill_tests::rest::Answer;
use openskill_tests::soak::count;
use openskill_tests::wait::{until, until_true};
use serde_json::{Value, json};

use super::Project;
use super::images::Images;

/// How often a call is made again before it counts as failed. Each try is after a pause.
const TRIES: usize = 40;
const PAUSE: Duration = Duration::from_millis(100);

/// How many calls are made at a time.
const IN_FLIGHT: usize = 4;
/// How many calls run after each fault, at least.
const LEAST_SHARE: usize = 20;

/// A skill whose calls of one session go to one worker.
const WHO: &str = "id: who\ntype: cli\nruntime: exec\nentry: who.sh\naffinity: session\nidempotent: true\n";

/// What a client of the proxy has.
struct Caller {
    client: Client,
    proxy: Port,
    key: String,
}

impl Caller {
    async fn call(&self, skill: &str, input: Value, key: &str) -> std::io::Result<Answer> {
        self.call_as(&self.key, skill, input, key).await
    }

    async fn call_as(&self, api_key: &str, skill: &str, input: Value, key: &str) -> std::io::Result<Answer> {
        let bearer = format!("Bearer {api_key}");
        let headers = [("authorization", &bearer[..]), ("idempotency-key", key), ("content-type", "application/json")];
        let (path, body) = (format!("/skills/{skill}:invoke"), json!({ "input": input }).to_string());
        self.client.try_send(self.proxy.address(), Method::POST, &path, &headers, body).await
    }

    /// Calls until there is an answer other than a refusal. The idempotency key makes that safe.
    /// Returns how often it was made again.
    async fn retried(&self, number: usize) -> Result<usize, String> {
        let (key, input) = (format!("call-{number}"), json!({"text": format!("{number}")}));
        let mut last = String::new();
        for again in 0..TRIES {
            let answer = self.call("echo", input.clone(), &key).await;
            if let Ok(answer) = &answer
                && answer.status == 200
            {
                assert_eq!(answer.json()["data"]["echoed"], json!(format!("{number}")));
                return Ok(again);
            }
            last = format!("{answer:?}");
            tokio::time::sleep(PAUSE).await;
        }
        Err(last)
    }
}

#[tokio::test]
async fn two_gateways_behind_a_proxy_share_sessions_and_restart_without_a_failed_call() {
    let _turn = beside_others();
    let Some(nginx) = Image::of(&["nginx"]) else {
        return skip(Need::Nginx, "nginx is not here; install it: apt-get install nginx-light");
    };
    let Some(images) = Images::or_skip() else { return };
    images.are_small_labelled_and_bare();
    let (folder, proxy, grpc) = (Folder::new(), Port::reserve(), Port::reserve());
    folder.write("skills/who.yaml", WHO);
    let script = folder.write("skills/who.sh", "#!/bin/sh\ncat > /dev/null\necho '{}'\n");
    std::fs::set_permissions(script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let project = Project::new("replicas", images)
        .with("OPENSKILL_SECURE", 1)
        .with("OPENSKILL_SECRETS", folder.path().join("secrets").display())
        .with("OPENSKILL_OWN_SKILLS", folder.path().join("skills").display())
        .with("COMPOSE_PROFILES", "replicas")
        .with("NGINX_IMAGE", &nginx.id)
        .with("PROXY_PORT", proxy.number())
        .with("PROXY_GRPC_PORT", grpc.number());
    project.compose_with(&["up"], "2").await;
    let read = |name: &str| std::fs::read_to_string(folder.path().join("secrets").join(name)).unwrap();
    let caller = Caller {
        client: Client::trusting(&folder.path().join("secrets/ca.pem")),
        proxy,
        key: read("admin.key").trim().to_owned(),
    };
    until("the proxy and both gateways serve calls", Duration::from_secs(60), || async {
        let healthy = ["gateway", "gateway-2"].map(|it| project.is_healthy(it));
        let answer = caller.retried(0).await;
        (healthy == [true, true] && answer.is_ok()).then_some(())
    })
    .await;
    let stranger = caller.call_as("osk_0_0", "echo", json!({"text": "a"}), "k").await.unwrap();
    assert_eq!(stranger.status, 401);

    share_sessions(&project);
    loses_no_call(&project, Arc::new(caller)).await;
}

/// A session is on one worker, whichever gateway a call came to.
fn share_sessions(project: &Project) {
    let worker_of = |gateway: &str, session: &str| {
        let token = std::fs::read_to_string(project.secret("admin.key")).unwrap();
        let client = ["openskill", "invoke", "who", "--full", "--session", session];
        let gateway_flags = ["--url", "https://127.0.0.1:8000", "--ca", "/run/secrets/ca.pem", "--token", token.trim()];
        let container = project.container(gateway);
        let said = docker(&[&["exec", &container][..], &client, &gateway_flags].concat()).unwrap();
        let result: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
        result["meta"]["worker_id"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let mut workers = std::collections::BTreeSet::new();
    for number in 0..12 {
        let session = format!("session-{number}");
        let [one, other] = ["gateway", "gateway-2"].map(|it| worker_of(it, &session));
        assert_eq!(one, other, "{session}");
        workers.insert(one);
    }
    assert_eq!(workers.len(), 2, "the sessions of twelve are on both workers: {workers:?}");
}

/// The calls of a load so far.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    finished: AtomicUsize,
    /// Calls that were made more than once, and how often in all.
    repeated: AtomicUsize,
    repeats: AtomicUsize,
    /// The first call that failed for good.
    failure: OnceLock<String>,
}

impl Load {
    fn finished(&self) -> usize {
        self.finished.load(Ordering::Relaxed)
    }

    /// Makes numbered calls, one after the other, until it is stopped or one fails.
    async fn run(&self, caller: &Caller, first: usize) {
        for number in (first..).step_by(IN_FLIGHT) {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            match caller.retried(number).await {
                Ok(again) => {
                    self.finished.fetch_add(1, Ordering::Relaxed);
                    self.repeated.fetch_add(usize::from(again > 0), Ordering::Relaxed);
                    self.repeats.fetch_add(again, Ordering::Relaxed);
                }
                Err(last) => return drop(self.failure.set(format!("call {number}: {last}"))),
            }
        }
    }

    /// Waits until so many calls have ended in all.
    async fn reaches(&self, count: usize) {
        let limit = Duration::from_secs(60) + Duration::from_millis(100) * count as u32;
        let has_reached = || {
            assert!(self.failure.get().is_none(), "{:?}", self.failure.get());
            self.finished() >= count
        };
        until_true("calls end", limit, has_reached).await;
    }

    /// Waits until so many calls have ended since now.
    async fn progresses(&self, count: usize) {
        self.reaches(self.finished() + count).await;
    }
}

/// Under load, one gateway after the other restarts, a worker is killed, another is cut off from its network and joined again, and
/// the number of workers changes. At least an eighth of the calls run after each fault.
async fn loses_no_call(project: &Project, caller: Arc<Caller>) {
    let (wanted, load) = (count(160, 20_000), Arc::new(Load::default()));
    let share = (wanted / 8).max(LEAST_SHARE);
    let mut tasks = tokio::task::JoinSet::new();
    for first in 1..=IN_FLIGHT {
        let (caller, load) = (Arc::clone(&caller), Arc::clone(&load));
        tasks.spawn(async move { load.run(&caller, first).await });
    }
    for gateway in ["gateway", "gateway-2"] {
        let before = load.finished();
        let container = project.container(gateway);
        let restarted = tokio::process::Command::new("docker").args(["restart", "--time", "30", &container]).output();
        assert!(restarted.await.unwrap().status.success());
        let healthy = format!("{gateway} is healthy");
        until_true(&healthy, Duration::from_secs(60), || project.is_healthy(gateway)).await;
        assert!(load.finished() > before, "calls run meanwhile");
        load.progresses(share).await;
    }
    let worker = project.containers("worker").remove(0);
    docker(&["kill", &worker]).unwrap();
    load.progresses(share).await;
    project.compose(&["scale", "4"]).await;
    let (hop, worker) = (format!("{}_hop", project.name), project.containers("worker").remove(0));
    docker(&["network", "disconnect", &hop, &worker]).unwrap();
    load.progresses(share).await;
    docker(&["network", "connect", "--alias", "worker", &hop, &worker]).unwrap();
    load.progresses(share).await;
    project.compose(&["scale", "1"]).await;
    load.progresses(share).await;
    load.reaches(wanted).await;
    load.stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    assert!(load.failure.get().is_none(), "{:?}", load.failure.get());
    let [repeated, repeats] = [&load.repeated, &load.repeats].map(|it| it.load(Ordering::Relaxed));
    eprintln!("{} calls, none failed; {repeated} were made again, {repeats} times in all", load.finished());
}
