//! Dashboard and alert rules name only metrics that there are.

use std::collections::BTreeSet;

use openskill_tests::repository;
use serde_json::Value;

use super::lint::table;

/// The names in an expression that look like ours.
fn names(text: &str) -> BTreeSet<String> {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let words = text.split(|it| !is_word(it));
    words.filter(|it| it.starts_with("openskill_") || it.starts_with("process_")).map(str::to_owned).collect()
}

/// Every name that a series may have.
fn known() -> BTreeSet<String> {
    let samples = table().into_iter().flat_map(|row| match row.kind.as_str() {
        "histogram" => ["_bucket", "_sum", "_count"].iter().map(|it| format!("{}{it}", row.name)).collect(),
        _ => vec![row.name],
    });
    samples.collect()
}

/// All expressions of a dashboard.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let own = ["expr", "definition"].iter().filter_map(|key| fields.get(*key)?.as_str());
            found.extend(own.map(str::to_owned));
            fields.values().for_each(|it| expressions(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| expressions(it, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_shows_metrics_that_exist_and_most_of_them() {
    let path = repository().join("deploy/observability/grafana/dashboards/openskill.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut all = Vec::new();
    expressions(&dashboard, &mut all);
    assert!(all.len() > 40, "{all:?}");
    let (shown, known) = (names(&all.join(" ")), known());
    let unknown: Vec<_> = shown.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(shown.len() > 40, "{shown:?}");
}

#[test]
fn alert_rules_name_metrics_that_exist() {
    let text = std::fs::read_to_string(repository().join("deploy/observability/alerts.yml")).unwrap();
    let (named, known) = (names(&text), known());
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(named.len() > 10, "{named:?}");
}

#[test]
fn names_in_expressions_are_found() {
    let found = names("sum by (le) (rate(openskill_a_bucket{skill=~\"$skill\"}[5m])) / process_open_fds > 0 and up");
    assert_eq!(found, ["openskill_a_bucket", "process_open_fds"].map(str::to_owned).into());
}
