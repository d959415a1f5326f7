//! Workers that are discovered, killed, restarted, drained and ejected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{InvokeRequest, SkillResult, WorkerStatus};
use openskill_tests::alone::alone;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Process, Setup, System, code, data, request};
use openskill_tests::wait::{until, until_true};
use rustix::process::Signal;
use serde_json::json;
use tonic::transport::Channel;

async fn up_count(system: &System) -> usize {
    system.workers().await.iter().filter(|worker| worker.status() == WorkerStatus::Up).count()
}

async fn wait_for_workers(system: &System, wanted: usize, limit: Duration) {
    let what = format!("{wanted} workers are up");
    until(&what, limit, || async { (up_count(system).await == wanted).then_some(()) }).await;
}

#[tokio::test]
async fn a_killed_worker_fails_only_its_running_calls_and_restarts_within_two_seconds() {
    let _alone = alone();
    let system = Setup::up().start().await;
    let stop = Arc::new(AtomicBool::new(false));
    let finished = Arc::new(AtomicUsize::new(0));
    let mut load = Vec::new();
    for _ in 0..8 {
        let (stop, finished) = (Arc::clone(&stop), Arc::clone(&finished));
        let mut client = system.skills().await;
        load.push(async move {
            let mut results = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let call = request("in_wait", json!({"ms": 20}));
                results.push(client.invoke(call).await.unwrap().into_inner());
                finished.fetch_add(1, Ordering::Relaxed);
            }
            results
        });
    }
    let load = tokio::spawn(futures_util::future::join_all(load));
    until_true("calls run", PATIENCE, || finished.load(Ordering::Relaxed) > 50).await;
    let victim = system.worker_pids()[0];
    processes::send(victim, Signal::KILL);
    let killed = Instant::now();
    until_true("the worker is dead", PATIENCE, || !processes::is_alive(victim)).await;
    until("both workers are up again", PATIENCE, || async {
        let replaced = !system.worker_pids().contains(&victim) && system.worker_pids().len() == 2;
        (replaced && up_count(&system).await == 2).then_some(())
    })
    .await;
    let back = killed.elapsed();
    let before = finished.load(Ordering::Relaxed);
    until_true("calls continue", PATIENCE, || finished.load(Ordering::Relaxed) > before + 50).await;
    stop.store(true, Ordering::Relaxed);
    let results: Vec<SkillResult> = load.await.unwrap().into_iter().flatten().collect();
    let failed: Vec<_> = results.iter().filter(|result| !result.success).collect();
    // Eight callers had at most eight calls in flight.
    assert!(failed.len() <= 8, "{} failed: {:?}", failed.len(), failed.first());
    assert!(failed.iter().all(|result| code(result) == "UNAVAILABLE"), "{:?}", failed.first());
    assert!(back < Duration::from_secs(2), "back after {back:?}");
}

#[tokio::test]
async fn an_idempotent_call_is_retried_on_another_worker_and_others_are_not() {
    let _alone = alone();
    let folder = Folder::new();
    let system = Setup::up().data(folder.path()).start().await;
    for (skill, streamed, survives) in [
        ("naps_idempotent", false, true),
        ("naps_idempotent", true, true),
        ("naps", false, false),
        ("naps", true, false),
    ] {
        let mark = folder.path().join(format!("{skill}-{streamed}.mark"));
        let call_id = format!("{skill}-{streamed}-{}", std::process::id());
        let input = json!({"seconds": 1.5, "mark": mark});
        let call = InvokeRequest { call_id: call_id.clone(), ..request(skill, input) };
        let client = system.skills().await;
        let running = tokio::spawn(call_once(client, call, streamed));
        until_true("the skill has started", PATIENCE, || mark.exists()).await;
        let busy = until("one worker is busy", PATIENCE, || async {
            system.workers().await.into_iter().find(|worker| worker.in_flight > 0)
        })
        .await;
        let number: usize = busy.worker_id.trim_start_matches("worker-").parse().unwrap();
        let victim = pid_of_worker(&system, number);
        processes::send(victim, Signal::KILL);
        let result = running.await.unwrap();
        let starts = std::fs::read_to_string(&mark).unwrap().lines().count();
        if survives {
            assert_eq!(data(&result), json!({"slept": 1.5}));
            assert_eq!((starts, result.meta.unwrap().attempts), (2, 2));
        } else {
            assert_eq!((code(&result), starts), ("UNAVAILABLE", 1), "{result:?}");
        }
        processes::gone(&call_id, Duration::from_secs(2)).await;
        wait_for_workers(&system, 2, PATIENCE).await;
    }
}

