//! `search_file_content`, `list_code_definitions` and `analyze_tool_needs`, called as a model calls them.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;

use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::folder::Folder;
use openskill_tests::repository;
use openskill_tests::system::{Setup, System, code, data, request};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::workers::gateway;

async fn call(system: &System, skill: &str, input: Value) -> SkillResult {
    let session_id = format!("session-{input}").chars().take(100).collect();
    system.invoke(InvokeRequest { session_id, timeout_ms: 55_000, ..request(skill, input) }).await
}

async fn found(system: &System, skill: &str, input: Value) -> Value {
    let result = call(system, skill, input.clone()).await;
    assert_eq!(code(&result), "", "{skill} {input}: {result:?}\n{}", system.process.log.text());
    data(&result)
}

/// The call fails, and says why.
async fn refused(system: &System, skill: &str, input: Value, expected: (&str, &str)) {
    let result = call(system, skill, input.clone()).await;
    let message = result.error.as_ref().map_or("", |it| it.message.as_str());
    assert_eq!(code(&result), expected.0, "{skill} {input}: {result:?}");
    assert!(message.contains(expected.1), "{skill} {input}: {message}");
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}

/// The names of an answer's definitions, with their kinds.
fn names(answer: &Value) -> Vec<String> {
    let all = answer["definitions"].as_array().unwrap();
    let text = |it: &Value, key: &str| it[key].as_str().unwrap().to_owned();
    all.iter().map(|it| format!("{} {}", text(it, "kind"), text(it, "qualified_name"))).collect()
}

#[tokio::test]
async fn the_examples_of_the_design_work_as_they_are_written() {
    let system = Setup::shipped().start().await;
    let input = json!({"file_path": "src/main.py", "regex_pattern": "def.*"});
    let answer = found(&system, "search_file_content", input).await;
    let first = &answer["matches"][0];
    assert_eq!(
        (&first["path"], &first["match"]),
        (&json!("data/src/main.py"), &json!("def __init__(self, header: list[str]) -> None:"))
    );
    assert_eq!((answer["matches"].as_array().unwrap().len(), &answer["truncated"]), (6, &json!(false)));
    let raw = "<mcp-search-tool><list_code_definitions>{\"directory_path\": \"src/\"}</list_code_definitions></mcp-search-tool>";
    let arguments = openskill_proto::v1::invoke_request::Arguments::Call(raw.to_owned());
    let result = system.invoke(InvokeRequest { arguments: Some(arguments), ..InvokeRequest::default() }).await;
    assert_eq!(code(&result), "", "{result:?}");
    let expected = [
        "class Table",
        "method Table.__init__",
        "method Table.add",
        "method Table.lines",
        "function Table.lines.width",
        "function read",
        "function main",
    ];
    assert_eq!(names(&data(&result)), expected);
    let first = &data(&result)["definitions"][0];
    assert_eq!(
        (&first["file"], &first["start_line"], &first["signature"]),
        (&json!("data/src/main.py"), &json!(10), &json!("class Table"))
    );
}

