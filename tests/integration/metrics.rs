//! Metrics of gateways and workers, as scrapers see them.

mod dashboards;
mod exports;
pub(crate) mod lint;
mod many_skills;
mod scraped;

use std::net::SocketAddr;

use http::Method;
use openskill_proto::v1::InvokeRequest;
use openskill_tests::folder::Folder;
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{PATIENCE, Setup, System, code, request};
use openskill_tests::wait::until;
use serde_json::json;

use scraped::{Scraped, scrape, scrape_gateway};

const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.5";

/// `openskill up` whose workers serve metrics, each on any free port.
fn up() -> Setup {
    Setup::up().flag("--worker-metrics", "127.0.0.1:0")
}

/// Where the workers serve their metrics.
async fn workers(system: &System, count: usize) -> Vec<SocketAddr> {
    until("every worker serves metrics", PATIENCE, async || {
        let text = system.process.log.text();
        let lines = text.lines().filter(|line| line.contains("serving worker metrics"));
        let found: Vec<_> = lines.filter_map(|line| line.split("address=").nth(1)?.trim().parse().ok()).collect();
        (found.len() == count).then_some(found)
    })
    .await
}

async fn get(address: SocketAddr, path: &str, accept: &str) -> Answer {
    rest::send(address, Method::GET, path, &[("accept", accept)], "").await
}

/// A folder with an `http` skill of each name: they need no process, and nobody calls them.
fn http_skills(names: impl IntoIterator<Item = String>) -> Folder {
    let folder = Folder::new();
    names.into_iter().for_each(|name| write_http_skill(&folder, &name));
    folder
}

fn write_http_skill(folder: &Folder, name: &str) {
    folder.write(
        &format!("{name}.yaml"),
        format!("id: {name}\ntype: http\nentry: https://example.com/\nhttp: {{method: GET}}\n"),
    );
}

