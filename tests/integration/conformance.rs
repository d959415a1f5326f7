//! The conformance suite of runners. A new runner gets a row in [`runners`] and passes the same checks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use openskill_proto::v1::{InvokeRequest, SkillResult, invoke_event::Event};
use openskill_tests::alone::alone;
use openskill_tests::backend::{Backend, Reply, Seen};
use openskill_tests::containers::Image;
use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};

/// What a skill is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Ask {
    /// Returns its input, its trace, and the names of its environment variables.
    Echo,
    /// Returns the bare value 7.
    Bare,
    /// Fails with INVALID_ARGUMENT or NOT_FOUND, on purpose.
    Refuse,
    /// Returns an invalid result.
    Bad,
    /// Reports progress and a partial result, then answers.
    Events,
    /// Runs for ten seconds, and can be cancelled.
    Slow,
    /// Returns more than ten megabytes.
    Huge,
    /// Leaves a process running.
    Tree,
}

use Ask::{Bad, Bare, Echo, Events, Huge, Refuse, Slow, Tree};

const ALL: [Ask; 8] = [Echo, Bare, Refuse, Bad, Events, Slow, Huge, Tree];

/// A runner, and how its skills are called.
struct Runner {
    key: &'static str,
    /// A name for messages, where a runner key has several modes.
    way: &'static str,
    asks: HashMap<Ask, (String, Value)>,
}

impl Runner {
    /// One skill that takes `what`.
    fn one(key: &'static str, way: &'static str, skill: &str) -> Self {
        let asks = ALL.map(|ask| (ask, (skill.to_owned(), json!({"what": format!("{ask:?}").to_lowercase()}))));
        Self { key, way, asks: asks.into() }
    }

    /// What the runner cannot do by design.
    fn without(mut self, asks: &[Ask]) -> Self {
        self.asks.retain(|ask, _| !asks.contains(ask));
        self
    }
}

/// The runners that need nothing but files.
fn runners() -> Vec<Runner> {
    let in_process = [
        (Echo, ("in_echo".to_owned(), json!({"what": "echo"}))),
        (Refuse, ("in_fail".to_owned(), json!({"code": "NOT_FOUND", "message": "no"}))),
        (Slow, ("in_wait".to_owned(), json!({"ms": 10_000}))),
    ];
    vec![
        Runner::one("cli:python", "fork", "conforms_fork"),
        Runner::one("cli:python", "process", "conforms_process"),
        Runner::one("cli:python", "shared", "conforms_shared"),
        Runner::one("cli:exec", "", "conforms_exec"),
        Runner { key: "inproc", way: "", asks: in_process.into() },
    ]
}

/// A gateway, a worker with a secret in its environment, and what the runners need besides.
struct Stage {
    system: System,
    runners: Vec<Runner>,
    _folder: Folder,
    _server: Backend,
    _image: Option<Arc<Image>>,
}

impl Stage {
    async fn start() -> Self {
        Self::with(|setup| setup).await
    }

    /// With a concurrency of one.
    async fn with_one_place() -> Self {
        Self::with(|setup| setup.with("OPENSKILL_WORKER_CONCURRENCY", 1)).await
    }

    async fn with(setup: impl FnOnce(Setup) -> Setup) -> Self {
        let (folder, mut runners) = (Folder::new(), runners());
        let server = Backend::start(serve).await;
        let (url, host) = (server.url("/"), server.address);
        let http = format!("id: conforms_http\ntype: http\nentry: {url}\nhttp: {{allow: ['{host}']}}\n");
        folder.write("conforms_http.yaml", http);
        // It has no process of ours to leave behind.
        runners.push(Runner::one("http", "", "conforms_http").without(&[Tree]));
        let image = Image::or_skip();
        if let Some(image) = &image {
            folder.write("conforms_docker.yaml", image.skill("conforms_docker", IN_CONTAINER, ""));
            // Its processes end with their container.
            runners.push(Runner::one("docker", "", "conforms_docker").without(&[Tree]));
        }
        let (url, host) = (server.url("/mcp"), server.address);
        let web = format!("id: web\ntype: mcp\nruntime: http\nentry: {url}\nmcp: {{allow: ['{host}']}}\n");
        folder.write("web.yaml", web);
        runners.push(Runner { key: "mcp:stdio", way: "", asks: of_server("own") });
        runners.push(Runner { key: "mcp:http", way: "", asks: of_server("web") });
        let servers = openskill_tests::fixtures().with_file_name("mcp");
        let start = Setup::with_skills(&[&openskill_tests::fixtures(), folder.path(), &servers])
            .flag("--workers", 1)
            .with("SECRET_OF_THE_HOST", "hunter2");
        let system = setup(start).start().await;
        // The tools of MCP servers appear a moment later.
        system.has_skill("own__conforms").await;
        system.has_skill("web__conforms").await;
        Self { system, runners, _folder: folder, _server: server, _image: image }
    }

