//! Pages that hold a browser up, or bring it down: an error in time, and the next call works.

use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt as _;
use openskill_tests::alone::alone;
use openskill_tests::processes;
use openskill_tests::wait::until_true;
use rustix::process::Signal;

use super::*;

fn pages(seen: &Seen) -> Reply {
    match seen.path() {
        "/alerts" => page("<button onclick=\"while(1)alert('again')\">Go</button>"),
        "/spins" => page("<button onclick=\"while(1);\">Go</button>"),
        "/popups" => page("<button onclick=\"for(let i=0;i<200;i++)window.open('/fine?'+i)\">Go</button>"),
        "/stays" => page("<input><script>onbeforeunload=e=>{e.preventDefault();return 'stay'}</script>"),
        "/nested" => {
            let left: usize = seen.target.split('?').nth(1).unwrap().parse().unwrap();
            page(if left > 0 {
                format!("<iframe src='/nested?{}'></iframe>", left - 1)
            } else {
                "<p>the last".to_owned()
            })
        }
        "/endless" => {
            let zeros = futures_util::stream::repeat(Bytes::from_static(&[0; 65_536]));
            Reply::pieces("application/octet-stream", zeros.boxed())
        }
        "/pushes" => {
            page("<script>let i=0;setInterval(()=>{for(let k=0;k<50;k++)history.pushState({},'','?'+i++)})</script>")
        }
        "/goes" => page("<script>let i=0;setInterval(()=>location.href='/goes?'+i++)</script>"),
        "/reloads" => page("<script>setInterval(()=>location.reload(),1)</script>"),
        "/late" => page(format!("{COVERED}<iframe class=over></iframe><script>frame()</script>")),
        "/over" => page(format!("{COVERED}<div class=over onclick=\"fetch('/pressed')\"></div>")),
        "/crowd" => {
            page(format!("<button onclick=\"fetch('/pressed')\">Go</button>{}", "<iframe hidden></iframe>".repeat(40)))
        }
        "/victim" => {
            page("<body style='margin:0'><button style='width:100%;height:100vh' onclick=\"fetch('/pressed')\">Pay")
        }
        "/prototypes" => page(
            "<button>Real</button><script>for(const it of [Element,Node,Document,Array,Object,String,Map])\
             for(const name of Object.getOwnPropertyNames(it.prototype))\
             try{Object.defineProperty(it.prototype,name,{get(){throw 1},set(){}})}catch{}</script>",
        ),
        _ => page("<p>fine"),
    }
}

/// A button that something comes over, some animation frames after the pointer came.
const COVERED: &str = "<style>.over{position:fixed;inset:0;width:100%;height:100%;border:0;visibility:hidden}</style>\
    <button id=go style='width:300px;height:100px'>Go</button><script>
    const over = () => document.querySelector('.over');
    const frame = () => { over().src = `http://localhost:${location.port}/victim`; };
    go.onpointerover = () => {
      let left = Number(location.search.slice(1));
      const show = () => { if (left-- > 0) requestAnimationFrame(show); else over().style.visibility = 'visible'; };
      show();
    };</script>";

/// The processes of browsers that descend from the system's workers.
fn browsers(stage: &Stage, kind: &str) -> Vec<i32> {
    let workers = stage.system.worker_pids();
    let all = workers.iter().flat_map(|it| processes::descendants(*it));
    all.filter(|it| processes::command_line(*it).contains(kind)).collect()
}

#[tokio::test]
async fn a_page_that_runs_on_and_on_is_an_error_in_time_and_the_session_goes_on() {
    let Some(stage) = Stage::start(pages).await else { return };
    for path in ["/alerts", "/spins"] {
        stage.opens(path).await;
        let number = stage.number("Go").await;
        let begun = Instant::now();
        let (code, why) = stage.fails("click_element", json!({"index": number})).await;
        assert!(code == "TIMEOUT" && begun.elapsed() < Duration::from_secs(30), "{path}: {code} {why}");
        // A page that could not be stopped was ended.
        let after = stage.call("get_page_info", json!({})).await;
        let (listed, message) = (after.error.is_none(), after.error.as_ref().map(|it| it.message.clone()));
        assert!(listed || message.is_some_and(|it| it.contains("crashed")), "{path}: {after:?}");
        assert!(stage.opens("/fine").await["url"].as_str().unwrap().ends_with("/fine"));
    }
}

#[tokio::test]
async fn what_comes_over_an_element_after_it_was_aimed_at_is_not_pressed() {
    let Some(stage) = Stage::start(pages).await else { return };
    let mut refused = 0;
    for path in ["/late", "/over"] {
        for frames in 1..=4 {
            stage.opens(&format!("{path}?{frames}")).await;
            let result = stage.call("click_element", json!({"index": stage.number("Go").await})).await;
            let why = result.error.as_ref().map(|it| it.message.clone()).unwrap_or_default();
            assert!(why.is_empty() || why.contains("over"), "{path} {frames}: {why}");
            refused += usize::from(!why.is_empty());
        }
    }
    assert!(refused > 0);
    assert!(stage.server.seen().iter().all(|it| it.path() != "/pressed"));
}

#[tokio::test]
async fn nothing_is_pressed_on_a_page_with_more_frames_than_are_told_of_the_press() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/crowd").await;
    let number = stage.number("Go").await;
    let (code, why) = stage.fails("click_element", json!({"index": number})).await;
    assert!(code == "EXECUTION_ERROR" && why.contains("more than 32 frames"), "{code}: {why}");
    stage.opens("/fine").await;
    assert!(stage.server.seen().iter().all(|it| it.path() != "/pressed"));
}

