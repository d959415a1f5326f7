//! Output that means different things to different readers, or that a standard client cannot read, is an error of its skill.

use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{InvokeRequest, SkillResult, skill_result};
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System, code, data, request};
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use serde_json::json;

/// Prints what `print` says.
const PRINTS: &str = "import json, sys\nprint(json.load(sys.stdin)['input']['print'])\n";

async fn start(folder: &Folder, more: &str) -> System {
    folder.write("prints.py", PRINTS);
    for kind in ["fork", "process", "shared"] {
        let manifest = format!("id: prints_{kind}\ntype: cli:python\nentry: prints.py\nisolation: {kind}\n");
        folder.write(&format!("prints_{kind}.yaml"), manifest);
    }
    folder.write("prints_exec.yaml", "id: prints_exec\ntype: cli:exec\nentry: prints.sh\n");
    let program = folder.write("prints.sh", "#!/bin/sh\necho '{\"a\":{\"b\":1,\"c\":[],\"b\":2}}'\n");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    if !more.is_empty() {
        folder.write("more.yaml", more);
    }
    Setup::with_skills(&[folder.path()]).start().await
}

fn printing(skill: &str, text: &str) -> InvokeRequest {
    request(skill, json!({ "print": text }))
}

/// The same call with its arguments as a `Struct`, so that the result is a `Value`.
fn with_struct(skill: &str, text: &str) -> InvokeRequest {
    let value = Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let arguments = Some(Arguments::Input(Struct { fields: [("print".to_owned(), value)].into() }));
    InvokeRequest { skill_id: skill.to_owned(), arguments, ..InvokeRequest::default() }
}

fn is_refused(result: &SkillResult, words: &[&str]) {
    assert_eq!(code(result), "EXECUTION_ERROR", "{result:?}");
    let error = result.error.as_ref().unwrap();
    assert!(words.iter().all(|word| error.message.contains(word)), "{error:?}");
    assert!(error.may_have_run, "{error:?}");
}

#[tokio::test]
async fn an_object_with_a_key_twice_is_refused_from_every_runner() {
    let backend = Backend::start(|_| Reply::new(200, "application/json", "{\"a\":{\"b\":1,\"b\":2}}")).await;
    let folder = Folder::new();
    let (url, host) = (backend.url("/"), backend.address);
    let system =
        start(&folder, &format!("id: fetches\ntype: http\nentry: '{url}'\nhttp: {{allow: ['{host}']}}\n")).await;
    let twice = "{\"a\":{\"b\":1,\"c\":[],\"b\":2}}";
    for skill in ["prints_fork", "prints_process", "prints_shared", "prints_exec", "fetches"] {
        is_refused(&system.invoke(printing(skill, twice)).await, &["more than once", "'/a/b'"]);
        is_refused(&system.invoke(with_struct(skill, twice)).await, &["more than once", "'/a/b'"]);
    }
    let report = "{\"success\":true,\"data\":{\"x\":[1,{\"y\":1,\"\\u0079\":2}]}}";
    is_refused(&system.invoke(printing("prints_fork", report)).await, &["'/data/x/1/y'"]);
    let fine = "{\"a\":{\"a\":1},\"b\":{\"a\":[{\"a\":1},{\"a\":1}]}}";
    assert!(system.invoke(printing("prints_fork", fine)).await.success);
}

fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

#[tokio::test]
async fn data_that_nests_deeper_than_standard_clients_read_is_refused_as_a_value_only() {
    let folder = Folder::new();
    let system = start(&folder, "").await;
    // This client has the standard bound.
    let result = system.invoke(with_struct("prints_fork", &nested(32))).await;
    assert!(matches!(result.output, Some(skill_result::Output::Data(_))), "{result:?}");
    let mut events =
        system.skills().await.invoke_stream(with_struct("prints_fork", &nested(32))).await.unwrap().into_inner();
    while events.message().await.unwrap().is_some() {}
    let result = system.invoke(with_struct("prints_fork", &nested(33))).await;
    is_refused(&result, &["nested too deeply", "32 objects", "JSON text in a string", "input_json"]);
    let result = system.invoke(printing("prints_fork", &nested(64))).await;
    assert_eq!(data(&result).to_string(), nested(64));
}

#[tokio::test]
async fn data_of_too_many_values_is_refused_as_a_value_only() {
    let system = Setup::up().start().await;
    let result = system.invoke(request("many_numbers", json!({}))).await;
    assert!(result.success, "{result:?}");
    let call = InvokeRequest { skill_id: "many_numbers".to_owned(), arguments: None, ..InvokeRequest::default() };
    let result = system.invoke(call).await;
    assert_eq!(code(&result), "OUTPUT_TOO_LARGE", "{:?}", result.error);
}