#[tokio::test]
async fn a_search_obeys_ignore_files_and_globs_and_says_what_it_left_out() {
    let folder = Folder::new();
    for (path, text) in [
        ("data/a.py", "needle\n"),
        ("data/b.log", "needle\n"),
        ("data/.hidden", "needle\n"),
        ("data/sub/c.py", "x\nneedle = 1\n"),
        ("data/sub/d.bin", "needle\0\n"),
        ("data/.gitignore", "*.log\n"),
    ] {
        folder.write(path, text);
    }
    symlink("/etc/passwd", folder.path().join("data/link")).unwrap();
    pipe(&folder.path().join("data/pipe"));
    let system = Setup::shipped().data(&folder.path().join("data")).start().await;
    let paths = |answer: &Value| -> Vec<String> {
        answer["matches"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap().to_owned()).collect()
    };
    let search = |more: Value| {
        let mut input = json!({"file_path": "data", "regex_pattern": "^needle"});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        found(&system, "search_file_content", input)
    };
    let answer = search(json!({})).await;
    assert_eq!(paths(&answer), ["data/a.py", "data/sub/c.py"], "{answer}");
    assert_eq!(
        (&answer["left_out"][0]["path"], &answer["left_out"][0]["reason"]),
        (&json!("data/sub/d.bin"), &json!("binary"))
    );
    assert_eq!(paths(&search(json!({"glob": "*.log"})).await), ["data/b.log"]);
    assert_eq!(paths(&search(json!({"glob": "*.py,!sub/**"})).await), ["data/a.py"]);
    let answer = search(json!({"max_matches": 1})).await;
    assert_eq!((paths(&answer).len(), &answer["truncated_by"]), (1, &json!("max_matches")));
    for (path, expected) in [
        ("data/link", ("FORBIDDEN_PATH", "symbolic link")),
        ("data/pipe", ("INVALID_ARGUMENT", "named pipe")),
        ("data/none", ("NOT_FOUND", "does not exist")),
        ("../outside", ("FORBIDDEN_PATH", "'..'")),
        ("/etc/passwd", ("FORBIDDEN_PATH", "absolute")),
    ] {
        refused(&system, "search_file_content", json!({"file_path": path, "regex_pattern": "a"}), expected).await;
        refused(&system, "list_code_definitions", json!({"file_path": path}), expected).await;
    }
    for (pattern, reason) in [("(", "unclosed group"), ("\\p{Han}{1000}{1000}", "size limit"), ("(?=a)", "look-around")]
    {
        let input = json!({"file_path": "data", "regex_pattern": pattern});
        refused(&system, "search_file_content", input, ("INVALID_ARGUMENT", reason)).await;
    }
}

#[tokio::test]
async fn a_worker_without_openskill_readers_says_that_it_is_missing() {
    let alone = Folder::new();
    let program = alone.path().join("openskill");
    std::fs::copy(openskill_tests::binary(), &program).unwrap();
    let system = Setup::shipped().binary(&program).start().await;
    for input in [json!({"file_path": "data/src/main.py"}), json!({"directory_path": "data/src"})] {
        refused(&system, "list_code_definitions", input, ("TOOL_INVOCATION_ERROR", "openskill-readers")).await;
    }
}

/// The manifests of the toolset, with another bound on the memory of parsers.
fn with_memory(mb: u64) -> Folder {
    let folder = Folder::new();
    let shipped = repository().join("worker/skills/mcp-search-tool/list_code_definitions.yaml");
    let manifest = std::fs::read_to_string(shipped).unwrap();
    let bounded = manifest.replace("memory_mb: 512", &format!("memory_mb: {mb}"));
    assert_ne!(manifest, bounded);
    folder.write("skills/list_code_definitions.yaml", bounded);
    folder
}

