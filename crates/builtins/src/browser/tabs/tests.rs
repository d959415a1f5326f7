use super::*;

const BOUNDS: TabLimits = TabLimits { tabs: 2, download_bytes: 1000, downloads: 2 };

fn event(session: Option<&str>, method: &str, params: Value) -> Event {
    Event { session: session.map(str::to_owned), method: method.to_owned(), params }
}

fn attach(tabs: &mut Tabs, within: Option<&str>, kind: &str, name: &str) -> Vec<&'static str> {
    let params = json!({
        "sessionId": format!("s-{name}"), "waitingForDebugger": true,
        "targetInfo": {"targetId": name, "type": kind, "url": format!("http://{name}/")},
    });
    tabs.on(&event(within, "Target.attachedToTarget", params)).iter().map(|it| it.method).collect()
}

fn on(tabs: &mut Tabs, session: &str, method: &str, params: Value) {
    assert_eq!(tabs.on(&event(Some(session), method, params)), []);
}

#[test]
fn tabs_have_small_numbers_that_are_never_used_again() {
    let mut tabs = Tabs::new(BOUNDS);
    attach(&mut tabs, None, "page", "a");
    attach(&mut tabs, None, "page", "b");
    assert_eq!(tabs.current().unwrap().target, "a");
    assert!(tabs.switch(1) && !tabs.switch(7));
    tabs.on(&event(None, "Target.detachedFromTarget", json!({"sessionId": "s-b"})));
    assert_eq!(tabs.current().unwrap().id, 0);
    attach(&mut tabs, None, "page", "c");
    assert_eq!(tabs.all.iter().map(|it| it.id).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn a_tab_is_watched_before_its_page_runs() {
    let orders = attach(&mut Tabs::new(BOUNDS), None, "page", "a");
    let place = |method: &str| orders.iter().position(|it| *it == method).unwrap();
    assert!(place("Page.addScriptToEvaluateOnNewDocument") < place("Runtime.runIfWaitingForDebugger"), "{orders:?}");
}

#[test]
fn tabs_beyond_the_bound_are_closed_and_reported() {
    let mut tabs = Tabs::new(BOUNDS);
    attach(&mut tabs, None, "page", "a");
    attach(&mut tabs, None, "page", "b");
    let orders = attach(&mut tabs, None, "page", "c");
    assert_eq!(orders, ["Runtime.runIfWaitingForDebugger", "Target.closeTarget"]);
    assert_eq!(tabs.all.len(), 2);
    assert!(tabs.news.take(|_| false).iter().any(|it| it.contains("the maximum number of")));
}

#[test]
fn every_target_that_waits_is_let_run() {
    let mut tabs = Tabs::new(BOUNDS);
    for (within, kind) in [(None, "page"), (Some("s-page"), "iframe"), (None, "worker"), (Some("s-page"), "other")] {
        assert!(attach(&mut tabs, within, kind, kind).contains(&"Runtime.runIfWaitingForDebugger"), "{kind}");
    }
    assert_eq!(tabs.all[0].parts.len(), 1);
    // A frame nested in a frame.
    attach(&mut tabs, Some("s-iframe"), "iframe", "inner");
    assert_eq!(tabs.all[0].parts.len(), 2);
    on(&mut tabs, "s-page", "Target.detachedFromTarget", json!({"sessionId": "s-iframe"}));
    assert_eq!(tabs.all[0].parts, []);
}

#[test]
fn a_page_is_busy_from_the_start_of_a_load_to_its_end() {
    let mut tabs = Tabs::new(BOUNDS);
    attach(&mut tabs, None, "page", "a");
    let busy = |tabs: &Tabs| (tabs.all[0].is_busy, tabs.all[0].is_parsed);
    on(&mut tabs, "s-a", "Page.frameStartedNavigating", json!({"frameId": "a", "navigationType": "sameDocument"}));
    on(&mut tabs, "s-a", "Page.frameStartedLoading", json!({"frameId": "another"}));
    assert_eq!(busy(&tabs), (false, false));
    on(&mut tabs, "s-a", "Page.frameStartedLoading", json!({"frameId": "a"}));
    on(&mut tabs, "s-a", "Page.frameNavigated", json!({"frame": {"id": "a", "loaderId": "1", "url": "http://x/"}}));
    on(&mut tabs, "s-a", "Page.lifecycleEvent", json!({"frameId": "a", "loaderId": "0", "name": "load"}));
    assert_eq!(busy(&tabs), (true, false));
    on(&mut tabs, "s-a", "Page.lifecycleEvent", json!({"frameId": "a", "loaderId": "1", "name": "DOMContentLoaded"}));
    on(&mut tabs, "s-a", "Page.frameStoppedLoading", json!({"frameId": "a"}));
    assert_eq!(busy(&tabs), (false, true));
    assert_eq!((tabs.all[0].url.as_str(), tabs.all[0].loader.as_str()), ("http://x/", "1"));
}

#[test]
fn dialogs_are_answered_by_their_kind() {
    let mut tabs = Tabs::new(BOUNDS);
    attach(&mut tabs, None, "page", "a");
    for (kind, accept) in [("alert", true), ("confirm", false), ("prompt", false), ("beforeunload", true)] {
        let params = json!({"type": kind, "message": "one\ntwo"});
        let orders = tabs.on(&event(Some("s-a"), "Page.javascriptDialogOpening", params));
        assert_eq!(orders[0].params, json!({"accept": accept}), "{kind}");
        assert_eq!(orders[0].session.as_deref(), Some("s-a"));
    }
    let lines = tabs.news.take(|_| false);
    assert!(lines.iter().filter(|it| it.contains("one\\ntwo")).count() == 4, "{lines:?}");
}

#[test]
fn a_storm_of_events_is_remembered_in_part() {
    let mut tabs = Tabs::new(BOUNDS);
    attach(&mut tabs, None, "page", "a");
    for _ in 0..1000 {
        let params = json!({"type": "alert", "message": "x"});
        tabs.on(&event(Some("s-a"), "Page.javascriptDialogOpening", params));
    }
    let lines = tabs.news.take(|_| false);
    assert!(lines.len() < 30 && lines.last().unwrap().contains("more events"), "{lines:?}");
    assert!(tabs.news.take(|_| false).is_empty());
}

#[test]
fn downloads_are_bounded_in_number_and_size() {
    let mut tabs = Tabs::new(BOUNDS);
    let begin = |guid: &str| event(None, "Browser.downloadWillBegin", json!({"guid": guid, "suggestedFilename": "f"}));
    let progress = |guid: &str, bytes: u64, state: &str| {
        event(None, "Browser.downloadProgress", json!({"guid": guid, "receivedBytes": bytes, "state": state}))
    };
    assert_eq!([tabs.on(&begin("1")), tabs.on(&begin("2"))], [[], []]);
    assert_eq!(tabs.on(&begin("3"))[0].method, "Browser.cancelDownload");
    assert_eq!(tabs.on(&progress("1", 1001, "inProgress"))[0].method, "Browser.cancelDownload");
    assert_eq!(tabs.on(&progress("1", 2000, "inProgress")), [], "it is cancelled once");
    assert_eq!(tabs.on(&progress("2", 10, "completed")), []);
    let states: Vec<_> = tabs.downloads.values().map(|it| it.state).collect();
    assert_eq!(states, [Transfer::TooLarge, Transfer::Done]);
}

#[test]
fn a_crash_is_reported_once_and_ends_with_the_next_page() {
    let mut tabs = Tabs::new(BOUNDS);
    attach(&mut tabs, None, "page", "a");
    tabs.news.take(|_| true);
    tabs.on(&event(Some("s-a"), "Inspector.targetCrashed", json!({})));
    tabs.on(&event(None, "Target.targetCrashed", json!({"targetId": "a"})));
    assert_eq!(tabs.news.take(|_| false).len(), 1);
    assert!(tabs.all[0].has_crashed);
    on(&mut tabs, "s-a", "Page.frameNavigated", json!({"frame": {"id": "a", "loaderId": "2", "url": "http://y/"}}));
    assert!(!tabs.all[0].has_crashed);
}

#[test]
fn what_is_not_known_is_passed_over() {
    let mut tabs = Tabs::new(BOUNDS);
    for params in [Value::Null, json!([]), json!({"targetInfo": 1, "frame": "x", "guid": {}})] {
        for session in [None, Some("s")] {
            for method in ["New.event", "Target.detachedFromTarget", "Page.frameNavigated", "Browser.downloadProgress"]
            {
                assert_eq!(tabs.on(&event(session, method, params.clone())), [], "{method}");
            }
        }
    }
}