    /// The runners that support this, each with its request.
    fn asked(&self, ask: Ask) -> impl Iterator<Item = (String, InvokeRequest)> {
        self.runners.iter().filter_map(move |runner| {
            let (skill, input) = runner.asks.get(&ask)?;
            let call = InvokeRequest { timeout_ms: 20_000, ..request(skill, input.clone()) };
            Some((format!("{} {}", runner.key, runner.way), call))
        })
    }

    async fn is_well(&self, runner: &str) {
        let (_, echo) = self.asked(Echo).find(|(name, _)| name == runner).unwrap();
        let result = self.system.invoke(echo).await;
        assert_eq!(code(&result), "", "{runner} fails: {result:?}");
    }
}

/// The tools of an MCP server, whose processes outlive a call.
fn of_server(id: &str) -> HashMap<Ask, (String, Value)> {
    let asks = [
        (Echo, "conforms", json!({"what": "echo"})),
        (Bare, "plain", json!({"text": "7"})),
        (Refuse, "refuses", json!({})),
        (Bad, "half", json!({})),
        (Events, "progress", json!({})),
        (Slow, "slow", json!({})),
        (Huge, "huge", json!({})),
    ];
    asks.map(|(ask, tool, input)| (ask, (format!("{id}__{tool}"), input))).into()
}

/// The answers of an MCP server over streamable HTTP.
fn serve_tools(seen: &Seen) -> Reply {
    if seen.method != http::Method::POST {
        return Reply::new(405, "text/plain", "");
    }
    let message = seen.json();
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    let tools = ["conforms", "plain", "refuses", "half", "progress", "slow", "huge"];
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1.0.0"},
        }),
        "tools/list" => json!({"tools": tools.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))}),
        "tools/call" => return serve_tool(&message, answer),
        "ping" => json!({}),
        _ => return Reply::new(202, "application/json", ""),
    };
    Reply::json(200, &answer(result))
}

fn serve_tool(message: &Value, answer: impl Fn(Value) -> Value) -> Reply {
    let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
    let meta = &message["params"]["_meta"];
    let result = match message["params"]["name"].as_str().unwrap() {
        "conforms" => {
            let echoed = json!({
                "echo": message["params"]["arguments"],
                "trace": meta["openskill/trace_id"],
                "parent": meta["traceparent"],
            });
            json!({"content": [], "structuredContent": echoed})
        }
        "plain" => text("7".to_owned()),
        "refuses" => {
            let mut refused = text("Input validation error: 'path' is a required property".to_owned());
            refused["isError"] = json!(true);
            refused
        }
        "half" => json!(7),
        "progress" => {
            let params = json!({"progressToken": meta["progressToken"], "progress": 1, "total": 2});
            let notice = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            let events = format!("data: {notice}\n\ndata: {}\n\n", answer(text("done".to_owned())));
            return Reply::new(200, "text/event-stream", events);
        }
        "slow" => return Reply::pieces("text/event-stream", futures_util::stream::pending::<Bytes>().boxed()),
        "huge" => text("x".repeat(11_000_000)),
        other => panic!("{other}"),
    };
    Reply::json(200, &answer(result))
}

/// The manifests of the `http` skills.
fn serve(seen: &Seen) -> Reply {
    if seen.path() == "/mcp" {
        return serve_tools(seen);
    }
    let asked = seen.json();
    match asked["what"].as_str().unwrap() {
        "bare" => Reply::json(200, &json!(7)),
        "refuse" => Reply::json(422, &json!({"message": "no"})),
        "bad" => Reply::new(200, "application/json", "this is no JSON"),
        "slow" => Reply::pieces("application/json", futures_util::stream::pending::<Bytes>().boxed()),
        "huge" => Reply::json(200, &json!("x".repeat(11_000_000))),
        "events" => Reply::new(200, "text/event-stream", "event: progress\ndata: {\"fraction\": 0.5}\n\ndata: 1\n\n"),
        _ => {
            let (trace, parent) = (seen.header("x-trace-id"), seen.header("traceparent"));
            Reply::json(200, &json!({"echo": asked, "trace": trace, "parent": parent}))
        }
    }
}