#[tokio::test]
async fn a_hostile_source_costs_its_own_file_and_no_worker() {
    let folder = with_memory(300);
    let nested = |open: &str, close: &str, depth: usize| format!("{}{}", open.repeat(depth), close.repeat(depth));
    for (path, text) in [
        ("a.py", "def before(): pass\n".to_owned()),
        ("brackets.js", nested("[", "]", 100_000)),
        ("calls.py", nested("f(", ")", 100_000)),
        // More than a parser may have memory for.
        ("hungry.js", "[1,".repeat(1_300_000)),
        ("line.py", "x".repeat(50 << 20)),
        ("picture.go", "package\0".repeat(100)),
        ("z.py", "class After: pass\n".to_owned()),
    ] {
        folder.write(&format!("data/{path}"), text);
    }
    pipe(&folder.path().join("data/pipe.py"));
    symlink("a.py", folder.path().join("data/link.py")).unwrap();
    let skills = folder.path().join("skills");
    let system = Setup::with_skills(&[&skills]).data(&folder.path().join("data")).start().await;
    let workers = system.worker_pids();
    let answer = found(&system, "list_code_definitions", json!({"directory_path": "data"})).await;
    assert_eq!(names(&answer), ["function before", "class After"], "{answer}");
    let left = answer["left_out"].as_array().unwrap();
    let why = |path: &str| left.iter().find(|it| it["path"] == path).map(|it| it["reason"].as_str().unwrap());
    assert_eq!(why("data/line.py"), Some("too_large"), "{answer}");
    assert_eq!(why("data/picture.go"), Some("binary"), "{answer}");
    assert!([Some("parser_ended"), Some("timeout")].contains(&why("data/hungry.js")), "{answer}");
    for (path, expected) in [
        ("data/line.py", ("INVALID_ARGUMENT", "over 4194304 bytes")),
        ("data/pipe.py", ("INVALID_ARGUMENT", "named pipe")),
        ("data/link.py", ("FORBIDDEN_PATH", "symbolic link")),
        ("data/none.py", ("NOT_FOUND", "does not exist")),
        ("data/picture.go", ("INVALID_ARGUMENT", "binary")),
    ] {
        refused(&system, "list_code_definitions", json!({"file_path": path}), expected).await;
    }
    let unknown = folder.write("data/notes.txt", "");
    let input = json!({"file_path": "data/notes.txt"});
    refused(&system, "list_code_definitions", input, ("INVALID_ARGUMENT", "extension of a supported language")).await;
    drop(unknown);
    let both = json!({"file_path": "a.py", "directory_path": "data"});
    refused(&system, "list_code_definitions", both, ("INVALID_ARGUMENT", "not both")).await;
    assert_eq!(system.worker_pids(), workers, "no worker was lost");
}

#[tokio::test]
async fn a_worker_that_demands_a_jail_gives_it_to_parsers_or_offers_no_listing() {
    let folder = with_memory(400);
    folder.write("data/a.py", "def a(): pass\n");
    let skills = folder.path().join("skills");
    let system = Setup::with_skills(&[&skills]).data(&folder.path().join("data")).start().await;
    let answer = found(&system, "list_code_definitions", json!({"file_path": "a.py"})).await;
    assert_eq!(names(&answer), ["function a"]);
    let described = system.get("/skills/list_code_definitions").await.json();
    assert_eq!(described["runner"], "inproc");
    // A worker that demands more than this machine gives offers no tool that would go without.
    let strict =
        Setup::with_skills(&[&skills]).with("OPENSKILL_LEAST_JAIL", "strict").data(&folder.path().join("data"));
    let system = strict.start().await;
    let described = system.get("/skills/list_code_definitions").await.json();
    let works = described["status"] == "available";
    let answer = call(&system, "list_code_definitions", json!({"file_path": "a.py"})).await;
    assert_eq!(code(&answer), if works { "" } else { "UNAVAILABLE" }, "{described}: {answer:?}");
}

/// The tasks that were written for this test: language, the tools that are right, the task.
fn tasks() -> Vec<[String; 3]> {
    let text = std::fs::read_to_string(repository().join("tests/fixtures/tasks.tsv")).unwrap();
    let parts = |line: &str| line.splitn(3, '\t').map(str::to_owned).collect::<Vec<_>>().try_into().unwrap();
    text.lines().map(parts).collect()
}

