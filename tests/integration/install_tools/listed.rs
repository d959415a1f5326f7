//! With the policy `listed`, a call installs what fits.

use std::time::{Duration, Instant};

use openskill_tests::alone::alone;
use openskill_tests::system::{code, data, request};
use openskill_tests::wait::until;
use serde_json::json;

use super::stage::{PATIENCE, Stage, TASK, has_jail, search};

#[tokio::test]
async fn a_call_installs_the_server_that_fits_and_its_tools_are_callable_within_two_seconds() {
    let _alone = alone();
    if !has_jail() {
        return;
    }
    let stage = Stage::new();
    let system = stage.setup("listed").start().await;
    let skill = system.get("/skills/search_and_install_tools").await.json();
    assert_eq!((&skill["read_only"], &skill["approval"]), (&json!(false), &json!("ask")), "{skill}");
    let result = search(&system, TASK, json!({"reason": "the model wants a clock"})).await;
    let answered = Instant::now();
    assert_eq!(code(&result), "", "{result:?}");
    let answer = data(&result);
    assert_eq!(answer["status"], "installed", "{answer}");
    assert_eq!(answer["installed"]["tools"], json!(["clock__now", "clock__ring"]));
    assert_eq!(answer["installed"]["callable"], true, "{answer}");
    let called = until("the tool is callable", Duration::from_secs(2), || async {
        let result = system.invoke(request("clock__now", json!({}))).await;
        code(&result).is_empty().then(|| data(&result))
    })
    .await;
    assert!(answered.elapsed() < Duration::from_secs(2));
    assert_eq!((&called["tool"], &called["data"]), (&json!("now"), &json!(false)), "no allowed root: {called}");
    let skill = system.get("/skills/clock__now").await.json();
    assert_eq!((&skill["toolset"], &skill["version"]), (&json!("clock"), &json!("1.0")));
    system.process.log.line(&["openskill::audit", "installed", "clock", "1.0", "the model wants a clock"]).await;
    let record = std::fs::read_to_string(stage.path("tools/clock/.installed.json")).unwrap();
    assert!(record.contains("\"by\": \"anonymous\"") && record.contains("trace_id"), "{record}");
    let again = data(&search(&system, TASK, json!({})).await);
    assert_eq!((&again["status"], &again["installed"]["callable"]), (&json!("already_installed"), &json!(true)));
    let (good, out, err) = stage.tools(&["remove", "clock"]).await;
    assert!(good, "{out}{err}");
    until("its tools are gone", PATIENCE, || async {
        (system.get("/skills/clock__now").await.status == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn of_two_servers_that_fit_the_caller_names_one() {
    if !has_jail() {
        return;
    }
    let stage = Stage::new();
    let entry = stage.entry();
    stage.index(&format!("{entry}{}", entry.replace("'clock'\ntitle", "'watch'\ntitle")));
    let system = stage.setup("listed").start().await;
    let answer = search(&system, TASK, json!({})).await;
    assert_eq!(
        (&data(&answer)["status"], data(&answer)["candidates"].as_array().unwrap().len()),
        (&json!("choose"), 2)
    );
    assert!(answer.text.contains("call again with server_id"), "{}", answer.text);
    assert_eq!(stage.installed(), [""; 0]);
    let chosen = search(&system, TASK, json!({"server_id": "watch"})).await;
    assert_eq!((code(&chosen), &data(&chosen)["installed"]["id"]), ("", &json!("watch")), "{chosen:?}");
    let unknown = search(&system, TASK, json!({"server_id": "nobody"})).await;
    assert_eq!(code(&unknown), "NOT_FOUND", "{unknown:?}");
}

#[tokio::test]
async fn calls_at_once_install_one_server_once() {
    if !has_jail() {
        return;
    }
    let stage = Stage::new();
    let system = stage.workers(2, "listed").start().await;
    let calls = (0..4).map(|_| search(&system, TASK, json!({})));
    let mut answers: Vec<_> =
        futures_util::future::join_all(calls).await.iter().map(|it| data(it)["status"].clone()).collect();
    answers.sort_by_key(ToString::to_string);
    let again = json!("already_installed");
    assert_eq!(answers, [again.clone(), again.clone(), again, json!("installed")]);
    assert_eq!(stage.installed(), ["clock"]);
}