async fn call_once(mut client: SkillServiceClient<Channel>, call: InvokeRequest, streamed: bool) -> SkillResult {
    if !streamed {
        return client.invoke(call).await.unwrap().into_inner();
    }
    let mut events = client.invoke_stream(call).await.unwrap().into_inner();
    loop {
        if let Some(Event::Result(result)) = events.message().await.unwrap().unwrap().event {
            return result;
        }
    }
}

fn pid_of_worker(system: &System, number: usize) -> i32 {
    processes::children(system.process.pid(), &format!("--id worker-{number} "))[0]
}

#[tokio::test]
async fn gateway_and_worker_processes_are_named_openskill() {
    let system = Setup::up().start().await;
    let gateway = system.process.pid();
    let workers = processes::children(gateway, "openskill worker");
    assert_eq!(workers.len(), 2);
    for pid in workers.into_iter().chain([gateway]) {
        assert_eq!(std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "openskill\n");
    }
}

#[tokio::test]
async fn calls_without_a_worker_fail_fast_as_unavailable() {
    let gateway = gateway("unix:/nonexistent/worker.sock").await;
    let refused = gateway.skills().await.invoke(request("in_echo", json!({}))).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused:?}");
    assert_eq!(gateway.get("/readyz").await.status, 503);
    let workers = gateway.workers().await;
    assert_eq!((workers.len(), workers[0].status()), (1, WorkerStatus::Down));
    assert!(!workers[0].reason.is_empty());
}

/// A gateway by itself, with or without workers.
pub(crate) async fn gateway(workers: &str) -> System {
    // Held until gateway listening.
    let port = Port::reserve();
    let listen = port.address().to_string();
    let process = Setup::command(&["gateway", "--listen", &listen, "--workers", workers]).spawn();
    process.log.line(&["gateway listening"]).await;
    let system = System { address: port.address(), process };
    until("the gateway answers", PATIENCE, || async { tokio::net::TcpStream::connect(system.address).await.ok() })
        .await;
    system
}

async fn worker(listen: &str, id: &str) -> Process {
    let skills = openskill_tests::fixtures().display().to_string();
    let process = Setup::command(&["worker", "--listen", listen, "--id", id, "--skills-dir", &skills]).spawn();
    process.log.line(&["worker ready", id]).await;
    process
}

#[tokio::test]
async fn workers_in_a_socket_folder_are_discovered_and_forgotten() {
    let folder = Folder::new();
    let gateway = gateway(&format!("unix:{}/*.sock", folder.path().display())).await;
    let socket = |name: &str| format!("unix:{}/{name}.sock", folder.path().display());
    let mut first = worker(&socket("one"), "one").await;
    wait_for_workers(&gateway, 1, PATIENCE).await;
    let _second = worker(&socket("two"), "two").await;
    wait_for_workers(&gateway, 2, PATIENCE).await;
    first.terminate();
    assert!(first.ended().await.success());
    wait_for_workers(&gateway, 1, PATIENCE).await;
    std::fs::remove_file(folder.path().join("one.sock")).unwrap();
    until("the removed worker is forgotten", PATIENCE, || async { (gateway.workers().await.len() == 1).then_some(()) })
        .await;
    let result = gateway.invoke(request("in_echo", json!({"n": 1}))).await;
    assert_eq!(result.meta.unwrap().worker_id, "two");
}

#[tokio::test]
async fn workers_are_discovered_by_list_and_by_dns() {
    let (one, two) = (Port::reserve(), Port::reserve());
    let _first = worker(&one.address().to_string(), "one").await;
    let _second = worker(&two.address().to_string(), "two").await;
    let listed = gateway(&format!("http://{},http://{}", one.address(), two.address())).await;
    wait_for_workers(&listed, 2, PATIENCE).await;
    let named = gateway(&format!("dns://localhost:{}", one.number())).await;
    wait_for_workers(&named, 1, PATIENCE).await;
    assert!(named.invoke(request("in_echo", json!({}))).await.success);
}

