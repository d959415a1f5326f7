//! Real MCP servers from `make test-venv`, each called many times over gRPC and REST and killed half way.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use openskill_proto::v1::InvokeRequest;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::require::{Need, skip};
use openskill_tests::soak::count;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::{until, until_true};
use openskill_tests::{fixtures, processes, repository};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// A program of the virtual environment. None after the test was skipped.
fn program(name: &str) -> Option<PathBuf> {
    let path = repository().join("target/test-venv/bin").join(name);
    if !path.is_file() {
        skip(Need::Venv, &format!("{name} is missing; run `make test-venv`"));
        return None;
    }
    Some(path)
}

async fn up(folder: &Folder, skill: &str) -> System {
    let skills = folder.path().display().to_string();
    let system = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills])
        .with("GIT_CONFIG_COUNT", 1)
        .with("GIT_CONFIG_KEY_0", "safe.directory")
        .with("GIT_CONFIG_VALUE_0", "*")
        .start()
        .await;
    system.has_skill(skill).await;
    system
}

/// A jailed server. `more` are further keys of its manifest.
fn manifest(id: &str, program: &std::path::Path, args: &[&str], more: &str) -> Folder {
    let folder = Folder::new();
    let text = format!(
        "id: {id}\ntype: mcp\nruntime: stdio\nentry: {}\nmcp: {{args: {}, start_s: 60}}\ntimeout_ms: 120000\n\
         circuit: {{failure_threshold: 0, minimum_calls: 0}}\n{more}\n",
        program.display(),
        json!(args)
    );
    folder.write(&format!("{id}.yaml"), text);
    folder
}

/// Calls a tool many times, alternating gRPC and REST, and kills the server half way. Each call ends exactly once: with
/// data that `judge` accepts, or with the loss of its server.
async fn many_times(system: &System, server: &str, tool: &str, input: Value, judge: impl Fn(&Value)) {
    let client = system.skills().await;
    let (done, wanted) = (Arc::new(AtomicUsize::new(0)), count(100, 1000));
    let calls = (0..wanted).map(|number| {
        let (mut client, input, done) = (client.clone(), input.clone(), Arc::clone(&done));
        async move {
            let ended = if number % 2 == 0 {
                let call = InvokeRequest { timeout_ms: 120_000, ..request(tool, input) };
                let result = client.invoke(call).await.unwrap().into_inner();
                if result.success { Ok(data(&result)) } else { Err(code(&result).to_owned()) }
            } else {
                let answer = system.call(tool, input).await;
                if answer.status == 200 { Ok(answer.json()["data"].clone()) } else { Err(answer.code()) }
            };
            done.fetch_add(1, Ordering::Relaxed);
            (number, ended)
        }
    });
    // Looked up in advance, because this thread sends no calls meanwhile.
    let servers: Vec<_> = {
        let own = processes::descendants(system.process.pid());
        let all = processes::with_environment(&format!("OPENSKILL_SKILL_ID={server}"));
        all.into_iter().filter(|pid| own.contains(pid)).collect()
    };
    assert!(!servers.is_empty());
    let killer = async {
        until_true("half of the calls are done", PATIENCE * 4, || done.load(Ordering::Relaxed) > wanted / 2).await;
        servers.into_iter().for_each(|pid| processes::send(pid, Signal::KILL));
    };
    let (ended, ()) = tokio::join!(futures_util::stream::iter(calls).buffer_unordered(12).collect::<Vec<_>>(), killer);
    let by_number: HashMap<_, _> = ended.into_iter().collect();
    assert_eq!(by_number.len(), wanted, "each ended, and once");
    let mut lost = 0;
    for ended in by_number.values() {
        match ended {
            Ok(data) => judge(data),
            Err(code) if code == "MCP_NETWORK_ERROR" => lost += 1,
            Err(code) => panic!("{code}"),
        }
    }
    eprintln!("{tool}: {lost} of {wanted} calls were lost with their server");
    assert!(lost <= 12, "{lost}");
}

#[tokio::test]
async fn mcp_server_time_serves_many_calls() {
    let Some(server) = program("mcp-server-time") else { return };
    let folder = manifest("time", &server, &["--local-timezone", "UTC"], "");
    let system = up(&folder, "time__get_current_time").await;
    let bad = system
        .invoke(request(
            "time__convert_time",
            json!({"source_timezone": "UTC", "time": "25:99", "target_timezone": "UTC"}),
        ))
        .await;
    assert_eq!(code(&bad), "MCP_EXECUTION_ERROR");
    let input = json!({"timezone": "UTC"});
    many_times(&system, "time", "time__get_current_time", input, |data| assert_eq!(data["timezone"], "UTC")).await;
}

