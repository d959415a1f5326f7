//! Skills in containers: isolated, bounded, and removed whatever happens. Skipped without an engine.

use std::time::{Duration, Instant};

use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use openskill_proto::v1::{ExecuteRequest, InvokeRequest};
use openskill_tests::alone::alone;
use openskill_tests::containers::{Image, docker, gone, labelled, of_skill};
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::{until, until_true};
use openskill_tests::{processes, rest};
use rustix::process::Signal;
use serde_json::{Value, json};

/// How long a forced end may take on a loaded machine.
const SOON: Duration = Duration::from_secs(5);

/// The limit after a worker was killed.
const AFTER_A_KILL: Duration = Duration::from_secs(2);

/// A skill id that is unique to this test run.
fn own(name: &str) -> String {
    format!("{name}_{}", std::process::id())
}

async fn serve(manifests: &[String]) -> (System, Folder) {
    let (setup, folder) = setup(manifests);
    (setup.start().await, folder)
}

fn setup(manifests: &[String]) -> (Setup, Folder) {
    let folder = Folder::new();
    for (number, manifest) in manifests.iter().enumerate() {
        folder.write(&format!("{number}.yaml"), manifest);
    }
    let setup = Setup::with_skills(&[folder.path()]).with("SECRET_OF_THE_HOST", "hush").with("PASSED_ON", "yes");
    (setup, folder)
}

async fn call(system: &System, skill: &str, input: Value, timeout_ms: u32) -> openskill_proto::v1::SkillResult {
    system.invoke(InvokeRequest { timeout_ms, ..request(skill, input) }).await
}

#[tokio::test]
async fn arguments_arrive_on_stdin_only_and_the_answer_comes_back() {
    let Some(image) = Image::or_skip() else { return };
    let (echo, fails, silent) = (own("echo"), own("fails"), own("silent"));
    let manifests = [
        image.skill(&echo, "cat", ""),
        image.skill(&fails, "echo null; echo why >&2; exit 1", ""),
        image.skill(&silent, "exit 7", ""),
    ];
    let (system, _folder) = serve(&manifests).await;
    let input = json!({"--privileged": "$(reboot)", "text": "é\n; --volume=/:/host"});
    assert_eq!(data(&call(&system, &echo, input.clone(), 0).await), json!({"input": input}));
    let large = json!({"text": "x".repeat(1_000_000)});
    assert_eq!(data(&call(&system, &echo, large.clone(), 0).await), json!({"input": large}));
    assert_eq!(code(&call(&system, &fails, json!({}), 0).await), "INVALID_ARGUMENT");
    let result = call(&system, &silent, large, 0).await;
    assert!(result.error.as_ref().unwrap().message.contains("exit code 7"), "{result:?}");
    for skill in [&echo, &fails, &silent] {
        gone(skill, SOON).await;
    }
}