#[tokio::test]
async fn restarting_a_worker_under_load_fails_no_call() {
    let folder = Folder::new();
    let gateway = gateway(&format!("unix:{}/*.sock", folder.path().display())).await;
    let socket = |name: &str| format!("unix:{}/{name}.sock", folder.path().display());
    let mut first = worker(&socket("one"), "one").await;
    let _second = worker(&socket("two"), "two").await;
    wait_for_workers(&gateway, 2, PATIENCE).await;
    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let stop = Arc::clone(&stop);
        let mut client = gateway.skills().await;
        tokio::spawn(async move {
            let mut results = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                results.push(client.invoke(request("in_wait", json!({"ms": 5}))).await.unwrap().into_inner());
            }
            results
        })
    };
    for _ in 0..3 {
        first.terminate();
        assert!(first.ended().await.success());
        first = worker(&socket("one"), "one").await;
        wait_for_workers(&gateway, 2, PATIENCE).await;
    }
    stop.store(true, Ordering::Relaxed);
    let results = load.await.unwrap();
    assert!(results.len() > 10);
    let failed: Vec<_> = results.iter().filter(|result| !result.success).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test]
async fn a_drained_worker_gets_no_calls_until_it_is_resumed() {
    let system = Setup::up().start().await;
    let mut admin = system.admin().await;
    let drain = |resume| openskill_proto::v1::DrainRequest { worker_id: "worker-1".to_owned(), resume };
    admin.drain(drain(false)).await.unwrap();
    for _ in 0..20 {
        let result = system.invoke(request("in_echo", json!({}))).await;
        assert_eq!(result.meta.unwrap().worker_id, "worker-2");
    }
    admin.drain(drain(true)).await.unwrap();
    assert_eq!(up_count(&system).await, 2);
}

#[tokio::test]
async fn workers_of_a_killed_gateway_end() {
    let _alone = alone();
    let system = Setup::up().start().await;
    let call_id = format!("orphan-{}", std::process::id());
    let call = InvokeRequest { call_id: call_id.clone(), timeout_ms: 60_000, ..request("never_ends", json!({})) };
    let mut client = system.skills().await;
    let running = tokio::spawn(async move { client.invoke(call).await });
    until_true("the skill runs", PATIENCE, || !processes::of_call(&call_id).is_empty()).await;
    let workers = system.worker_pids();
    processes::send(system.process.pid(), Signal::KILL);
    until_true("the workers end", PATIENCE, || workers.iter().all(|pid| !processes::is_alive(*pid))).await;
    processes::gone(&call_id, Duration::from_secs(2)).await;
    assert!(running.await.unwrap().is_err());
}

#[tokio::test]
async fn session_affinity_holds_and_a_lost_worker_is_reported_once() {
    let system = Setup::up().flag("--workers", 3).start().await;
    let call = async |session: &str| {
        let call = InvokeRequest { session_id: session.to_owned(), ..request("in_session", json!({})) };
        system.invoke(call).await
    };
    let mut holders = std::collections::HashSet::new();
    for session in 0..12 {
        let ids: Vec<_> = [call(&session.to_string()).await, call(&session.to_string()).await]
            .map(|result| result.meta.unwrap().worker_id)
            .into();
        assert_eq!(ids[0], ids[1], "session {session}");
        holders.insert(ids[0].clone());
    }
    assert!(holders.len() > 1, "{holders:?}");
    let holder = call("mine").await.meta.unwrap().worker_id;
    let victim = pid_of_worker(&system, holder.trim_start_matches("worker-").parse().unwrap());
    processes::send(victim, Signal::KILL);
    // Calls in flight when the worker died are lost; while it is down, it may still come back.
    let gone = until("the loss of the session is reported", PATIENCE, async || {
        let result = call("mine").await;
        assert_eq!(code(&result), "UNAVAILABLE", "the session must not restart before the loss was reported");
        result.text.contains("of this session was lost").then_some(result)
    })
    .await;
    assert!(!gone.error.unwrap().retryable);
    assert!(call("mine").await.success, "then the session restarts");
}