#[tokio::test]
async fn mcp_server_git_serves_many_calls() {
    let Some(server) = program("mcp-server-git") else { return };
    let repository = Folder::new();
    repository.write("a.txt", "one\n");
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=Test", "-c", "user.email=test@example.com"]).args(arguments);
        assert!(
            git.current_dir(repository.path()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        );
    };
    git(&["init", "--initial-branch", "main"]);
    git(&["add", "a.txt"]);
    git(&["commit", "-m", "The first"]);
    let path = repository.path().display().to_string();
    // The server runs as another user than the owner of the repository, which git must be told to accept.
    let trusted = "[GIT_CONFIG_COUNT, GIT_CONFIG_KEY_0, GIT_CONFIG_VALUE_0]";
    let more = format!("readable: ['{path}']\nenv: {trusted}");
    let folder = manifest("git", &server, &["--repository", &path], &more);
    let system = up(&folder, "git__git_log").await;
    let commit = system.get("/skills/git__git_commit").await.json();
    assert_eq!((&commit["idempotent"], &commit["toolset"]), (&json!(false), &json!("git")));
    let input = json!({"repo_path": path, "max_count": 1});
    let judge = |data: &Value| assert!(data.to_string().contains("The first"), "{data}");
    many_times(&system, "git", "git__git_log", input, judge).await;
}

/// Answers every request with the same small page.
async fn serve_pages(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let page = "hello from the test";
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                page.len()
            );
            let _ = stream.write_all((head + page).as_bytes()).await;
        });
    }
}

#[tokio::test]
async fn mcp_server_fetch_serves_many_calls() {
    let Some(server) = program("mcp-server-fetch") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/page", listener.local_addr().unwrap());
    tokio::spawn(serve_pages(listener));
    let folder = manifest("fetch", &server, &["--ignore-robots-txt", "--allow-private-ips"], "network: full");
    let system = up(&folder, "fetch__fetch").await;
    let judge = |data: &Value| assert!(data.to_string().contains("hello from the test"), "{data}");
    many_times(&system, "fetch", "fetch__fetch", json!({"url": url}), judge).await;
}

/// A server over streamable HTTP on a port of its own.
async fn over_http(address: SocketAddr, journal: &std::path::Path) -> Option<Child> {
    let python = program("python")?;
    let script = fixtures().with_file_name("mcp").join("http_server.py");
    let mut command = Command::new(python);
    command.arg(script).arg(address.port().to_string()).arg(journal).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.kill_on_drop(true).spawn().unwrap();
    until("the server listens", PATIENCE, || async { tokio::net::TcpStream::connect(address).await.ok() }).await;
    Some(child)
}

#[tokio::test]
async fn a_restarted_http_server_is_reconnected() {
    let port = Port::reserve();
    let address = port.address();
    let (folder, journal) = (Folder::new(), Folder::new());
    let file = journal.write("journal", "");
    let Some(mut server) = over_http(address, &file).await else { return };
    let text = format!(
        "id: web\ntype: mcp\nruntime: http\nentry: http://{address}/mcp\nenv: [TOKEN]\n\
         mcp: {{headers: {{Authorization: 'Bearer ${{TOKEN}}'}}, allow: ['{address}']}}\ntimeout_ms: 120000\ncircuit: {{failure_threshold: 0, minimum_calls: 0}}\n"
    );
    folder.write("web.yaml", text);
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    let system = setup.with("TOKEN", "s3cret").start().await;
    system.has_skill("web__add").await;
    let sum = system.invoke(request("web__add", json!({"a": 1, "b": 2}))).await;
    assert_eq!((data(&sum), sum.meta.unwrap().runner.as_str()), (json!({"result": 3}), "mcp:http"));
    let headers =
        [("x-trace-id", "my-trace"), ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
    let seen = system.post("/skills/web__headers:invoke", &headers, "{}").await.json()["data"].clone();
    let seen = seen.get("result").cloned().unwrap_or(seen);
    assert_eq!(
        (&seen["x-trace-id"], &seen["authorization"]),
        (&json!("my-trace"), &json!("Bearer [secret]")),
        "{seen}"
    );
    assert!(seen["traceparent"].as_str().unwrap().contains("0af7651916cd43dd8448eb211c80319c"));
    let late = system
        .invoke(InvokeRequest { timeout_ms: 400, ..request("web__journal", json!({"id": -1, "seconds": 10})) })
        .await;
    assert_eq!(code(&late), "MCP_TIMEOUT");

    let client = system.skills().await;
    let wanted = count(100, 1000);
    let calls = (0..wanted).map(|id| {
        let mut client = client.clone();
        async move {
            let call = InvokeRequest { timeout_ms: 120_000, ..request("web__journal", json!({"id": id})) };
            client.invoke(call).await.unwrap().into_inner()
        }
    });
    let written = || std::fs::read_to_string(&file).unwrap();
    let restart = async {
        until_true("half of the calls are done", PATIENCE * 4, || written().lines().count() > wanted / 2).await;
        server.kill().await.unwrap();
        over_http(address, &file).await
    };
    let (results, again) = tokio::join!(futures_util::stream::iter(calls).buffered(12).collect::<Vec<_>>(), restart);
    let mut times: HashMap<String, usize> = HashMap::new();
    written().lines().for_each(|line| *times.entry(line.to_owned()).or_default() += 1);
    assert!(times.values().all(|count| *count == 1), "{times:?}");
    let mut lost = 0;
    for (id, result) in results.iter().enumerate() {
        match code(result) {
            "" => assert_eq!((data(result), times.get(&id.to_string())), (json!({"result": id}), Some(&1))),
            "MCP_NETWORK_ERROR" => lost += 1,
            other => panic!("{id}: {other} {result:?}"),
        }
    }
    eprintln!("web__journal: {lost} of {wanted} calls were lost with their server");
    assert!(lost <= 12, "{lost}");
    drop(again);
}