#[tokio::test]
async fn the_right_tool_is_among_the_first_three_and_none_is_invented() {
    let system = Setup::shipped().start().await;
    let all = system.get("/skills").await.json();
    let all: BTreeSet<&str> = all["skills"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert!(all.len() >= 45, "{all:?}");
    let tasks = tasks();
    let (mut right, mut wrong) = ([0, 0], Vec::new());
    for [language, tools, task] in &tasks {
        let answer = found(&system, "analyze_tool_needs", json!({"task_description": task})).await;
        let named = |list: &str| -> Vec<String> {
            answer[list].as_array().unwrap().iter().map(|it| it["tool"].as_str().unwrap().to_owned()).collect()
        };
        let needed = named("needed");
        let invented: Vec<_> = [needed.clone(), named("paused"), named("unavailable")]
            .concat()
            .into_iter()
            .filter(|it| !all.contains(it.as_str()))
            .collect();
        assert!(invented.is_empty(), "{task}: {invented:?}");
        assert!(tools.split(',').all(|it| all.contains(it)), "the fixture names {tools}");
        if tools.split(',').any(|tool| needed.iter().take(3).any(|it| it == tool)) {
            right[usize::from(language == "zh")] += 1;
        } else {
            wrong.push(format!("{task}: {tools}, not {needed:?}"));
        }
    }
    assert_eq!((tasks.len(), tasks.iter().filter(|it| it[0] == "zh").count()), (60, 30));
    assert!(right.iter().all(|it| *it >= 27), "{right:?}: {wrong:#?}");
}

#[tokio::test]
async fn what_a_task_needs_is_said_of_all_workers_and_of_circuits() {
    let folder = Folder::new();
    let manifest = |id: &str, description: &str, entry: &str| {
        format!("id: {id}\ndescription: {description}\ntype: inproc\nentry: {entry}\ntoolset: own\n")
    };
    folder.write("skills/forecast.yaml", manifest("forecast", "Forecasts the weather of a city.", "fail"));
    let needs = std::fs::read(repository().join("worker/skills/mcp-search-tool/analyze_tool_needs.yaml")).unwrap();
    folder.write("skills/analyze_tool_needs.yaml", needs);
    folder.write("others/umbrella.yaml", manifest("umbrella", "Orders an umbrella for bad weather.", "echo"));
    folder.write("others/boat.yaml", manifest("boat", "Orders a boat.", "no_such_function"));
    let (skills, others) = (folder.path().join("skills"), folder.path().join("others"));
    let worker = |name: &str, skills: &Path| {
        let listen = format!("unix:{}", folder.path().join(name).display());
        let skills = skills.display().to_string();
        let setup = Setup::command(&["worker", "--listen", &listen, "--id", name, "--skills-dir", &skills]);
        setup.data(&folder.path().join("data")).spawn()
    };
    let _workers = [worker("one.sock", &skills), worker("two.sock", &others)];
    let system = gateway(&format!("unix:{}/*.sock", folder.path().display())).await;
    for skill in ["umbrella", "forecast", "analyze_tool_needs"] {
        system.has_skill(skill).await;
    }
    let analyze = async |session: &str| {
        let input = json!({"task_description": "预报 city weather, then order an umbrella and a boat"});
        let session_id = session.to_owned();
        let result = system.invoke(InvokeRequest { session_id, ..request("analyze_tool_needs", input) }).await;
        assert_eq!(code(&result), "", "{result:?}");
        assert_eq!(result.meta.as_ref().unwrap().runner, "gateway:tool_needs");
        data(&result)
    };
    let answer = analyze("calm").await;
    let status = |answer: &Value, tool: &str| -> Option<Value> {
        answer["needed"].as_array().unwrap().iter().find(|it| it["tool"] == tool).map(|it| it["status"].clone())
    };
    assert_eq!(status(&answer, "forecast"), Some(json!("available")), "{answer}");
    assert_eq!(status(&answer, "umbrella"), Some(json!("available")), "of the other worker: {answer}");
    assert_eq!(status(&answer, "boat"), Some(json!("unavailable")), "{answer}");
    assert!(answer["unavailable"][0]["reason"].as_str().unwrap().contains("no in-process function"), "{answer}");
    assert_eq!(status(&answer, "analyze_tool_needs"), None);
    for _ in 0..3 {
        let session_id = "stormy".to_owned();
        let failing = request("forecast", json!({"code": "EXECUTION_ERROR"}));
        system.invoke(InvokeRequest { session_id, ..failing }).await;
    }
    let answer = analyze("stormy").await;
    assert_eq!(status(&answer, "forecast"), Some(json!("paused")), "{answer}");
    assert_eq!(answer["paused"][0]["tool"], "forecast", "{answer}");
    assert!(answer["paused"][0]["retry_after_ms"].as_u64().unwrap() > 0);
    assert_eq!(status(&analyze("calm").await, "forecast"), Some(json!("available")), "another session is not paused");
}
