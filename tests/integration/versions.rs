//! Versions of a skill side by side: a call names one, an operator divides calls among them, and rolls back.

use std::collections::BTreeSet;
use std::process::Output;

use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use openskill_proto::v1::{ErrorCode, ExecuteRequest, InvokeRequest, PreparedCall, SkillResult};
use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until;
use serde_json::json;
use tokio::process::Command;
use tonic::transport::Endpoint;

use crate::mcp_face;

/// A folder with two versions of `shout`, which differ in their answer and their schema.
fn two_versions() -> Folder {
    let folder = Folder::new();
    for (version, parameter, answer) in [("1.2.3", "text", "text.upper()"), ("2.0.0", "words", "words.upper() + '!'")] {
        let script = format!(
            "import json, sys\n{parameter} = json.load(sys.stdin)['input']['{parameter}']\nprint(json.dumps({{'success': True, 'data': {answer}}}))\n"
        );
        folder.write(&format!("shout-{version}.py"), script);
        let manifest = format!(
            "id: shout\nversion: {version}\ntype: cli\nruntime: python\nentry: shout-{version}.py\n\
             input_schema: {{type: object, required: [{parameter}], properties: {{{parameter}: {{type: string}}}}}}\n"
        );
        folder.write(&format!("shout-{version}.yaml"), manifest);
    }
    folder
}

async fn start(skills: &Folder, state: &Folder) -> System {
    let file = state.path().join("traffic.json");
    let setup =
        Setup::with_skills(&[skills.path()]).flag("--workers", 1).with("OPENSKILL_TRAFFIC_FILE", file.display());
    let system = setup.start().await;
    system.has_skill("shout").await;
    system
}

