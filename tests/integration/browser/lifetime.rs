//! How long browsers are there, and that nothing of them is left.

use futures_util::StreamExt as _;
use openskill_tests::processes;
use openskill_tests::wait::{until, until_none_is_left};
use rustix::process::Signal;

use super::*;

/// All browsers below a process.
fn below(root: i32) -> Vec<i32> {
    let mut all = processes::descendants(root);
    all.retain(|it| {
        let line = processes::command_line(*it);
        line.contains("chrom") || line.contains("browser-host")
    });
    all
}

#[tokio::test]
async fn a_killed_worker_leaves_no_browser_after_two_seconds() {
    let Some(stage) = Stage::start(|_| page("<p>fine")).await else { return };
    stage.opens("/").await;
    let [worker] = stage.system.worker_pids()[..] else { panic!("one worker") };
    let before = below(worker);
    assert!(before.len() > 3, "{before:?}");
    processes::send(worker, Signal::KILL);
    let left = || before.iter().copied().filter(|it| processes::is_alive(*it)).collect::<Vec<_>>();
    until_none_is_left("processes of browsers", GONE, left).await;
}

#[tokio::test]
async fn a_session_ends_when_it_is_closed_or_idle() {
    let set = |it: Setup| it.with("OPENSKILL_BROWSER_IDLE_S", 2).with("OPENSKILL_BROWSER_SPARES", 0);
    let Some(stage) = Stage::start_with(|_| page("<p>fine"), set).await else { return };
    let [worker] = stage.system.worker_pids()[..] else { panic!("one worker") };
    stage.opens("/").await;
    assert_eq!(stage.does("close_session", json!({})).await, json!({"closed": true}));
    until_none_is_left("browsers of a closed session", Duration::from_secs(10), || below(worker)).await;
    assert_eq!(stage.does("close_session", json!({})).await, json!({"closed": false}));
    stage.opens("/").await;
    until_none_is_left("idle browsers", Duration::from_secs(30), || below(worker)).await;
    let info = stage.does("get_page_info", json!({})).await;
    assert_eq!(info["url"], "about:blank", "a new session: {info}");
}

#[tokio::test]
async fn a_worker_has_as_many_browsers_as_allowed_and_says_so() {
    let set = |it: Setup| it.with("OPENSKILL_BROWSER_SESSIONS", 1).with("OPENSKILL_BROWSER_SPARES", 0);
    let Some(stage) = Stage::start_with(|_| page("<p>fine"), set).await else { return };
    stage.opens("/").await;
    let waits = stage.call("wait", json!({"seconds": 25}));
    let other = async {
        until("the first call runs", Duration::from_secs(10), async || {
            stage.system.workers().await.iter().any(|it| it.in_flight > 0).then_some(())
        })
        .await;
        stage.call_as("other", "get_page_info", json!({})).await
    };
    let (waited, other) = tokio::join!(waits, other);
    assert_eq!((code(&waited), code(&other)), ("", "OVERLOADED"), "{other:?}");
}

#[tokio::test]
async fn a_call_that_is_late_keeps_the_session() {
    let pages = |seen: &Seen| match seen.path() {
        "/hangs" => Reply::pieces("text/html", futures_util::stream::pending().boxed()),
        _ => page("<p id=kept>fine"),
    };
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/").await;
    let call = request("browser_open_tab", json!({"url": stage.server.url("/hangs")}));
    let call = InvokeRequest { session_id: "s".to_owned(), timeout_ms: 2000, ..call };
    let result = stage.system.invoke(call).await;
    assert_eq!(code(&result), "TIMEOUT", "{result:?}");
    let shown = stage.does("switch_tab", json!({"page_id": 0})).await;
    assert_eq!(shown["url"], json!(stage.server.url("/")), "{shown}");
}

#[tokio::test]
async fn without_a_browser_the_tools_are_unavailable_and_say_what_to_do() {
    let system = Setup::shipped().flag("--workers", 1).with("OPENSKILL_BROWSER", "/nonexistent/chromium").start().await;
    let skill = system.get("/skills/browser_navigate").await.json();
    let reason = skill["status_reason"].as_str().unwrap_or_default();
    assert!(skill["status"] == "unavailable" && reason.contains("OPENSKILL_BROWSER"), "{skill}");
}