#[tokio::test]
async fn a_worker_that_keeps_failing_is_ejected_and_later_retried() {
    let (folder, python) = (Folder::new(), Folder::new());
    let link = python.path().join("python3");
    let found = std::process::Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let real = String::from_utf8(found.unwrap().stdout).unwrap().trim().to_owned();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let socket = |name: &str| format!("unix:{}/{name}.sock", folder.path().display());
    let gateway = gateway(&format!("unix:{}/*.sock", folder.path().display())).await;
    let skills = openskill_tests::fixtures().display().to_string();
    let arguments = ["worker", "--listen", &socket("bad"), "--id", "bad", "--skills-dir", &skills];
    let _bad = Setup::command(&arguments).with("OPENSKILL_PYTHON", link.display()).spawn();
    let _good = worker(&socket("good"), "good").await;
    wait_for_workers(&gateway, 2, PATIENCE).await;
    std::fs::remove_file(&link).unwrap();
    let call = async || gateway.invoke(request("moody", json!({}))).await;
    until("the failing worker is ejected", PATIENCE, async || {
        call().await;
        let workers = gateway.workers().await;
        let bad = workers.iter().find(|it| it.worker_id == "bad").unwrap();
        (bad.status() == WorkerStatus::Ejected).then_some(())
    })
    .await;
    assert!(call().await.success, "the other worker takes the calls");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    until("the worker gets calls again", PATIENCE, async || {
        let result = call().await;
        (result.success && result.meta.unwrap().worker_id == "bad").then_some(())
    })
    .await;
    assert_eq!(up_count(&gateway).await, 2);
}

#[tokio::test]
async fn a_worker_that_hangs_is_ejected_and_readmitted() {
    let folder = Folder::new();
    let gateway = gateway(&format!("unix:{}/*.sock", folder.path().display())).await;
    let socket = |name: &str| format!("unix:{}/{name}.sock", folder.path().display());
    let hangs = worker(&socket("hangs"), "hangs").await;
    let _other = worker(&socket("other"), "other").await;
    wait_for_workers(&gateway, 2, PATIENCE).await;
    processes::send(hangs.pid(), Signal::STOP);
    wait_for_workers(&gateway, 1, PATIENCE).await;
    for _ in 0..20 {
        assert!(gateway.invoke(request("in_echo", json!({}))).await.success);
    }
    processes::send(hangs.pid(), Signal::CONT);
    wait_for_workers(&gateway, 2, PATIENCE).await;
}

#[tokio::test]
async fn a_flooding_session_does_not_starve_others() {
    let system = Setup::up().with("OPENSKILL_MAX_IN_FLIGHT", 20).start().await;
    let call = |session: &str, ms: u32| InvokeRequest {
        session_id: session.to_owned(),
        ..request("in_wait", json!({ "ms": ms }))
    };
    let mut flood = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let (mut client, call) = (system.skills().await, call("flood", 3000));
        flood.spawn(async move { client.invoke(call).await });
    }
    // Shed calls end first.
    let first = tokio::time::timeout(PATIENCE, flood.join_next()).await.unwrap().unwrap().unwrap();
    let refused = first.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    for _ in 0..20 {
        assert!(system.invoke(call("modest", 1)).await.success);
    }
    assert!(!flood.is_empty());
}

#[tokio::test]
async fn a_drained_gateway_takes_no_new_calls_until_it_is_resumed() {
    let system = Setup::up().start().await;
    let drain = |resume| openskill_proto::v1::DrainRequest { resume, ..Default::default() };
    let mut client = system.skills().await;
    let long = tokio::spawn(async move { client.invoke(request("in_wait", json!({"ms": 500}))).await });
    until("it runs", PATIENCE, async || {
        (system.get("/readyz").await.json()["in_flight"].as_u64() == Some(1)).then_some(())
    })
    .await;
    system.admin().await.drain(drain(false)).await.unwrap();
    assert_eq!(system.get("/readyz").await.json()["status"], "draining");
    let status = system.skills().await.invoke(request("in_echo", json!({}))).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    let answer = system.call("in_echo", json!({})).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "UNAVAILABLE"));
    assert!(long.await.unwrap().unwrap().into_inner().success, "the accepted call finishes");
    system.admin().await.drain(drain(true)).await.unwrap();
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
}