#[tokio::test]
async fn a_container_is_read_only_offline_and_unprivileged() {
    let Some(image) = Image::or_skip() else { return };
    let looks = own("looks");
    let script = r#"
        can() { if (eval "$1") 2>/dev/null; then printf '"%s": true, ' "$2"; else printf '"%s": false, ' "$2"; fi; }
        printf '{'
        can 'echo x > /etc/x' etc; can 'echo x > /bin/sh' sh; can 'echo x > /x' root; can 'echo x > /data/x' data
        can 'echo x > /tmp/x' tmp; can 'echo x > /proc/sys/kernel/core_pattern' kernel
        can 'cat /bin/cat > /tmp/run; /tmp/run /dev/null' executes_own
        while read -r name value rest; do
            case $name in Uid:|Gid:|CapEff:|CapBnd:|NoNewPrivs:|Seccomp:) printf '"%s": "%s", ' "$name" "$value";; esac
        done < /proc/self/status
        cards=; while read -r card rest; do case $card in *:*) cards="$cards$card";; esac; done < /proc/net/dev
        for disk in /dev/sd* /dev/vd* /dev/mem; do [ -e "$disk" ] && cards="$cards $disk"; done
        printf '"cards": "%s"}' "$cards""#;
    let (system, _folder) = serve(&[image.skill(&looks, script, "")]).await;
    let expected = json!({
        "etc": false, "sh": false, "root": false, "data": false, "tmp": true, "kernel": false, "executes_own": false,
        "Uid:": "65534", "Gid:": "65534", "CapEff:": "0000000000000000", "CapBnd:": "0000000000000000",
        "NoNewPrivs:": "1", "Seccomp:": "2", "cards": "lo:",
    });
    let result = call(&system, &looks, json!({}), 0).await;
    // Seccomp is on by default, but an engine may be configured without it.
    let mut found = data(&result);
    if found["Seccomp:"] == "0" {
        eprintln!("this engine runs without a seccomp filter");
        found["Seccomp:"] = json!("2");
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn the_allowed_root_is_visible_only_if_the_manifest_mounts_it() {
    let Some(image) = Image::or_skip() else { return };
    let folder = Folder::new();
    folder.write("root/hello.txt", "\"hello\"");
    let root = folder.path().join("root");
    // The container's user has no rights on the host.
    std::fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let script = "command: [/bin/sh, -c, \"[ -e /data/hello.txt ] || { echo 0; exit; }; \
                  if (echo 1 > /data/new) 2>/dev/null; then echo 2; else echo 1; fi\"]";
    for (mount, expected) in [("none", 0), ("ro", 1), ("rw", 2)] {
        let manifest = image.with_settings(&own(mount), &format!("{script}, mount_root: {mount}"), "");
        folder.write(&format!("skills/{mount}.yaml"), manifest);
        let system = Setup::with_skills(&[&folder.path().join("skills")]).data(&root).start().await;
        assert_eq!(data(&call(&system, &own(mount), json!({}), 0).await), json!(expected), "{mount}");
        assert_eq!(root.join("new").exists(), mount == "rw");
    }
}

#[tokio::test]
async fn a_container_sees_its_call_but_no_secret() {
    let Some(image) = Image::or_skip() else { return };
    let reveals = own("reveals");
    let script = "printf '['; env | while IFS= read -r line; do printf '\"%s\",' \"$line\"; done; printf '0]'";
    let settings = format!("command: [/bin/sh, -c, {}]", Value::from(script));
    let (system, _folder) = serve(&[image.with_settings(&reveals, &settings, "env: [PASSED_ON]")]).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let headers = [
        ("content-type", "application/json"),
        ("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01")[..]),
        ("tracestate", "vendor=1"),
        ("x-trace-id", "of-this-test"),
    ];
    let answer = system.post(&format!("/skills/{reveals}:invoke"), &headers, r#"{"input": {}}"#).await;
    let answer = answer.json();
    let lines: Vec<_> = answer["data"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let has = |start: &str| lines.iter().any(|it| it.starts_with(start));
    assert!(has(&format!("TRACEPARENT=00-{trace}-")), "{lines:?}");
    assert!(has("TRACESTATE=vendor=1") && has("OPENSKILL_TRACE_ID=of-this-test"), "{lines:?}");
    assert!(has("PASSED_ON=yes") && has(&format!("OPENSKILL_SKILL_ID={reveals}")), "{lines:?}");
    assert!(has("OPENSKILL_EVENTS_MARK=") && has("OPENSKILL_TIMEOUT_MS="), "{lines:?}");
    let known = ["TRACE", "OPENSKILL_", "PASSED_ON=", "PATH=", "HOSTNAME=", "HOME=", "PWD=", "SHLVL=", "_=", "OLDPWD"];
    let stray: Vec<_> = lines.iter().filter(|line| !known.iter().any(|it| line.starts_with(it))).collect();
    assert!(stray.is_empty() && !has("OPENSKILL_ALLOWED_ROOT"), "{lines:?}");
}

#[tokio::test]
async fn a_container_over_its_limits_is_killed_and_reported() {
    let Some(image) = Image::or_skip() else { return };
    let (memory, forks) = (own("memory"), own("forks"));
    let (floods, shouts) = (own("floods"), own("shouts"));
    let limits = "limits: {memory_mb: 16, processes: 16}";
    let manifests = [
        image.skill(&memory, "x=0123456789; while :; do x=$x$x; done", limits),
        image.skill(&forks, "bomb() { bomb | bomb & }; while :; do bomb; done", limits),
        image.skill(&floods, "cat /dev/zero", ""),
        image.skill(&shouts, "cat /dev/zero >&2", ""),
    ];
    let (system, _folder) = serve(&manifests).await;
    for (skill, timeout_ms, expected, words) in [
        (&memory, 20_000, "EXECUTION_ERROR", "memory than its 16 MiB"),
        (&floods, 20_000, "OUTPUT_TOO_LARGE", "more than"),
        (&shouts, 2500, "TIMEOUT", "deadline"),
    ] {
        let result = call(&system, skill, json!({}), timeout_ms).await;
        assert_eq!(code(&result), expected, "{skill}: {result:?}");
        assert!(result.error.as_ref().unwrap().message.contains(words), "{result:?}");
        gone(skill, SOON).await;
    }
    // The shell fails when it cannot fork, or runs into the deadline: either way its children are gone.
    assert!(!call(&system, &forks, json!({}), 3000).await.success);
    gone(&forks, SOON).await;
}

#[tokio::test]
async fn a_deadline_and_a_cancellation_both_remove_the_container() {
    let Some(image) = Image::or_skip() else { return };
    let (slow, metrics) = (own("slow"), Port::reserve());
    let (setup, _folder) = setup(&[image.skill(&slow, "trap '' TERM INT HUP; sleep 100", "")]);
    let setup = setup.flag("--workers", 1).with("OPENSKILL_WORKER_METRICS_LISTEN", metrics.address());
    let system = setup.start().await;
    assert_eq!(code(&call(&system, &slow, json!({}), 1500).await), "TIMEOUT");
    gone(&slow, SOON).await;
    let mut events = system.skills().await.invoke_stream(request(&slow, json!({}))).await.unwrap().into_inner();
    assert!(matches!(events.message().await.unwrap().unwrap().event, Some(Event::Accepted(_))));
    until_true("it runs", PATIENCE, || !of_skill(&slow).is_empty()).await;
    drop(events);
    gone(&slow, SOON).await;
    // Cancelled before the container was created: none is created later.
    for _ in 0..5 {
        assert_eq!(code(&call(&system, &slow, json!({}), 20).await), "TIMEOUT");
    }
    // The gateway's count says only that nobody waits for them. A slot is free when nothing of its call is left.
    let is_idle = || async { rest::worker_has(metrics.address(), 0, 0).await.then_some(()) };
    until("every slot is free", PATIENCE, is_idle).await;
    assert!(of_skill(&slow).is_empty());
}

#[tokio::test]
async fn fifty_calls_leave_nothing_behind() {
    let Some(image) = Image::or_skip() else { return };
    let echo = own("many");
    let (system, _folder) = serve(&[image.skill(&echo, "(sleep 100 &) ; cat", "timeout_ms: 120000")]).await;
    let calls = (0..50).map(|number| {
        let input = json!({"n": number});
        let mut client = None;
        let (system, skill) = (&system, &echo);
        async move {
            let client = client.insert(system.skills().await);
            let call = InvokeRequest { timeout_ms: 120_000, ..request(skill, input.clone()) };
            let result = client.invoke(call).await.unwrap().into_inner();
            assert_eq!(data(&result), json!({"input": input}), "{result:?}");
        }
    });
    futures_util::future::join_all(calls).await;
    gone(&echo, PATIENCE).await;
}

fn runs(container: &str) -> bool {
    docker(&["inspect", "--format", "{{.State.Running}}", container]).is_ok_and(|it| it == "true")
}

#[tokio::test]
async fn containers_of_a_killed_worker_are_removed_without_a_new_worker() {
    let _alone = alone();
    let Some(image) = Image::or_skip() else { return };
    let slow = own("orphan");
    let folder = Folder::new();
    folder.write("slow.yaml", image.skill(&slow, "sleep 100", ""));
    let port = Port::reserve();
    let (listen, skills) = (port.address().to_string(), folder.path().display().to_string());
    let worker = Setup::command(&["worker", "--listen", &listen, "--skills-dir", &skills]).spawn();
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{listen}")).unwrap();
    let channel = until("it listens", PATIENCE, || async { channel.connect().await.ok() }).await;
    let mut running = Vec::new();
    for number in 0..4 {
        let call = ExecuteRequest {
            skill_id: slow.clone(),
            call_id: format!("{slow}-{number}"),
            input_json: "{}".into(),
            timeout_ms: 60_000,
            ..ExecuteRequest::default()
        };
        let mut client = WorkerServiceClient::new(channel.clone());
        running.push(tokio::spawn(async move { client.execute(call).await }));
    }
    until_true("all run", PATIENCE, || of_skill(&slow).iter().filter(|it| runs(it)).count() == 4).await;
    let sentinels = processes::children(worker.pid(), " sentinel");
    assert_eq!(sentinels.len(), 1);
    processes::send(worker.pid(), Signal::KILL);
    let killed = Instant::now();
    gone(&slow, AFTER_A_KILL).await;
    eprintln!("four containers were gone {:?} after their worker was killed", killed.elapsed());
    until_true("the sentinel ends too", PATIENCE, || !processes::is_alive(sentinels[0])).await;
    drop(running);
}

#[tokio::test]
async fn the_sentinel_of_a_killed_worker_survives_signals_and_finishes_its_work() {
    let _alone = alone();
    let Some(image) = Image::or_skip() else { return };
    let slow = own("orphan_up");
    let (system, _folder) = serve(&[image.skill(&slow, "sleep 100", "")]).await;
    let mut client = system.skills().await;
    let call_one = request(&slow, json!({}));
    let running = tokio::spawn(async move { client.invoke(call_one).await });
    until_true("it runs", PATIENCE, || of_skill(&slow).iter().any(|it| runs(it))).await;
    let sentinel = |worker: &i32| processes::children(*worker, " sentinel").first().copied();
    let busy = system.worker_pids().into_iter().find(|it| sentinel(it).is_some()).unwrap();
    let sentinel = sentinel(&busy).unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        processes::send(sentinel, signal);
    }
    processes::send(busy, Signal::KILL);
    gone(&slow, AFTER_A_KILL).await;
    until_true("the sentinel ends by itself", PATIENCE, || !processes::is_alive(sentinel)).await;
    // An orphan would have been killed and logged.
    assert!(!system.process.log.text().contains("escaped their worker"), "{}", system.process.log.text());
    assert!(!running.await.unwrap().unwrap().into_inner().success);
}

#[tokio::test]
async fn a_new_worker_removes_containers_of_dead_workers_only() {
    let Some(image) = Image::or_skip() else { return };
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
    let started = processes::stat(std::process::id() as i32).unwrap()[19].clone();
    let until_label = "openskill.until=99999999999";
    let mut names = Vec::new();
    for (name, owner) in [
        (own("dead"), format!("{boot} {namespace} 4194305 1")),
        (own("alive"), format!("{boot} {namespace} {} {started}", std::process::id())),
    ] {
        let (skill, owner) = (format!("openskill.skill={name}"), format!("openskill.owner={owner}"));
        let labels = ["--label", "openskill.instance=x", "--label", &skill, "--label", &owner, "--label", until_label];
        let run = ["run", "--detach", "--network", "none"];
        docker(&[&run[..], &labels, &[&image.id, "/bin/sleep", "1000"]].concat()).unwrap();
        names.push(name);
    }
    let (_system, _folder) = serve(&[image.skill(&own("sweeper"), "cat", "")]).await;
    gone(&names[0], PATIENCE).await;
    let alive = of_skill(&names[1]);
    assert_eq!(alive.len(), 1);
    docker(&["rm", "--force", &alive[0]]).unwrap();
}

#[tokio::test]
async fn a_docker_skill_is_available_exactly_while_the_engine_is() {
    let folder = Folder::new();
    let socket = folder.path().join("engine.sock");
    let image = Image::or_skip();
    let id = image.as_ref().map_or_else(|| format!("sha256:{}", "0".repeat(64)), |it| it.id.clone());
    let skill = own("waits_for_engine");
    folder.write("skills/a.yaml", format!("id: {skill}\ntype: docker\nentry: {id}\ndocker: {{command: [/bin/cat]}}\n"));
    let missing = format!("id: {skill}_missing\ntype: docker\nentry: sha256:{}\n", "1".repeat(64));
    folder.write("skills/b.yaml", missing);
    let system = Setup::with_skills(&[&folder.path().join("skills")])
        .with("OPENSKILL_DOCKER_HOST", format!("unix://{}", socket.display()))
        .start()
        .await;
    let reason = |name: String| {
        let system = &system;
        async move {
            let skills = system.get("/skills").await.json();
            let found = skills["skills"].as_array().unwrap().iter().find(|it| it["id"] == json!(name)).cloned();
            let found = found.unwrap_or_else(|| panic!("{skills}"));
            (
                found["status"].as_str().unwrap().to_owned(),
                found["status_reason"].as_str().unwrap_or_default().to_owned(),
            )
        }
    };
    let (status, why) = reason(skill.clone()).await;
    assert_eq!(status, "unavailable", "{why}");
    assert!(why.contains("no container engine answers") && !why.contains(&*socket.to_string_lossy()), "{why}");
    assert!(!call(&system, &skill, json!({}), 2000).await.success);
    if image.is_none() {
        return;
    }
    let engine = std::env::var("DOCKER_HOST").unwrap_or_default();
    let engine = engine.strip_prefix("unix://").unwrap_or("/var/run/docker.sock");
    std::os::unix::fs::symlink(engine, &socket).unwrap();
    until("the skill is available", PATIENCE, || async {
        (reason(skill.clone()).await.0 == "available").then_some(())
    })
    .await;
    assert_eq!(data(&call(&system, &skill, json!({"n": 1}), 0).await), json!({"input": {"n": 1}}));
    let (_, why) = reason(format!("{skill}_missing")).await;
    assert!(why.contains("image is not on this machine"), "{why}");
    std::fs::remove_file(&socket).unwrap();
    until("the skill is unavailable again", PATIENCE, || async {
        (reason(skill.clone()).await.0 == "unavailable").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_image_that_is_a_flag_or_not_pinned_is_rejected_on_load() {
    let folder = Folder::new();
    for (name, entry) in [("flag", "--privileged"), ("tag", "debian:latest"), ("path", "../etc")] {
        folder.write(&format!("{name}.yaml"), format!("id: {name}\ntype: docker\nentry: '{entry}'\n"));
    }
    folder.write("fine.yaml", "id: fine\ntype: inproc\nentry: echo\n");
    // No engine is asked.
    let system =
        Setup::with_skills(&[folder.path()]).with("OPENSKILL_DOCKER_HOST", "unix:///nonexistent").start().await;
    let log = &system.process.log;
    log.line(&["flag.yaml", "is not an image"]).await;
    log.line(&["tag.yaml", "not a fixed image"]).await;
    log.line(&["path.yaml", "is not an image"]).await;
    assert!(!log.text().contains("skills that need containers"), "{}", log.text());
    assert!(call(&system, "fine", json!({}), 0).await.success);
    assert!(labelled("openskill.skill=flag").is_empty());
}
