//! The profile `observe`: Debian's Prometheus with the configuration that ships, and a receiver in place of the collector.
//!
//! Jaeger and Grafana cannot be had where tests run. The receiver takes their places too, and the test asks Prometheus what the
//! dashboard would.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use openskill_tests::alone::beside_others;
use openskill_tests::containers::{Image, docker, locate};
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
use openskill_tests::rest;
use openskill_tests::wait::until;
use serde_json::Value;

use super::Project;
use super::images::Images;

const PATIENCE: Duration = Duration::from_secs(120);

/// Starts Prometheus with the configuration that is mounted, except that nothing waits for 15 s, or for names to be looked up.
const QUICK: &str = "#!/bin/sh\nset -e\nshift\n\
    sed 's/: 15s$/: 1s/; s/^\\( *\\)type: A$/&\\n\\1refresh_interval: 1s/' /etc/prometheus/prometheus.yml >/prometheus/quick.yml\n\
    exec /bin/prometheus --config.file=/prometheus/quick.yml \"$@\"\n";

/// What has no series while nothing goes wrong, no MCP server is connected, and no metrics are exported.
const MAY_BE_EMPTY: [&str; 5] = [
    "openskill_skill_circuit_state",
    "openskill_worker_mcp_",
    "openskill_metric_exports_total",
    "openskill_skill_errors_total",
    "openskill_argument_repairs_total",
];

/// Prometheus, at a port of this machine.
struct Prometheus(Port);

impl Prometheus {
    /// What it answers at a path of its API. None while it does not.
    async fn get(&self, path: &str) -> Option<Value> {
        let connects = tokio::net::TcpStream::connect(self.0.address()).await.is_ok();
        let answer =
            if connects { rest::send(self.0.address(), Method::GET, path, &[], "").await } else { return None };
        let answer = (answer.status == 200).then(|| answer.json())?;
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        Some(answer["data"].clone())
    }

    /// The series that an expression has now.
    async fn query(&self, expression: &str) -> Vec<Value> {
        let escaped: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.get(&format!("/api/v1/query?query={escaped}")).await;
        let answer = answer.unwrap_or_else(|| panic!("Prometheus refuses {expression}"));
        answer["result"].as_array().unwrap().clone()
    }

    /// Waits until the processes that it found are up, and returns how many each job has.
    async fn has_targets(&self, gateways: usize, workers: usize) {
        until(&format!("{gateways} gateways and {workers} workers are scraped"), PATIENCE, || async {
            let targets = self.get("/api/v1/targets").await?;
            let up = |job: &str| {
                let active = targets["activeTargets"].as_array().unwrap().iter();
                active.filter(|it| it["labels"]["job"] == job && it["health"] == "up").count()
            };
            ([up("openskill-gateway"), up("openskill-worker")] == [gateways, workers]).then_some(())
        })
        .await;
    }

