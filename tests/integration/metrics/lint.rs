//! Names, help and types of all metrics: our own checks, which always run, and those of promtool where it is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use openskill_tests::require::{Need, skip};
use openskill_tests::system::request;
use openskill_tests::{binary, repository};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::scraped::{Scraped, scrape, scrape_gateway};
use super::{up, workers};

/// A row of the reference.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) kind: String,
    labels: Vec<String>,
    pub(crate) of: String,
}

/// The table in `docs/metrics.md`.
pub(crate) fn table() -> Vec<Row> {
    let page = std::fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let (_, table) = page.split_once("| metric | type | unit | labels | of | meaning |\n").expect("the table is there");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<_> = line.split('|').skip(1).map(|cell| cell.trim().to_owned()).collect();
        let plain = |cell: &str| cell.replace('`', "");
        let labels = cells[3].split(", ").map(plain).filter(|label| !label.is_empty()).collect();
        Row { name: plain(&cells[0]), kind: cells[1].clone(), labels, of: cells[4].clone() }
    });
    rows.collect()
}

#[tokio::test]
async fn the_documented_reference_of_metrics_is_current() {
    let output = Command::new(binary()).args(["config", "--metrics"]).output().await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let page = std::fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    assert!(page.contains(&printed), "docs/metrics.md is out of date: paste `openskill config --metrics`");
    assert!(table().len() > 40, "{:?}", table());
}

/// Checks one scrape against the reference.
fn check(scraped: &Scraped, process: &str) {
    let rows: BTreeMap<_, _> = table().into_iter().map(|row| (row.name.clone(), row)).collect();
    let (mut helped, mut typed) = (BTreeSet::new(), BTreeMap::new());
    for line in scraped.text.lines().filter(|line| line.starts_with('#')) {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[1] {
            "HELP" => assert!(words[3].len() > 10 && helped.insert(words[2].to_owned()), "{line}"),
            "TYPE" => assert!(typed.insert(words[2].to_owned(), words[3].to_owned()).is_none(), "{line}"),
            _ => panic!("neither help nor type: {line}"),
        }
    }
    for (name, kind) in &typed {
        let row = rows.get(name).unwrap_or_else(|| panic!("{name} is not in docs/metrics.md"));
        assert_eq!(*kind, row.kind, "{name}");
        assert!(helped.contains(name) && row.of.contains(process), "{name} of {process}: {row:?}");
    }
    for series in scraped.series.keys() {
        let (sample, labels) = series.split_once('{').unwrap_or((series, ""));
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|it| sample.strip_suffix(it));
        let name = of_histogram.filter(|it| typed.get(*it).is_some_and(|kind| kind == "histogram")).unwrap_or(sample);
        let row = rows.get(name).unwrap_or_else(|| panic!("{series} is not in docs/metrics.md"));
        let found: Vec<_> = labels.split("\",").filter_map(|it| it.split_once('=')).map(|(name, _)| name).collect();
        let found: Vec<_> = found.into_iter().filter(|label| *label != "le").collect();
        assert_eq!(found, row.labels, "{series}");
    }
}

#[tokio::test]
async fn every_series_of_both_processes_is_in_the_reference() {
    let system = up().start().await;
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
    system.invoke(request("in_fail", json!({"code": "EXECUTION_ERROR"}))).await;
    check(&scrape_gateway(&system).await, "gateway");
    for address in workers(&system, 2).await {
        check(&scrape(address).await, "worker");
    }
}

async fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[tokio::test]
async fn promtool_finds_nothing_to_complain_about() {
    let rules = repository().join("deploy/observability/alerts.yml");
    let Some((accepted, said)) = promtool(&["check", "rules", rules.to_str().unwrap()], "").await else {
        return skip(Need::Promtool, "there is no promtool on PATH");
    };
    assert!(accepted, "{said}");
    let system = up().start().await;
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
    system.invoke(request("in_fail", json!({"code": "EXECUTION_ERROR"}))).await;
    let mut scraped = vec![scrape_gateway(&system).await];
    for address in workers(&system, 2).await {
        scraped.push(scrape(address).await);
    }
    for it in scraped {
        let (accepted, said) = promtool(&["check", "metrics"], &it.text).await.unwrap();
        assert!(accepted && said.is_empty(), "{said}\n{}", it.text);
    }
}