#[tokio::test]
async fn calls_are_counted_by_skill_runner_code_and_blame_and_no_caller_is_named() {
    let system = Setup::up().start().await;
    let call = async |skill: &str, input| {
        let call = InvokeRequest { session_id: "a-session".to_owned(), ..request(skill, input) };
        code(&system.invoke(call).await)
    };
    for _ in 0..3 {
        assert_eq!(call("in_echo", json!({"n": 1})).await, "");
    }
    assert_eq!(call("in_fail", json!({"code": "NOT_FOUND"})).await, "NOT_FOUND");
    assert_eq!(call("in_fail", json!({"code": "EXECUTION_ERROR"})).await, "EXECUTION_ERROR");
    assert_eq!(call("typed", json!({})).await, "INVALID_ARGUMENT");
    assert_eq!(call("nobodys_skill", json!({})).await, "NOT_FOUND");
    let scraped = scrape_gateway(&system).await;
    for (series, value) in [
        (r#"openskill_calls_total{code="OK"}"#, 3.0),
        (r#"openskill_calls_total{code="NOT_FOUND"}"#, 2.0),
        (r#"openskill_call_errors_total{code="NOT_FOUND",blame="caller"}"#, 2.0),
        (r#"openskill_skill_calls_total{skill="in_echo",runner="inproc"}"#, 3.0),
        (r#"openskill_skill_call_duration_seconds_count{skill="in_echo",runner="inproc"}"#, 3.0),
        (r#"openskill_skill_call_duration_seconds_bucket{skill="in_echo",runner="inproc",le="+Inf"}"#, 3.0),
        (r#"openskill_skill_calls_total{skill="in_fail",runner="inproc"}"#, 2.0),
        (r#"openskill_skill_errors_total{skill="in_fail",runner="inproc",code="NOT_FOUND",blame="caller"}"#, 1.0),
        (r#"openskill_skill_errors_total{skill="in_fail",runner="inproc",code="EXECUTION_ERROR",blame="skill"}"#, 1.0),
        (r#"openskill_skill_errors_total{skill="typed",runner="inproc",code="INVALID_ARGUMENT",blame="caller"}"#, 1.0),
        (r#"openskill_skill_call_duration_seconds_count{skill="typed",runner="inproc"}"#, 0.0),
        (r#"openskill_attempts_total{end="answered"}"#, 5.0),
        ("openskill_call_queue_duration_seconds_count", 5.0),
        ("openskill_argument_rejections_total", 1.0),
        (r#"openskill_skill_circuit_state{skill="in_fail"}"#, 0.0),
        ("openskill_workers_up", 2.0),
        ("openskill_workers_known", 2.0),
        ("openskill_calls_in_flight", 0.0),
    ] {
        assert_eq!(scraped.value(series), value, "{series}");
    }
    assert!(scraped.value("process_resident_memory_bytes") > 1e6 && scraped.value("process_open_fds") > 5.0);
    assert!(scraped.value("process_cpu_seconds_total") > 0.0);
    assert!(!scraped.text.contains("nobodys_skill") && !scraped.text.contains("a-session"), "{}", scraped.text);
}

#[tokio::test]
async fn the_scraper_chooses_the_format_and_exemplars_name_a_call_that_was_made() {
    let system = up().start().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let headers = [("content-type", "application/json"), ("x-trace-id", trace)];
    let answer = system.post("/skills/in_echo:invoke", &headers, json!({"input": {}}).to_string()).await;
    assert_eq!(answer.status, 200);
    let exemplar = format!("# {{trace_id=\"{trace}\"}} ");
    let mut with_exemplar = 0;
    for address in [vec![system.address], workers(&system, 2).await].concat() {
        for accept in ["", "*/*", "text/plain", OPEN_METRICS] {
            let answer = get(address, "/metrics", accept).await;
            let text = String::from_utf8(answer.body.to_vec()).unwrap();
            assert_eq!(answer.status, 200);
            if accept == OPEN_METRICS {
                assert_eq!(answer.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
                assert!(text.ends_with("\n# EOF\n") && text.contains("# UNIT process_cpu_seconds seconds\n"), "{text}");
                with_exemplar += usize::from(text.contains(&exemplar));
            } else {
                assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
                assert!(!text.contains("# EOF") && !text.contains("trace_id"), "{text}");
            }
        }
    }
    assert_eq!(with_exemplar, 2, "the gateway's, and that of the worker that had the call");
}

#[tokio::test]
async fn a_worker_serves_its_own_metrics_and_nothing_else() {
    let system = up().start().await;
    let addresses = workers(&system, 2).await;
    for (skill, input) in
        [("in_echo", json!({})), ("in_echo", json!({})), ("moody", json!({})), ("naps", json!({"seconds": 0}))]
    {
        assert!(system.invoke(request(skill, input)).await.success, "{skill}");
    }
    assert_eq!(code(&system.invoke(request("in_fail", json!({"code": "NOT_FOUND"}))).await), "NOT_FOUND");
    let mut scraped = Vec::new();
    for address in &addresses {
        scraped.push(scrape(*address).await);
    }
    let sum = |series: &str| scraped.iter().filter_map(|it| it.find(series)).sum::<f64>();
    for (series, value) in [
        (r#"openskill_worker_calls_total{code="OK"}"#, 4.0),
        (r#"openskill_worker_calls_total{code="NOT_FOUND"}"#, 1.0),
        (r#"openskill_worker_skill_calls_total{skill="in_echo",runner="inproc"}"#, 2.0),
        (r#"openskill_worker_skill_run_duration_seconds_count{skill="moody",runner="cli:python"}"#, 1.0),
        (
            r#"openskill_worker_skill_errors_total{skill="in_fail",runner="inproc",code="NOT_FOUND",blame="caller"}"#,
            1.0,
        ),
        ("openskill_worker_queue_duration_seconds_count", 5.0),
        (r#"openskill_worker_slots{kind="open"}"#, 32.0),
    ] {
        assert_eq!(sum(series), value, "{series}");
    }
    let python = sum(r#"openskill_worker_warm_calls_total{isolation="fork"}"#)
        + ["process", "jail", "starting", "paused", "failed"]
            .iter()
            .map(|reason| sum(&format!("openskill_worker_cold_calls_total{{reason=\"{reason}\"}}")))
            .sum::<f64>();
    assert_eq!(python, 2.0, "each call of a Python skill is warm, or there is a reason");
    assert_eq!(sum("openskill_skill_calls_total"), 0.0);
    for address in &addresses {
        // A slot is free once nothing of the run is left, which may be after its answer.
        let running = "openskill_worker_calls_running";
        let idle = async || (scrape(*address).await.value(running) == 0.0).then_some(());
        until("no call holds a slot", PATIENCE, idle).await;
    }
    let [address, ..] = addresses[..] else { panic!("there are two workers") };
    assert_eq!(get(address, "/healthz", "").await.status, 200);
    assert_eq!(get(address, "/skills", "").await.status, 404);
    assert_eq!(rest::send(address, Method::POST, "/metrics", &[], "").await.status, 405);
}

#[tokio::test]
async fn warm_pools_are_counted_where_a_process_is_kept() {
    let folder = Folder::new();
    folder.write("warm.yaml", "id: warm\ntype: cli\nruntime: python\nentry: warm.py\nisolation: shared\n");
    folder.write("warm.py", "import json, sys\nprint(json.dumps(json.load(sys.stdin)['input']))\n");
    let system =
        Setup::with_skills(&[folder.path()]).flag("--workers", 1).flag("--worker-metrics", "127.0.0.1:0").start().await;
    let [address] = workers(&system, 1).await[..] else { panic!("there is one worker") };
    let before = scrape(address).await;
    assert_eq!(before.value(r#"openskill_worker_warm_processes{isolation="shared"}"#), 0.0);
    for _ in 0..3 {
        let result = system.invoke(request("warm", json!({"n": 1}))).await;
        assert!(result.success, "{result:?}");
    }
    let after = scrape(address).await;
    for (series, value) in [
        (r#"openskill_worker_warm_calls_total{isolation="shared"}"#, 3.0),
        (r#"openskill_worker_warm_starts_total{isolation="shared"}"#, 1.0),
        (r#"openskill_worker_warm_pools{isolation="shared"}"#, 1.0),
        (r#"openskill_worker_warm_processes{isolation="shared"}"#, 1.0),
        (r#"openskill_worker_warm_failures_total{isolation="shared"}"#, 0.0),
    ] {
        assert_eq!(after.value(series), value, "{series}");
    }
}

#[tokio::test]
async fn skills_past_the_bound_share_one_series() {
    let system = up().with("OPENSKILL_METRICS_SKILLS", 1).start().await;
    for (skill, input) in [("in_echo", json!({})), ("in_wait", json!({"ms": 1}))] {
        assert!(system.invoke(request(skill, input)).await.success, "{skill}");
    }
    assert_eq!(code(&system.invoke(request("in_fail", json!({"code": "NOT_FOUND"}))).await), "NOT_FOUND");
    let count = |scraped: &Scraped, name: &str| {
        let of_inproc = scraped
            .series
            .iter()
            .filter(|(series, _)| series.starts_with(&format!("{name}{{")) && series.contains("runner=\"inproc\""));
        of_inproc.map(|(_, value)| *value).sum::<f64>()
    };
    let gateway = scrape_gateway(&system).await;
    assert_eq!(count(&gateway, "openskill_skill_calls_total"), 3.0);
    assert!(gateway.value(r#"openskill_skill_calls_total{skill="_other",runner="inproc"}"#) >= 2.0);
    assert_eq!(gateway.labels("skill").iter().filter(|skill| *skill != "_other").count(), 1);
    assert_eq!(gateway.value(r#"openskill_skill_circuit_state{skill="_other"}"#), 0.0);
    for address in workers(&system, 2).await {
        assert_eq!(scrape(address).await.labels("skill").iter().filter(|skill| *skill != "_other").count(), 1);
    }
}

#[tokio::test]
async fn a_skill_that_is_removed_loses_its_series_and_makes_room() {
    let folder = http_skills(["first".to_owned()]);
    let system = Setup::with_skills(&[folder.path()])
        .with("OPENSKILL_METRICS_SKILLS", 1)
        .flag("--worker-metrics", "127.0.0.1:0")
        .start()
        .await;
    let addresses = [vec![system.address], workers(&system, 2).await].concat();
    let names = async |wanted: &str| {
        for address in &addresses {
            until(&format!("{wanted} alone has series of its own at {address}"), PATIENCE, async || {
                let mut skills = scrape(*address).await.labels("skill");
                // What the second shared before one of the workers noticed that the first is gone.
                skills.retain(|skill| skill != "_other");
                (skills == [wanted]).then_some(())
            })
            .await;
        }
    };
    names("first").await;
    std::fs::remove_file(folder.path().join("first.yaml")).unwrap();
    write_http_skill(&folder, "second");
    names("second").await;
}

#[tokio::test]
async fn an_open_circuit_is_a_gauge_until_it_is_reset() {
    let system = Setup::up().with("OPENSKILL_CIRCUIT_MINIMUM_CALLS", 3).start().await;
    for session in ["one", "two", "three"] {
        let call = InvokeRequest { session_id: session.to_owned(), ..request("moody", json!({"fail": true})) };
        assert_eq!(code(&system.invoke(call).await), "EXECUTION_ERROR");
    }
    let state = async || scrape_gateway(&system).await;
    let open = state().await;
    assert_eq!(open.value(r#"openskill_skill_circuit_state{skill="moody"}"#), 2.0);
    assert_eq!(open.value(r#"openskill_circuits{scope="skill",state="open"}"#), 1.0);
    assert_eq!(open.value(r#"openskill_circuit_changes_total{scope="skill",state="open"}"#), 1.0);
    let reset = openskill_proto::v1::ResetCircuitsRequest { skill_id: "moody".to_owned(), ..Default::default() };
    system.admin().await.reset_circuits(reset).await.unwrap();
    assert_eq!(state().await.value(r#"openskill_skill_circuit_state{skill="moody"}"#), 0.0);
}

#[tokio::test]
async fn workers_serve_no_metrics_unless_they_are_told_where() {
    let system = Setup::up().start().await;
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
    assert!(!system.process.log.text().contains("serving worker metrics"));
}