async fn run(system: &System, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).env("OPENSKILL_HTTP_BASE_URL", system.url()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

async fn shout(system: &System, skill: &str, session: &str) -> SkillResult {
    // Each version drops the parameter of the other one.
    let input = json!({"text": "hey", "words": "hey"});
    system.invoke(InvokeRequest { session_id: session.to_owned(), ..request(skill, input) }).await
}

fn version(result: &SkillResult) -> &str {
    &result.meta.as_ref().unwrap().version
}

#[tokio::test]
async fn a_call_names_a_version_and_otherwise_gets_the_newest() {
    let (skills, state) = (two_versions(), Folder::new());
    let system = start(&skills, &state).await;
    for (skill, answered, answer) in [
        ("shout", "2.0.0", "HEY!"),
        ("shout@1.2.3", "1.2.3", "HEY"),
        ("shout@1.2", "1.2.3", "HEY"),
        ("shout@2", "2.0.0", "HEY!"),
    ] {
        let result = shout(&system, skill, "").await;
        assert_eq!((version(&result), data(&result)), (answered, json!(answer)), "{skill}: {result:?}");
        assert_eq!(result.skill_id, "shout");
    }
    let rest = system.call("shout@1.2", json!({"text": "hey"})).await.json();
    assert_eq!((&rest["meta"]["version"], &rest["data"]), (&json!("1.2.3"), &json!("HEY")));
    let described = system.get("/skills/shout@1").await.json();
    assert!(described["input_schema"]["properties"].get("text").is_some(), "{described}");
    let line = run(&system, &["invoke", "shout@1.2", "text=hey"]).await;
    assert_eq!(String::from_utf8_lossy(&line.stdout), "\"HEY\"\n");
    let unknown = shout(&system, "shout@1.3", "").await;
    assert_eq!(code(&unknown), "NOT_FOUND");
    assert!(unknown.error.unwrap().message.contains("2.0.0, 1.2.3"));
    let unclear = shout(&system, "shout@", "").await;
    assert_eq!(code(&unclear), "INVALID_ARGUMENT", "{unclear:?}");
    // MCP clients and models see one tool.
    let tool = json!({"name": "shout@1.2", "arguments": {"text": "hey"}});
    let refused = mcp_face::ask(&system, "tools/call", tool).await.json();
    assert!(refused["error"]["message"].as_str().unwrap().contains("no tool 'shout@1.2'"), "{refused}");
    let tools = system.get("/tools").await.json();
    assert_eq!(tools["skill_ids"], json!({"shout": "shout"}));
}

#[tokio::test]
async fn an_operator_divides_calls_by_sessions_rolls_back_with_one_command_and_the_rule_survives() {
    let (skills, state) = (two_versions(), Folder::new());
    let system = start(&skills, &state).await;
    run(&system, &["traffic", "shout", "1.2=50", "2.0=50"]).await;
    let mut answered = BTreeSet::new();
    // All of 100 sessions on one version has a chance of 2 to the power of -99.
    for session in 0..100 {
        let session = format!("session {session}");
        let first = shout(&system, "shout", &session).await;
        let again = shout(&system, "shout", &session).await;
        assert_eq!(version(&first), version(&again), "a session stays on its version");
        answered.insert(version(&first).to_owned());
    }
    assert_eq!(answered.len(), 2, "{answered:?}");
    // A prepared call goes to the version whose arguments were prepared.
    let mut client = system.skills().await;
    for _ in 0..20 {
        let prepare = client.prepare_call(request("shout", json!({"text": "hey", "words": "hey"}))).await;
        let PreparedCall { version: prepared, skill, .. } = prepare.unwrap().into_inner();
        let definition_hash = skill.unwrap().definition_hash;
        let call = InvokeRequest { definition_hash, ..request("shout", json!({"text": "hey", "words": "hey"})) };
        assert_eq!(version(&system.invoke(call).await), prepared);
    }
    let rolled = run(&system, &["rollback", "shout", "--output", "json"]).await;
    let versions: serde_json::Value = serde_json::from_slice(&rolled.stdout).unwrap();
    let weights: Vec<_> = versions.as_array().unwrap().iter().map(|it| (&it["version"], &it["weight"])).collect();
    assert_eq!(weights, [(&json!("2.0.0"), &json!(0)), (&json!("1.2.3"), &json!(100))]);
    let listed = run(&system, &["skills"]).await;
    assert!(String::from_utf8_lossy(&listed.stdout).contains("2.0.0 0%, 1.2.3 100%"), "{listed:?}");
    drop(system);
    let system = start(&skills, &state).await;
    for session in 0..20 {
        assert_eq!(version(&shout(&system, "shout", &session.to_string()).await), "1.2.3");
    }
    assert_eq!(version(&shout(&system, "shout@2", "").await), "2.0.0", "a call may still name it");
    // Without its version, the rule refuses calls: the version that was rolled back takes none.
    std::fs::remove_file(skills.path().join("shout-1.2.3.yaml")).unwrap();
    std::fs::remove_file(skills.path().join("shout-1.2.3.py")).unwrap();
    let refused = until("1.2.3 is gone", PATIENCE, || async {
        let result = shout(&system, "shout", "").await;
        assert_ne!(version(&result), "2.0.0");
        result.error.filter(|it| it.message.contains("`openskill traffic shout --clear`"))
    })
    .await;
    assert!(refused.code() == ErrorCode::Unavailable && refused.retryable, "{refused:?}");
    assert_eq!(version(&shout(&system, "shout@2", "").await), "2.0.0");
    system.process.log.line(&["no version of the traffic rule can run", "shout"]).await;
    let cleared = run(&system, &["traffic", "shout", "--clear"]).await;
    assert!(String::from_utf8_lossy(&cleared.stdout).contains("2.0.0"), "{cleared:?}");
    assert_eq!(version(&shout(&system, "shout", "").await), "2.0.0");
    assert_eq!(system.get("/skills/shout").await.json().get("versions"), None);
}

#[tokio::test]
async fn a_session_stays_with_its_worker_which_serves_one_of_the_versions() {
    let (folder, port) = (Folder::new(), Port::reserve());
    let workers = ["1.0", "2.0"].map(|version| {
        let manifest = format!("id: echo\nversion: '{version}'\ntype: inproc\nentry: echo\naffinity: session\n");
        folder.write(&format!("{version}/echo.yaml"), manifest);
        let socket = format!("unix:{}", folder.path().join(format!("{version}.sock")).display());
        let skills = folder.path().join(version);
        let worker = Setup::command(&["worker", "--listen", &socket]).flag("--skills-dir", skills.display()).spawn();
        (socket, worker)
    });
    let (address, sockets) = (port.address(), workers.each_ref().map(|it| it.0.as_str()).join(","));
    let process = Setup::command(&["gateway", "--listen", &address.to_string(), "--workers", &sockets]).spawn();
    process.log.line(&["gateway ready"]).await;
    let system = System { address, process };
    until("both versions are served", PATIENCE, || async {
        let described = system.get("/skills/echo").await.json();
        (described["versions"].as_array()?.len() == 2).then_some(())
    })
    .await;
    let call = async |skill: &str, session: &str| {
        let session_id = session.to_owned();
        system.invoke(InvokeRequest { session_id, ..request(skill, json!({"text": "hey"})) }).await
    };
    assert_eq!(version(&call("echo@1.0", "s").await), "1.0");
    let refused = call("echo@2.0", "s").await;
    assert_eq!(code(&refused), "INVALID_ARGUMENT", "{refused:?}");
    assert!(refused.error.unwrap().message.contains("serves 1.0"));
    assert_eq!(version(&call("echo", "s").await), "1.0", "the session goes on");
    run(&system, &["traffic", "echo", "1.0=50", "2.0=50"]).await;
    for session in 0..10 {
        let session = session.to_string();
        assert_eq!(version(&call("echo@1.0", &session).await), "1.0");
        assert_eq!(version(&call("echo", &session).await), "1.0", "a rule moves no session to another worker");
    }
}

#[tokio::test]
async fn a_worker_runs_its_newest_version_for_a_gateway_that_names_none() {
    let (skills, port) = (two_versions(), Port::reserve());
    let folder = skills.path().display().to_string();
    let address = format!("127.0.0.1:{}", port.number());
    let _worker = Setup::command(&["worker", "--listen", &address, "--skills-dir", &folder]).spawn();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = until("the worker listens", PATIENCE, || async { endpoint.connect().await.ok() }).await;
    let mut client = WorkerServiceClient::new(channel);
    let mut execute = async |version: &str| {
        let request = ExecuteRequest {
            skill_id: "shout".to_owned(),
            version: version.to_owned(),
            input_json: br#"{"text": "hey", "words": "hey"}"#.as_slice().into(),
            timeout_ms: 10_000,
            ..ExecuteRequest::default()
        };
        client.execute(request).await.map(|answer| answer.into_inner().version)
    };
    assert_eq!(execute("").await.unwrap(), "2.0.0");
    assert_eq!(execute("1.2.3").await.unwrap(), "1.2.3");
    let refused = execute("1.2").await.unwrap_err();
    assert!(refused.metadata().contains_key("openskill-not-started"), "{refused:?}");
}