    /// Waits until every rule that ships was evaluated without a fault.
    async fn has_rules(&self) {
        let shipped = std::fs::read_to_string(repository().join("deploy/observability/alerts.yml")).unwrap();
        let wanted = shipped.matches("- alert: ").count();
        assert!(wanted > 10, "{wanted}");
        until("all rules are evaluated", PATIENCE, || async {
            let groups = self.get("/api/v1/rules").await?;
            let rules: Vec<Value> = groups["groups"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|it| it["rules"].as_array().unwrap().clone())
                .collect();
            assert!(rules.iter().all(|it| it["health"] != "err"), "{groups}");
            (rules.iter().filter(|it| it["health"] == "ok").count() == wanted).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn prometheus_scrapes_and_the_collector_hears_of_all_processes() {
    let _turn = beside_others();
    if locate("prometheus").is_none() {
        return skip(Need::Prometheus, "there is no prometheus on PATH; install it: apt-get install prometheus");
    }
    let Some(images) = Images::or_skip() else { return };
    let folder = Folder::new();
    let quick = folder.write("quick-prometheus", QUICK);
    std::fs::set_permissions(&quick, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let prometheus = Image::running_beside(&quick, &["sh", "sed", "prometheus"]);
    let receiver = Image::running(Path::new(env!("CARGO_BIN_EXE_otlp_receiver")));
    let [port, grafana, jaeger] = std::array::from_fn(|_| Port::reserve());
    let project = Project::new("observe", images)
        .with("COMPOSE_PROFILES", "observe")
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317")
        .with("PROMETHEUS_IMAGE", &prometheus.id)
        .with("COLLECTOR_IMAGE", &receiver.id)
        .with("JAEGER_IMAGE", &receiver.id)
        .with("GRAFANA_IMAGE", &receiver.id)
        .with("PROMETHEUS_PORT", port.number())
        .with("GRAFANA_PORT", grafana.number())
        .with("JAEGER_PORT", jaeger.number());
    let project = Arc::new(project);
    project.compose_with(&["up"], "2").await;
    let stop = Arc::new(AtomicBool::new(false));
    let calls = {
        let (project, stop) = (Arc::clone(&project), Arc::clone(&stop));
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(project.echo().await.status, 200);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
    };
    let prometheus = Prometheus(port);
    prometheus.has_targets(1, 2).await;
    prometheus.has_rules().await;
    the_dashboard_has_data(&prometheus).await;
    the_dashboard_is_drawn(&prometheus).await;

    // Workers that come are found, and those that went are forgotten.
    project.compose(&["scale", "1"]).await;
    prometheus.has_targets(1, 1).await;
    stop.store(true, Ordering::Relaxed);
    calls.await.unwrap();
    until("spans of gateway and worker have arrived", PATIENCE, || async {
        let said = docker(&["logs", &project.container("collector")]).ok()?;
        let has = |service: &str| said.lines().any(|line| line.starts_with(service));
        (has("openskill-gateway: ") && has("openskill-worker: ")).then_some(())
    })
    .await;
    // Prometheus has the metrics: the collector, which would refuse them, is not sent any.
    let exports = prometheus.query("sum(openskill_metric_exports_total)").await;
    assert!(exports.iter().all(|it| it["value"][1] == "0"), "{exports:?}");
    let firing = prometheus.query("ALERTS{alertstate=\"firing\"}").await;
    assert!(firing.is_empty(), "{firing:?}");
}

/// Draws the dashboard without Grafana: every panel is there, and calls have lines.
async fn the_dashboard_is_drawn(prometheus: &Prometheus) {
    let folder = Folder::new();
    let mut draw = tokio::process::Command::new("python3");
    draw.arg(repository().join("deploy/observability/render.py")).arg(folder.path());
    draw.args(["--minutes", "2", "--prometheus", &format!("http://{}", prometheus.0.address())]);
    let drawn = draw.output().await.unwrap();
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    let pictures = String::from_utf8(drawn.stdout).unwrap();
    let pictures: Vec<_> = pictures.lines().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let dashboard = dashboard();
    let (rows, panels): (Vec<_>, Vec<_>) =
        dashboard["panels"].as_array().unwrap().iter().partition(|it| it["type"] == "row");
    assert_eq!(pictures.len(), rows.len());
    for panel in panels {
        let title = format!(">{}</text>", panel["title"].as_str().unwrap());
        assert_eq!(pictures.iter().filter(|it| it.contains(&title)).count(), 1, "{title}");
    }
    let calls = pictures.iter().find(|it| it.contains("<title>Calls at the gateway</title>")).unwrap();
    assert!(calls.contains("<polyline") && calls.contains(">OK: "), "{calls}");
}

fn dashboard() -> Value {
    let path = repository().join("deploy/observability/grafana/dashboards/openskill.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Asks everything that the dashboard asks.
async fn the_dashboard_has_data(prometheus: &Prometheus) {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|it| it["targets"].as_array().cloned().unwrap_or_default());
    let asked = targets.map(|it| it["expr"].as_str().unwrap().to_owned());
    let asked = asked.map(|it| it.replace("$__rate_interval", "1m").replace("$skill", ".*"));
    let asked: Vec<_> = asked.collect();
    assert!(asked.len() > 50, "{}", asked.len());
    for expression in &asked {
        if MAY_BE_EMPTY.iter().any(|it| expression.contains(it)) {
            prometheus.query(expression).await;
            continue;
        }
        until(&format!("{expression} has data"), PATIENCE, || async {
            (!prometheus.query(expression).await.is_empty()).then_some(())
        })
        .await;
    }
}