#[tokio::test]
async fn a_page_that_goes_elsewhere_again_and_again_can_be_left() {
    let _alone = alone();
    let Some(stage) = Stage::start(pages).await else { return };
    for path in ["/pushes", "/goes", "/reloads"] {
        let _ = stage.call("navigate", json!({"url": stage.server.url(path)})).await;
        let begun = Instant::now();
        let left = stage.opens("/fine").await;
        assert!(left["url"].as_str().unwrap().ends_with("/fine"), "{path}: {left}");
        assert!(begun.elapsed() < Duration::from_secs(45), "{path}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_storm_of_popups_stays_within_the_bound_and_a_page_can_be_left() {
    let set = |it: Setup| it.with("OPENSKILL_BROWSER_TABS", 3);
    let Some(stage) = Stage::start_with(pages, set).await else { return };
    stage.opens("/popups").await;
    stage.does("click_element", json!({"index": stage.number("Go").await})).await;
    let info = stage.does("get_page_info", json!({})).await;
    assert!(info["tabs"].as_array().unwrap().len() <= 3, "{info}");
    stage.opens("/stays").await;
    stage.does("input_text", json!({"index": stage.number("textbox").await, "text": "x"})).await;
    let left = stage.opens("/fine").await;
    assert!(lines(&left["events"]).contains("beforeunload"), "{left}");
}

#[tokio::test]
async fn a_download_without_an_end_is_cancelled() {
    let set = |it: Setup| it.with("OPENSKILL_BROWSER_DOWNLOAD_MB", 1);
    let Some(stage) = Stage::start_with(pages, set).await else { return };
    let mut answer = stage.opens("/endless").await;
    for _ in 0..300 {
        let outcome = answer["downloads"][0]["outcome"].as_str().unwrap_or_default().to_owned();
        if outcome.contains("over 1 MiB") {
            return;
        }
        assert!(outcome.is_empty() || outcome == "still running", "{answer}");
        answer = stage.does("wait", json!({"seconds": 0.1})).await;
    }
    panic!("it was not cancelled: {answer}");
}

#[tokio::test]
async fn a_crashed_page_is_replaced_where_no_tab_more_may_be_open() {
    let set = |it: Setup| it.with("OPENSKILL_BROWSER_TABS", 1);
    let Some(stage) = Stage::start_with(pages, set).await else { return };
    stage.opens("/fine").await;
    browsers(&stage, "--type=renderer").into_iter().for_each(|it| processes::send(it, Signal::KILL));
    let (code, why) = stage.fails("get_page_info", json!({})).await;
    assert!(!code.is_empty(), "{why}");
    let opened = stage.opens("/fine").await;
    let info = stage.does("get_page_info", json!({})).await;
    assert_eq!(info["tabs"].as_array().unwrap().len(), 1, "{info}");
    // The last tab that is closed is replaced by an empty one.
    let closed = stage.does("close_tab", json!({"page_id": opened["page_id"]})).await;
    assert_eq!(closed["url"], "about:blank", "{closed}");
    let (code, why) = stage.fails("open_tab", json!({"url": stage.server.url("/fine")})).await;
    assert!(code == "INVALID_ARGUMENT" && why.contains("1 tabs"), "{code}: {why}");
}

#[tokio::test]
async fn frames_that_are_nested_without_end_are_an_error_at_once() {
    let Some(stage) = Stage::start(pages).await else { return };
    let _ = stage.call("navigate", json!({"url": stage.server.url("/nested?100")})).await;
    for _ in 0..200 {
        let begun = Instant::now();
        let result = stage.call("get_page_info", json!({})).await;
        let error = result.error.clone().unwrap_or_default();
        assert!(begun.elapsed() < Duration::from_secs(20), "{result:?}");
        if error.message.contains("too deeply nested") {
            assert_eq!(code(&result), "EXECUTION_ERROR");
            assert!(stage.opens("/fine").await["url"].as_str().unwrap().ends_with("/fine"));
            return;
        }
        // Not all of them are there yet.
        let _ = stage.call("wait", json!({"seconds": 0.1})).await;
    }
    panic!("the frames are not nested deep enough");
}

#[tokio::test]
async fn a_page_that_replaces_prototypes_is_read_all_the_same() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/prototypes").await;
    let number = stage.number("button \"Real\"").await;
    stage.does("click_element", json!({"index": number})).await;
}

#[tokio::test]
async fn a_crash_of_a_page_and_of_the_browser_are_survived() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/fine").await;
    for renderer in browsers(&stage, "--type=renderer") {
        processes::send(renderer, Signal::KILL);
    }
    let (code, why) = stage.fails("get_page_info", json!({})).await;
    assert!(!code.is_empty(), "{why}");
    assert!(stage.opens("/fine").await["url"].as_str().unwrap().ends_with("/fine"));
    let (main, all) = (browsers(&stage, "browser-host"), browsers(&stage, "/chromium"));
    assert!(!main.is_empty() && all.len() > main.len());
    main.iter().for_each(|it| processes::send(*it, Signal::KILL));
    until_true("all are gone", Duration::from_secs(10), || all.iter().all(|it| !processes::is_alive(*it))).await;
    // The first call may be the one that finds out.
    let _ = stage.call("get_page_info", json!({})).await;
    assert!(stage.opens("/fine").await["url"].as_str().unwrap().ends_with("/fine"));
}
