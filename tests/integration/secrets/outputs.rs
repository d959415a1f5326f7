//! Everything that a system puts out but the results of its callers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use openskill_proto::v1::GetTraceRequest;
use openskill_redact::testing::Finder;
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::binary;
use openskill_tests::rest;
use openskill_tests::system::{PATIENCE, System};
use openskill_tests::wait::until;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use serde_json::Value;
use tokio::process::Command;

/// How much of the text around a secret is shown.
const AROUND: usize = 160;

/// Takes spans and metrics.
pub(super) async fn collector() -> Backend {
    Backend::start(|_| Reply::new(200, "application/x-protobuf", "")).await
}

/// Texts, and what each of them is.
#[derive(Debug, Default)]
pub(super) struct Outputs(Vec<(&'static str, String)>);

impl Outputs {
    pub(super) fn add(&mut self, what: &'static str, text: String) {
        assert!(!text.is_empty(), "{what} is empty");
        self.0.push((what, text));
    }

    /// The events of a call as the gateway answers them, and what its skill said in pieces, put together. Returns the events.
    pub(super) async fn add_recorded(&mut self, system: &System, id: &str) -> Vec<Value> {
        let lines = until("a call is recorded", PATIENCE, || async {
            let trace = system.traces().await.get_trace(GetTraceRequest { id: id.to_owned() }).await;
            trace.ok().map(|it| it.into_inner().events_json)
        })
        .await;
        let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        self.add("an answer about a call", lines.join("\n"));
        for kind in ["log", "progress", "partial"] {
            let said = events.iter().filter(|it| it["event"] == kind);
            let said: String = said.filter_map(|it| it["message"].as_str().or(it["data"]["delta"].as_str())).collect();
            self.0.push(("what a skill said", said));
        }
        events
    }

    /// A call as the commands show it.
    pub(super) async fn add_shown(&mut self, system: &System, id: &str) {
        for (what, arguments) in [
            ("a waterfall", &["trace", id][..]),
            ("a call as JSON", &["trace", id, "--json"]),
            ("a call as Markdown", &["trace", id, "--markdown"]),
        ] {
            self.add(what, command(system, arguments).await);
        }
    }

    /// What tells of all calls.
    pub(super) async fn add_lists(&mut self, system: &System, worker: SocketAddr) {
        self.add("a list of calls", command(system, &["traces", "--limit", "500"]).await);
        self.add("a list of calls as JSON", command(system, &["traces", "--limit", "500", "--json"]).await);
        self.add("a list of skills", command(system, &["skills"]).await);
        for (what, address) in [("the gateway's metrics", system.address), ("the worker's metrics", worker)] {
            self.add(what, rest::metrics(address).await);
        }
    }

    /// The recorder's files.
    pub(super) fn add_files(&mut self, folder: &Path) {
        let files = std::fs::read_dir(folder).unwrap().flatten().map(|it| it.path());
        let mut count = 0;
        for file in files.filter(|it| it.extension().is_some_and(|it| it == "jsonl")) {
            self.add("a file of the recorder", std::fs::read_to_string(file).unwrap());
            count += 1;
        }
        assert!(count > 0, "there are no files");
    }

    /// Spans and metrics.
    pub(super) fn add_exported(&mut self, collector: &Backend) {
        for seen in collector.seen() {
            match seen.path() {
                "/v1/traces" => {
                    let spans = ExportTraceServiceRequest::decode(seen.body).unwrap();
                    self.add("spans", format!("{spans:?}"));
                }
                _ => {
                    let metrics = ExportMetricsServiceRequest::decode(seen.body).unwrap();
                    self.add("exported metrics", format!("{metrics:?}"));
                }
            }
        }
    }

    /// What there is, by its name.
    pub(super) fn count(&self, what: &str) -> usize {
        self.0.iter().filter(|(it, _)| *it == what).count()
    }

    /// How many secrets each sort of output has.
    pub(super) fn found_in(&self, finder: &Finder<'_>, what: &str) -> usize {
        let texts = self.0.iter().filter(|(it, _)| *it == what);
        texts.map(|(_, text)| finder.find(text).len()).sum()
    }

    /// A line about each secret in each output.
    pub(super) fn leaks(&self, finder: &Finder<'_>, sent: &[(&'static str, String)]) -> Vec<String> {
        let told = |(what, text): &(&str, String)| {
            let found = finder.find(text).into_iter();
            found
                .map(|(index, part)| {
                    let planted = finder.planted(index);
                    let (shape, place, way) = (planted.secret.shape, planted.place, sent[index].0);
                    format!(
                        "{what} has '{part}': {shape}, {place}, by {way}\n  {:?}\n  {}",
                        planted.text,
                        around(text, &part)
                    )
                })
                .collect::<Vec<_>>()
        };
        self.0.iter().flat_map(told).collect()
    }
}

/// The text around a part, if it is there as it is.
fn around<'t>(text: &'t str, part: &str) -> &'t str {
    let Some(at) = text.find(part) else { return "(encoded)" };
    let (from, to) = (at.saturating_sub(AROUND), (at + AROUND).min(text.len()));
    &text[text.floor_char_boundary(from)..text.ceil_char_boundary(to)]
}

async fn command(system: &System, arguments: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.args(arguments).env_clear().stdin(Stdio::null());
    command.env("OPENSKILL_HTTP_BASE_URL", system.url()).env("TRACE_MD_INCLUDE_RAW_RESPONSE", "true");
    let output = command.output().await.unwrap();
    [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap()).concat()
}
