//! By default, calls get candidates, and the operator installs.

use openskill_tests::system::{code, data, request};
use openskill_tests::wait::until;
use serde_json::json;

use super::stage::{PATIENCE, Stage, TASK, has_jail, search};

#[tokio::test]
async fn a_task_in_english_or_chinese_gets_candidates_and_the_operators_command() {
    let stage = Stage::new();
    let system = stage.setup("ask").start().await;
    for task in [TASK, "车站的时钟现在几点了？"] {
        let result = search(&system, task, json!({"reason": "no tool knows the time"})).await;
        assert_eq!(code(&result), "", "{result:?}");
        let answer = data(&result);
        assert_eq!(
            (&answer["status"], &answer["installed"], &answer["operator_command"]),
            (&json!("ask_operator"), &json!(null), &json!("openskill tools add clock")),
            "{task}: {answer}"
        );
        let candidate = &answer["candidates"][0];
        assert_eq!((&candidate["id"], &candidate["version"]), (&json!("clock"), &json!("1.0")));
        assert_eq!(candidate["tools"], json!(["now", "ring"]));
        assert_eq!(candidate["needs"], json!({"packages": 1, "network": "none", "environment": [], "jail": "strict"}));
        assert!(
            candidate["why"].as_str().unwrap().contains(if task == TASK { "clock" } else { "几点" }),
            "{candidate}"
        );
        assert!(result.text.contains("ask the operator to run `openskill tools add clock`"), "{}", result.text);
    }
    let nothing = search(&system, "Send a mail to the supplier", json!({})).await;
    assert_eq!((&data(&nothing)["status"], &data(&nothing)["candidates"]), (&json!("none"), &json!([])));
    assert_eq!(stage.installed(), [""; 0], "nothing was installed");
    let skill = system.get("/skills/search_and_install_tools").await.json();
    assert_eq!((&skill["read_only"], &skill["approval"]), (&json!(true), &json!("never")), "{skill}");
}

#[tokio::test]
async fn the_operators_command_installs_what_a_running_worker_then_offers() {
    if !has_jail() {
        return;
    }
    let stage = Stage::new();
    let system = stage.setup("ask").start().await;
    let (good, out, err) = stage.tools(&["add", "clock"]).await;
    assert!(good && out.contains("clock 1.0 installed") && out.contains("clock__now"), "{out}{err}");
    system.has_skill("clock__now").await;
    let rung = system.invoke(request("clock__ring", json!({}))).await;
    assert_eq!((code(&rung), &data(&rung)["tool"]), ("", &json!("ring")), "{rung:?}");
    let (good, out, _) = stage.tools(&["index"]).await;
    let row = out.lines().find(|line| line.starts_with("clock")).unwrap_or_else(|| panic!("{out}"));
    assert!(
        good && row.split_whitespace().filter(|word| *word == "1.0").count() == 2,
        "available and installed: {out}"
    );
    let answer = data(&search(&system, TASK, json!({})).await);
    assert_eq!(answer["candidates"][0]["installed_version"], "1.0");
    let (good, out, err) = stage.tools(&["add", "clock"]).await;
    assert!(good && out.contains("was already installed"), "{out}{err}");
    let (good, out, err) = stage.tools(&["remove", "clock"]).await;
    assert!(good && out.contains("removed clock 1.0 with 2 tools"), "{out}{err}");
    until("its tools are gone", PATIENCE, || async {
        (system.get("/skills/clock__now").await.status == 404).then_some(())
    })
    .await;
    assert_eq!(stage.installed(), [""; 0]);
    for decision in ["decision=\"installed\"", "decision=\"removed\""] {
        let log = &system.process.log;
        log.line(&["openskill::audit", decision, "principal=\"operator\"", "server=\"clock\"", "version=\"1.0\""])
            .await;
    }
    let (good, _, err) = stage.tools(&["remove", "clock"]).await;
    assert!(!good && err.contains("no server 'clock' is installed"), "{err}");
    let (good, _, err) = stage.tools(&["add", "nobody"]).await;
    assert!(!good && err.contains("the tool index has no server 'nobody'"), "{err}");
}

#[tokio::test]
async fn an_operator_writes_an_index_with_the_pins_that_a_command_prints() {
    if !has_jail() {
        return;
    }
    let stage = Stage::new();
    let whole = stage.entry();
    let (head, pins) = whole.split_once("[server.tools.").unwrap();
    stage.index(head);
    let (good, _, err) = stage.tools(&["add", "clock"]).await;
    assert!(!good && err.contains("`openskill tools pins clock`"), "{err}");
    let (good, out, err) = stage.tools(&["pins", "clock"]).await;
    assert!(good && err.contains("now: Tells how late it is."), "{out}{err}");
    assert_eq!(out.trim(), format!("[server.tools.{pins}").trim().replace("\"\n[", "\"\n\n["));
    stage.index(&format!("{head}{out}"));
    let (good, out, err) = stage.tools(&["add", "clock"]).await;
    assert!(good, "{out}{err}");
    assert_eq!(stage.installed(), ["clock"]);
    stage.index("[[server]]\nid = 'clock'\nversion = 1\n");
    let (good, _, err) = stage.tools(&["index"]).await;
    assert!(!good && err.contains("invalid in line 3"), "{err}");
}
