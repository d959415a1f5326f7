//! Secrets planted in everything that callers, skills and servers write: nothing that is logged, recorded, exported, measured
//! or shown has one.

use std::path::PathBuf;

use futures_util::StreamExt as _;
use openskill_proto::v1::InvokeRequest;
use openskill_redact::testing::{Finder, Planted, Random, innocent, planted};
use openskill_tests::backend::Backend;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::soak::count;
use openskill_tests::system::{Setup, System, request};
use serde_json::{Value, json};

mod outputs;
mod ways;

use outputs::Outputs;
use ways::{Place, WAYS};

/// How many calls run at once.
const AT_ONCE: usize = 8;

/// How many calls are shown by commands too: each is a process.
const SHOWN: usize = 20;

/// A way, and the trace id of the call that went it.
type Sent = (&'static str, String);

/// A system that logs, records, exports and measures everything.
struct Watched {
    system: System,
    log: PathBuf,
    /// Has the log, and what is recorded.
    folder: Folder,
    collector: Backend,
    /// Of the worker's metrics.
    scraped: Port,
    _place: Place,
}

impl Watched {
    async fn start(settings: &[(&str, &str)]) -> Self {
        let (place, folder, scraped) = (Place::new().await, Folder::new(), Port::reserve());
        let (collector, log) = (outputs::collector().await, folder.path().join("log"));
        let setup = Setup::with_skills(&[place.skills.path(), &openskill_tests::fixtures()])
            .flag("--workers", 1)
            .log_to(&log)
            // Level DEBUG, without the frames of HTTP, which have no texts.
            .with("OPENSKILL_DEBUG", "1")
            .with("OPENSKILL_LOG_REFUSALS", 0)
            .with("OPENSKILL_TRACE_DIR", folder.path().join("calls").display())
            .with("OPENSKILL_WORKER_METRICS_LISTEN", scraped.address())
            .with("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url("/"))
            .with("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
            .with("OTEL_METRIC_EXPORT_INTERVAL", 1000)
            .with("CIRCUIT_FAILURE_THRESHOLD", 0)
            .with("OPENSKILL_CIRCUIT_MINIMUM_CALLS", 0);
        let system = settings.iter().fold(setup, |setup, (name, value)| setup.with(name, value)).start().await;
        for skill in ["tells", "fails", "streams", "nowhere", "own__says", "own__breaks"] {
            system.has_skill(skill).await;
        }
        Self { system, log, folder, collector, scraped, _place: place }
    }

    /// Brings each secret into the system.
    async fn plant(&self, planted: &[Planted]) -> Vec<Sent> {
        let mut random = Random::new(planted.len() as u64);
        let mut way = |planted: &Planted| {
            let ways: Vec<_> = WAYS.into_iter().filter(|way| ways::leads(way, planted)).collect();
            *random.pick(&ways)
        };
        let ways: Vec<_> = planted.iter().map(&mut way).collect();
        let skills = self.system.skills().await;
        let send = |(number, (planted, way))| {
            let (system, skills) = (&self.system, &skills);
            async move { (way, ways::send(system, skills, way, planted, number).await) }
        };
        futures_util::stream::iter(planted.iter().zip(ways).enumerate()).map(send).buffered(AT_ONCE).collect().await
    }

    /// Everything that the system put out, once it has ended.
    async fn outputs(mut self, sent: &[Sent]) -> Outputs {
        let mut outputs = Outputs::default();
        for (number, (_, trace)) in sent.iter().enumerate() {
            outputs.add_recorded(&self.system, trace).await;
            if number % (sent.len() / SHOWN).max(1) == 0 {
                outputs.add_shown(&self.system, trace).await;
            }
        }
        outputs.add_lists(&self.system, self.scraped.address()).await;
        outputs.add("the log", self.log().await);
        outputs.add_files(&self.folder.path().join("calls"));
        outputs.add_exported(&self.collector);
        outputs
    }

    /// The log of all processes, which end.
    async fn log(&mut self) -> String {
        self.system.process.terminate();
        self.system.process.ended().await;
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// What each sort of output has to be there for.
const SORTS: [&str; 11] = [
    "an answer about a call",
    "a waterfall",
    "a call as JSON",
    "a call as Markdown",
    "a list of calls",
    "a list of calls as JSON",
    "the gateway's metrics",
    "the worker's metrics",
    "a file of the recorder",
    "spans",
    "exported metrics",
];

async fn nothing_has_a_secret(settings: &[(&str, &str)], seed: u64, count: usize) {
    let planted = planted(seed, count);
    let finder = Finder::new(&planted);
    let watched = Watched::start(settings).await;
    let sent = watched.plant(&planted).await;
    let outputs = watched.outputs(&sent).await;
    for sort in SORTS {
        assert!(outputs.count(sort) > 0, "{sort} is missing");
    }
    let leaks = outputs.leaks(&finder, &sent);
    let shown: Vec<_> = leaks.iter().take(30).map(String::as_str).collect();
    assert!(leaks.is_empty(), "{} leaks of {count} secrets\n{}", leaks.len(), shown.join("\n"));
}

#[tokio::test]
async fn no_planted_secret_is_logged_as_text_recorded_exported_measured_or_shown() {
    nothing_has_a_secret(&[("OPENSKILL_LOG_FORMAT", "text")], 101, count(200, 5000)).await;
}

#[tokio::test]
async fn no_planted_secret_is_logged_as_json_at_the_lowest_level() {
    let settings = [("OPENSKILL_LOG_FORMAT", "json"), ("OPENSKILL_LOG", "trace,h2=info,hyper=info,hyper_util=info")];
    nothing_has_a_secret(&settings, 102, count(50, 1250)).await;
}

/// The other tests would pass if nothing arrived anywhere.
#[tokio::test]
async fn planted_secrets_are_everywhere_if_redaction_is_off() {
    let planted = planted(103, 150);
    let finder = Finder::new(&planted);
    let watched = Watched::start(&[("TRACE_SANITIZE", "false")]).await;
    let sent = watched.plant(&planted).await;
    let outputs = watched.outputs(&sent).await;
    for sort in
        ["an answer about a call", "what a skill said", "a file of the recorder", "the log", "a waterfall", "spans"]
    {
        assert!(outputs.found_in(&finder, sort) > 0, "{sort}");
    }
    for sort in ["the gateway's metrics", "the worker's metrics", "exported metrics"] {
        assert_eq!(outputs.found_in(&finder, sort), 0, "{sort} has nothing that others wrote");
    }
}

/// No form gives them away: the caller says what is secret.
#[tokio::test]
async fn what_a_skill_says_is_not_logged_if_its_caller_names_a_secret() {
    const SECRET: &str = "zebra-fandango";
    let mut watched = Watched::start(&[("OPENSKILL_LOG_FORMAT", "json")]).await;
    for (skill, input) in [
        ("tells", json!({ "text": SECRET, "how": "stderr" })),
        ("tells", json!({ "text": SECRET, "how": "exception" })),
        ("nowhere", json!({ "text": SECRET })),
    ] {
        let call = request(skill, input);
        watched.system.invoke(InvokeRequest { secret_values: vec![SECRET.to_owned()], ..call.clone() }).await;
        watched.system.invoke(InvokeRequest { arguments: call.arguments, ..request(skill, json!({})) }).await;
    }
    let log = watched.log().await;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let wrote = lines.filter(|it| it["message"] == "the skill wrote to stderr").count();
    assert_eq!((wrote, log.matches(SECRET).count()), (4, 3), "{log}");
}

#[tokio::test]
async fn innocent_text_is_recorded_and_logged_as_it_is() {
    const COUNT: usize = 300;
    let mut random = Random::new(104);
    let texts: Vec<_> = (0..COUNT).map(|_| innocent(&mut random)).collect();
    let mut watched = Watched::start(&[("OPENSKILL_LOG_FORMAT", "json")]).await;
    let skills = watched.system.skills().await;
    let (mut touched, mut outputs) = (Vec::new(), Outputs::default());
    for (number, text) in texts.iter().enumerate() {
        let trace = format!("innocent-{number}");
        ways::run(&skills, &trace, request("tells", json!({ "text": text, "how": "stderr" }))).await;
        let events = outputs.add_recorded(&watched.system, &trace).await;
        if events[0]["arguments"]["text"] != **text {
            touched.push(format!("recorded: {text}\n  -> {}", events[0]["arguments"]));
        }
    }
    let log = watched.log().await;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let logged: Vec<_> = lines.filter(|it| it["message"] == "stderr of the skill").collect();
    assert!(logged.len() >= COUNT, "{} of {COUNT} are logged", logged.len());
    for line in logged {
        let number: usize = line["trace_id"].as_str().unwrap().trim_start_matches("innocent-").parse().unwrap();
        if line["stderr"] != *texts[number].trim_end() {
            touched.push(format!("logged: {}\n  -> {}", texts[number], line["stderr"]));
        }
    }
    assert!(touched.len() * 100 < 2 * COUNT, "{} of {} are touched\n{}", touched.len(), 2 * COUNT, touched.join("\n"));
}
