//! A key for one skill: nothing else exists for it.

use futures_util::StreamExt as _;
use openskill_proto::v1::{
    ExportToolsRequest, GetSkillRequest, GetTraceRequest, InvokeRequest, ListSkillsRequest, ListTracesRequest, Skill,
    WatchSkillsRequest, invoke_event::Event,
};
use openskill_tests::system::{Setup, code, request};
use serde_json::{Value, json};
use tonic::Code;

use super::{Keys, from, get, post};

/// A skill that is there, and one that is not. No visible skill has a name like theirs.
const FORBIDDEN: &str = "prints_much";
const MISSING: &str = "never_heard";

fn ids(skills: &[Skill]) -> Vec<&str> {
    skills.iter().map(|it| it.id.as_str()).collect()
}

/// A text about one skill, without its name.
fn nameless(text: &str) -> String {
    text.replace(FORBIDDEN, "X").replace(MISSING, "X")
}

#[tokio::test]
async fn over_grpc_only_its_skills_are_listed_read_watched_exported_and_called() {
    let keys = Keys::new();
    let key = keys.create("one", &["--skills", "in_echo"]);
    let system = keys.up().start().await;
    let mut skills = system.skills().await;
    let listed = skills.list_skills(from(&key, ListSkillsRequest::default())).await.unwrap().into_inner();
    assert_eq!(ids(&listed.skills), ["in_echo"]);
    let mut get = async |id: &str| {
        let request = GetSkillRequest { skill_id: id.to_owned() };
        skills.get_skill(from(&key, request)).await.map_err(|it| (it.code(), it.message().to_owned()))
    };
    assert!(get("in_echo").await.is_ok());
    let (forbidden, missing) = (get(FORBIDDEN).await.unwrap_err(), get(MISSING).await.unwrap_err());
    assert_eq!((forbidden.0, &forbidden), (Code::NotFound, &missing));

    let mut watched = skills.watch_skills(from(&key, WatchSkillsRequest::default())).await.unwrap().into_inner();
    let mut seen = Vec::new();
    loop {
        let change = watched.next().await.unwrap().unwrap();
        seen.extend(change.skill.map(|it| it.id));
        if change.snapshot_complete {
            break;
        }
    }
    assert_eq!(seen, ["in_echo"]);

    let all = ExportToolsRequest { include_unavailable: true, ..ExportToolsRequest::default() };
    let tools = skills.export_tools(from(&key, all)).await.unwrap().into_inner();
    assert_eq!(tools.skill_ids.into_values().collect::<Vec<_>>(), ["in_echo"]);
    assert!(tools.disabled.is_empty(), "{:?}", tools.disabled);
    let named = ExportToolsRequest { skill_ids: vec![FORBIDDEN.to_owned()], ..ExportToolsRequest::default() };
    assert_eq!(skills.export_tools(from(&key, named)).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn over_grpc_a_forbidden_skill_is_answered_as_one_that_does_not_exist() {
    let keys = Keys::new();
    let key = keys.create("one", &["--skills", "in_echo"]);
    let system = keys.up().start().await;
    let mut skills = system.skills().await;
    let called = skills.invoke(from(&key, request("in_echo", json!({"text": "x"})))).await.unwrap().into_inner();
    assert!(called.success, "{called:?}");

    let mut answers = Vec::new();
    for id in [FORBIDDEN, MISSING] {
        let wanted = || from(&key, request(id, json!({})));
        let result = skills.invoke(wanted()).await.unwrap().into_inner();
        assert_eq!(code(&result), "NOT_FOUND");
        let prepared = skills.prepare_call(wanted()).await.unwrap().into_inner();
        let mut said = vec![result.error.unwrap().message, prepared.error.unwrap().message];
        let mut events = skills.invoke_stream(wanted()).await.unwrap().into_inner();
        while let Some(event) = events.message().await.unwrap() {
            match event.event.unwrap() {
                // It has the version of a skill that exists.
                Event::Accepted(accepted) => said.push(accepted.version),
                Event::Result(result) => said.push(result.error.unwrap().message),
                other => panic!("{other:?}"),
            }
        }
        let many = tokio_stream::iter([request(id, json!({}))]);
        let mut events = skills.invoke_many(from(&key, many)).await.unwrap().into_inner();
        while let Some(event) = events.message().await.unwrap() {
            if let Some(Event::Result(result)) = event.event {
                said.push(result.error.unwrap().message);
            }
        }
        answers.push(said.iter().map(|it| nameless(it)).collect::<Vec<_>>());
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].len(), 5, "{answers:?}");
    // What is near is only named if it may be seen.
    let typo = skills.invoke(from(&key, request("print_much", json!({})))).await.unwrap().into_inner();
    assert!(!typo.error.unwrap().message.contains("prints_much"));
}

#[tokio::test]
async fn over_rest_in_the_docs_and_as_tools_nothing_else_exists_either() {
    let keys = Keys::new();
    let key = keys.create("one", &["--skills", "in_echo"]);
    let system = keys.up().start().await;
    let listed = get(&system, &key, "/skills").await.json();
    let names: Vec<_> = listed["skills"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(names, ["in_echo"]);
    assert_eq!(get(&system, &key, "/skills/in_echo").await.status, 200);
    assert_eq!(post(&system, &key, "/skills/in_echo:invoke", r#"{"input": {"text": "x"}}"#).await.status, 200);
    for (path, verb) in [("", "GET"), (":invoke", "POST"), (":prepare", "POST"), (":stream", "POST")] {
        let mut answers = Vec::new();
        for id in [FORBIDDEN, MISSING] {
            let path = format!("/skills/{id}{path}");
            let answer = match verb {
                "GET" => get(&system, &key, &path).await,
                _ => post(&system, &key, &path, r#"{"input": {}}"#).await,
            };
            let text = String::from_utf8(answer.body.to_vec()).unwrap();
            let message = text.split("\"message\":").nth(1).unwrap_or(&text).split("\",").next().unwrap().to_owned();
            answers.push((answer.status, nameless(&message)));
        }
        assert_eq!(answers[0], answers[1], "{path}");
        assert!(answers[0].1.contains("unknown skill"), "{answers:?}");
    }
    let tools = get(&system, &key, "/tools?include_unavailable=true").await;
    let text = String::from_utf8(tools.body.to_vec()).unwrap();
    assert!(text.contains("in_echo") && !text.contains("in_wait") && !text.contains(FORBIDDEN), "{text}");
    let document = get(&system, &key, "/openapi.json").await.json();
    let paths: Vec<_> =
        document["paths"].as_object().unwrap().keys().filter(|it| it.starts_with("/skills/in_")).collect();
    assert!(!paths.is_empty() && paths.iter().all(|it| it.starts_with("/skills/in_echo")), "{paths:?}");
    assert!(!document.to_string().contains(FORBIDDEN));
    // One principal's document is not another's.
    let other = keys.create("other", &["--skills", "in_wait"]);
    openskill_tests::wait::until("the new key counts", openskill_tests::system::PATIENCE, || async {
        (get(&system, &other, "/skills").await.status == 200).then_some(())
    })
    .await;
    let text = get(&system, &other, "/openapi.json").await.json().to_string();
    assert!(text.contains("/skills/in_wait") && !text.contains("in_echo"));
}

#[tokio::test]
async fn each_principal_reads_its_own_traces_and_the_metrics_of_its_skills() {
    let keys = Keys::new();
    let one = keys.create("one", &["--skills", "in_echo"]);
    let other = keys.create("other", &["--skills", "in_echo,in_fail"]);
    let admin = keys.create("operator", &["--admin"]);
    let system = keys.up().start().await;
    for (key, skill) in [(&one, "in_echo"), (&other, "in_echo"), (&other, "in_fail")] {
        post(&system, key, &format!("/skills/{skill}:invoke"), r#"{"input": {}}"#).await;
    }
    let mut traces = system.traces().await;
    for (key, wanted) in [(&one, 1), (&other, 2), (&admin, 3)] {
        let listed = openskill_tests::wait::until("the calls are recorded", openskill_tests::system::PATIENCE, || {
            let (mut traces, request) = (traces.clone(), from(key, ListTracesRequest::default()));
            async move {
                let calls = traces.list_traces(request).await.unwrap().into_inner().calls;
                (calls.len() == wanted).then_some(calls)
            }
        })
        .await;
        let over_rest = get(&system, key, "/traces").await.json();
        assert_eq!(over_rest["calls"].as_array().unwrap().len(), wanted);
        let all_own = listed.iter().all(|call| call.principal == "one");
        assert_eq!(all_own, wanted == 1, "{listed:?}");
        let call = GetTraceRequest { id: listed[0].trace_id.clone() };
        let read_by_one = traces.get_trace(from(&one, call)).await;
        assert_eq!(read_by_one.is_ok(), listed[0].principal == "one");
    }
    let metrics = async |key: &str| String::from_utf8(get(&system, key, "/metrics").await.body.to_vec()).unwrap();
    let own = metrics(&one).await;
    assert!(own.contains("skill=\"in_echo\"") && !own.contains("in_fail"), "{own}");
    let samples = own.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert!(samples.clone().all(|line| line.contains("skill=\"in_echo\"")), "{own}");
    let all = metrics(&admin).await;
    assert!(all.contains("in_fail") && all.contains("openskill_workers"), "{all}");
}

#[tokio::test]
async fn destructive_skills_need_the_word_of_the_policy() {
    let keys = Keys::new();
    let careful = keys.create("careful", &["--skills", "*"]);
    let bold = keys.create("bold", &["--skills", "*", "--destructive"]);
    let system = keys.up().start().await;
    let has_destructive = async |key: &str| {
        let skills = get(&system, key, "/skills").await.json()["skills"].as_array().unwrap().clone();
        assert!(skills.len() > 10, "{skills:?}");
        skills.iter().any(|it| it["destructive"] == true)
    };
    assert!(has_destructive(&bold).await && !has_destructive(&careful).await);
    let call = async |key: &str| post(&system, key, "/skills/typed_destructive:invoke", r#"{"input": {}}"#).await;
    assert_eq!((call(&careful).await.status, call(&careful).await.code().as_str()), (404, "NOT_FOUND"));
    assert_ne!(call(&bold).await.status, 404);
}

#[tokio::test]
async fn a_policy_for_a_toolset_has_its_skills_and_no_others() {
    let keys = Keys::new();
    let key = keys.create("core", &["--toolsets", "core"]);
    let system = Setup::shipped().with("OPENSKILL_KEYS", keys.path().display()).start().await;
    let listed = get(&system, &key, "/skills").await.json();
    let skills = listed["skills"].as_array().unwrap();
    assert!(skills.len() > 3 && skills.iter().all(|it| it["toolset"] == "core"), "{listed}");
    assert_eq!(get(&system, &key, "/skills/calculator").await.status, 200);
    assert_eq!(get(&system, &key, "/skills/search_file_content").await.status, 404);
}

#[tokio::test]
async fn artifacts_and_idempotency_keys_belong_to_their_principal() {
    let keys = Keys::new();
    let (one, other) = (keys.create("one", &["--skills", "*"]), keys.create("other", &["--skills", "*"]));
    let system = keys.up().start().await;
    let call = r#"{"input": {"name": "a.bin", "bytes": 1048576}, "idempotency_key": "k"}"#;
    let first = post(&system, &one, "/skills/in_artifact:invoke", call).await.json();
    let handle = first["artifacts"][0]["handle"].as_str().unwrap().to_owned();
    let path = format!("/artifacts/{handle}");
    assert_eq!(get(&system, &one, &path).await.status, 200);
    assert_eq!(get(&system, &other, &path).await.status, 404);
    let again = post(&system, &one, "/skills/in_artifact:invoke", call).await.json();
    assert_eq!(again["artifacts"][0]["handle"], first["artifacts"][0]["handle"], "the first result");
    let of_other = post(&system, &other, "/skills/in_artifact:invoke", call).await.json();
    assert_ne!(of_other["artifacts"][0]["handle"], first["artifacts"][0]["handle"]);
    // It exists as long as its skill does for them.
    keys.write(&keys.text().replace("[\"*\"]", "[\"in_echo\"]"));
    openskill_tests::wait::until("the policy has changed", openskill_tests::system::PATIENCE, || async {
        (get(&system, &one, "/skills/in_artifact").await.status == 404).then_some(())
    })
    .await;
    assert_eq!(get(&system, &one, &path).await.status, 404);
}

/// The agent acts for whoever talks with it, and finds no other tools than theirs.
#[tokio::test]
async fn the_agent_has_the_tools_of_its_user() {
    let keys = Keys::new();
    let key = keys.create("one", &["--skills", "echo"]);
    let other = keys.create("other", &["--skills", "*"]);
    let system = Setup::shipped().with("OPENSKILL_KEYS", keys.path().display()).start().await;
    let chat = async |key: &str, message: &str| {
        let answer = post(&system, key, "/agent/chat", &json!({ "message": message }).to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let called = |answer: &Value| -> Vec<String> {
        let events = answer["events"].as_array().unwrap();
        let calls = events.iter().filter(|it| it["event"] == "tool_call");
        calls.map(|it| it["data"]["skill_id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let task = "mean and max of 10.5, 9.9, 11.2";
    assert_eq!(called(&chat(&other, task).await), ["calculator"]);
    let refused = chat(&key, task).await;
    assert!(!called(&refused).contains(&"calculator".to_owned()), "{refused}");
    let echoed = chat(&key, "echo: hello").await;
    assert_eq!(called(&echoed), ["echo"]);
    // A conversation is its own user's.
    let path = format!("/agent/conversations/{}", echoed["conversation_id"].as_str().unwrap());
    assert_eq!(get(&system, &key, &path).await.status, 200);
    assert_eq!(get(&system, &other, &path).await.status, 404);
    let needs = json!({ "input": { "task_description": "mean of numbers" } }).to_string();
    let analyst = keys.create("analyst", &["--skills", "analyze_tool_needs,echo"]);
    let answer = openskill_tests::wait::until("the new key counts", openskill_tests::system::PATIENCE, || async {
        let answer = post(&system, &analyst, "/skills/analyze_tool_needs:invoke", &needs).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert!(!answer.json().to_string().contains("calculator"), "{answer:?}");
}

/// An agent that is a skill names its tools. Which of them exist depends on who reads it.
#[tokio::test]
async fn an_agent_that_is_a_skill_lists_only_tools_that_exist_for_its_reader() {
    let keys = Keys::new();
    let one = keys.create("one", &["--skills", "helper,in_echo"]);
    let all = keys.create("all", &["--skills", "*"]);
    let manifest =
        "id: helper\ntype: agent\ndescription: Helps.\nagent:\n  prompt: Help.\n  tools: [in_echo, in_wait]\n";
    keys.0.write("skills/helper.yaml", manifest);
    let setup = Setup::with_skills(&[&openskill_tests::fixtures(), &keys.0.path().join("skills")]);
    let system = setup.with("OPENSKILL_KEYS", keys.path().display()).start().await;
    let mut skills = system.skills().await;
    for (key, tools) in [(&one, &["in_echo"][..]), (&all, &["in_echo", "in_wait"])] {
        let request = GetSkillRequest { skill_id: "helper".to_owned() };
        let skill = skills.get_skill(from(key, request)).await.unwrap().into_inner();
        assert_eq!(skill.agent.unwrap().tools, tools);
        let listed = skills.list_skills(from(key, ListSkillsRequest::default())).await.unwrap().into_inner().skills;
        let helper = listed.into_iter().find(|it| it.id == "helper").unwrap();
        assert_eq!(helper.agent.unwrap().tools, tools);
        for path in ["/skills", "/skills/helper"] {
            let text = get(&system, key, path).await.json().to_string();
            assert_eq!(text.contains("in_wait"), tools.len() == 2, "{path}: {text}");
        }
    }
}

#[tokio::test]
async fn a_policy_without_questions_makes_calls_that_nobody_answers() {
    let keys = Keys::new();
    let asks = keys.create("asks", &["--skills", "in_ask"]);
    let silent = keys.create("silent", &["--skills", "in_ask", "--not-interactive"]);
    let system = keys.up().start().await;
    let mut skills = system.skills().await;
    for (key, is_asked) in [(&asks, true), (&silent, false)] {
        let call =
            InvokeRequest { interactive: true, timeout_ms: 20_000, ..request("in_ask", json!({"message": "?"})) };
        let mut events = skills.invoke_stream(from(key, call)).await.unwrap().into_inner();
        let mut was_asked = false;
        while let Some(event) = events.message().await.unwrap() {
            match event.event.unwrap() {
                Event::InputRequired(_) => {
                    was_asked = true;
                    break;
                }
                Event::Result(result) => assert_eq!(code(&result), "ASK_USER_UNAVAILABLE", "{result:?}"),
                _ => {}
            }
        }
        assert_eq!(was_asked, is_asked);
    }
}