/// The script of a container. Its shell has only `cat`, `sleep` and `env`.
const IN_CONTAINER: &str = r#"
read -r line
case "$line" in
*bare*) echo 7 ;;
*refuse*) echo '{"success": false, "error": {"code": "INVALID_ARGUMENT", "message": "no"}}'; exit 1 ;;
*bad*) echo this is no JSON ;;
*slow*) sleep 10 ;;
*huge*) x=xxxxxxxxxxxxxxxx; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do x=$x$x; done
    printf '"%s%s%s%s%s%s%s%s%s%s%s"' "$x" "$x" "$x" "$x" "$x" "$x" "$x" "$x" "$x" "$x" "$x" ;;
*)
    case "$line" in *events*) printf '%s{"progress": {"fraction": 0.5}}\n' "$OPENSKILL_EVENTS_MARK" >&2 ;; esac
    printf '{"echo": {"what":"echo"}, "trace": "%s", "parent": "%s", "secret": "%s"}\n' \
        "$OPENSKILL_TRACE_ID" "$TRACEPARENT" "$SECRET_OF_THE_HOST" ;;
esac
"#;

#[tokio::test]
async fn a_success_has_data_and_names_its_runner() {
    let stage = Stage::start().await;
    let system = &stage.system;
    for (runner, call) in stage.asked(Echo) {
        let result = system.invoke(call).await;
        assert_eq!(code(&result), "", "{runner}: {result:?}");
        assert!(data(&result).to_string().contains(r#""what":"echo""#), "{runner}: {result:?}");
        let meta = result.meta.unwrap();
        assert!(runner.starts_with(&meta.runner) && meta.attempts == 1, "{runner}: {meta:?}");
        assert!(meta.worker_id.starts_with("worker-"), "{meta:?}");
        assert!(!result.text.is_empty());
    }
}

#[tokio::test]
async fn the_skill_sees_the_trace_but_no_secret_of_the_host() {
    let stage = Stage::start().await;
    let system = &stage.system;
    for (runner, call) in stage.asked(Echo).filter(|(runner, _)| !runner.starts_with("inproc")) {
        let body = json!({"input": serde_json::from_str::<Value>(&input(&call)).unwrap()}).to_string();
        let headers = [("content-type", "application/json"), ("x-trace-id", "trace-of-the-suite")];
        let answer = system.post(&format!("/skills/{}:invoke", call.skill_id), &headers, body).await;
        let text = answer.json().to_string();
        let data = answer.json()["data"].to_string();
        assert!(data.contains("trace-of-the-suite"), "{runner}: {text}");
        assert!(data.contains("00-"), "{runner} has no trace parent: {text}");
        assert!(!text.contains("SECRET_OF_THE_HOST") && !text.contains("hunter2"), "{runner}: {text}");
    }
}

#[tokio::test]
async fn a_bare_value_is_the_data() {
    let stage = Stage::start().await;
    let system = &stage.system;
    for (runner, call) in stage.asked(Bare) {
        let result = system.invoke(call).await;
        assert_eq!(code(&result), "", "{runner}: {result:?}");
        assert!([json!(7), json!("7")].contains(&data(&result)), "{runner}: {result:?}");
    }
}

#[tokio::test]
async fn a_failure_keeps_its_code_and_blame() {
    let stage = Stage::start().await;
    let system = &stage.system;
    for (runner, call) in stage.asked(Refuse) {
        let result = system.invoke(call).await;
        let expected = ["INVALID_ARGUMENT", "NOT_FOUND", "MCP_PARAM_ERROR"];
        assert!(expected.contains(&code(&result)), "{runner}: {result:?}");
        assert_eq!(result.error.unwrap().blame, openskill_proto::v1::Blame::Caller as i32, "{runner}");
    }
}

#[tokio::test]
async fn invalid_output_is_the_skills_fault() {
    let stage = Stage::start().await;
    let system = &stage.system;
    for (runner, call) in stage.asked(Bad) {
        let result = system.invoke(call).await;
        assert!(
            ["EXECUTION_ERROR", "MCP_PARSE_ERROR", "MCP_EXECUTION_ERROR"].contains(&code(&result)),
            "{runner}: {result:?}"
        );
        assert_eq!(result.error.unwrap().blame, openskill_proto::v1::Blame::Skill as i32, "{runner}");
        stage.is_well(&runner).await;
    }
}

#[tokio::test]
async fn progress_and_partial_results_precede_the_result() {
    let stage = Stage::start().await;
    let system = &stage.system;
    for (runner, call) in stage.asked(Events) {
        let mut events = system.skills().await.invoke_stream(call).await.unwrap().into_inner();
        let (mut progress, mut last) = (0, None);
        while let Some(event) = events.message().await.unwrap() {
            let event = event.event.unwrap();
            progress += usize::from(matches!(event, Event::Progress(_) | Event::Partial(_)));
            last = Some(event);
        }
        assert!(progress >= 1, "{runner} reported nothing");
        let Some(Event::Result(result)) = last else { panic!("{runner}: no result") };
        assert_eq!(code(&result), "", "{runner}: {result:?}");
    }
}

#[tokio::test]
async fn a_call_past_its_deadline_ends_in_time_and_the_next_call_succeeds() {
    let _alone = alone();
    let stage = Stage::with_one_place().await;
    let system = &stage.system;
    for (runner, call) in stage.asked(Slow) {
        stage.is_well(&runner).await;
        let begun = Instant::now();
        let result: SkillResult = system.invoke(InvokeRequest { timeout_ms: 800, ..call }).await;
        assert!(["TIMEOUT", "MCP_TIMEOUT"].contains(&code(&result)), "{runner}: {result:?}");
        assert!(begun.elapsed() < Duration::from_millis(1800), "{runner}: {:?}", begun.elapsed());
        // The only slot is free again.
        stage.is_well(&runner).await;
    }
}

#[tokio::test]
async fn a_client_that_disconnects_frees_its_slot() {
    let stage = Stage::with_one_place().await;
    let system = &stage.system;
    for (runner, call) in stage.asked(Slow) {
        let mut events = system.skills().await.invoke_stream(call).await.unwrap().into_inner();
        assert!(matches!(events.message().await.unwrap().unwrap().event, Some(Event::Accepted(_))), "{runner}");
        until("the slot is in use", PATIENCE, || async { (system.workers().await[0].in_flight == 1).then_some(()) })
            .await;
        drop(events);
        let begun = Instant::now();
        stage.is_well(&runner).await;
        assert!(begun.elapsed() < Duration::from_secs(8), "{runner}");
    }
}

#[tokio::test]
async fn endless_output_is_cut_off() {
    let stage = Stage::start().await;
    let system = &stage.system;
    for (runner, call) in stage.asked(Huge) {
        let result = system.invoke(call).await;
        assert_eq!(code(&result), "OUTPUT_TOO_LARGE", "{runner}");
        stage.is_well(&runner).await;
    }
}

#[tokio::test]
async fn a_leftover_process_is_killed_and_reported() {
    let _alone = alone();
    let stage = Stage::start().await;
    let system = &stage.system;
    for (number, (runner, call)) in stage.asked(Tree).enumerate() {
        let call_id = format!("tree-{number}-{}", std::process::id());
        let result = system.invoke(InvokeRequest { call_id: call_id.clone(), ..call }).await;
        assert_eq!(code(&result), "EXECUTION_ERROR", "{runner}: {result:?}");
        processes::gone(&call_id, Duration::from_secs(1)).await;
        stage.is_well(&runner).await;
    }
}

#[tokio::test]
async fn queued_calls_end_at_their_deadline() {
    let Stage { system, .. } = Stage::with_one_place().await;
    let mut client = system.skills().await;
    let first = tokio::spawn(async move { client.invoke(request("in_wait", json!({"ms": 3000}))).await });
    until("the slot is in use", PATIENCE, || async { (system.workers().await[0].in_flight == 1).then_some(()) }).await;
    let result = system.invoke(InvokeRequest { timeout_ms: 300, ..request("in_echo", json!({})) }).await;
    assert_eq!(code(&result), "TIMEOUT");
    assert!(result.error.unwrap().message.contains("waited"));
    assert!(first.await.unwrap().unwrap().into_inner().success);
}

fn input(call: &InvokeRequest) -> String {
    match &call.arguments {
        Some(openskill_proto::v1::invoke_request::Arguments::InputJson(text)) => text.clone(),
        other => panic!("{other:?}"),
    }
}
