//! Small attempts of all kinds, from inside a call, each compared with the table.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use openskill_proto::v1::InvokeRequest;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::request;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use super::stage::{self, Gateway, Kind, LEVELS, Scene, Stage, Worker};
use super::table::{Place, Table};

/// What the manifest of the probes says besides.
pub(super) const PROBES: &str = "limits: {processes: 64}";

/// What must be there for the probes to meet a wall, and not a lack: made by `targets.py` beside the worker.
struct Targets {
    /// Removes them at the end of its input.
    script: Child,
    /// What the probes are told, see `probing/place.py`.
    told: Value,
}

impl Targets {
    async fn make(script: &mut Command, known: &Value) -> Self {
        let mut script = script.arg("--listen").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        script.stdin.as_mut().unwrap().write_all(format!("{known}\n").as_bytes()).await.unwrap();
        let mut told = String::new();
        BufReader::new(script.stdout.as_mut().unwrap()).read_line(&mut told).await.unwrap();
        Self { script, told: serde_json::from_str(&told).expect("targets.py tells what it made") }
    }

    /// What the probes left outside of their places.
    async fn left(self) -> Vec<String> {
        let output = self.script.wait_with_output().await.unwrap();
        serde_json::from_slice(&output.stdout).expect("targets.py tells what is left")
    }
}

async fn probes_meet_their_walls(worker: Worker) {
    if stage::place().starts_with(std::env::temp_dir()) {
        let reason =
            "strict calls have a /tmp of their own, and this checkout is beneath /tmp or not open to all users";
        return skip(Need::Jail, &format!("{reason}; clone it elsewhere, such as to /srv/openskill"));
    }
    let mut differences = Vec::new();
    for (level, word) in LEVELS.iter().copied() {
        let Some(scene) = Scene::at(worker, (level, word)).await else { continue };
        furnish(&scene);
        let scene = scene.skills("probes", "probes.py", PROBES);
        scene.skill("neighbour_fork", Kind::Fork, "attacks.py", "");
        let Some(stage) = scene.start().await else { return };
        for kind in Kind::ALL {
            let place = Place { worker: worker.words(), kind, level };
            let script = Command::new(stage.path("skills/targets.py"));
            differences.extend(run(stage.gateway(), place, script, known(&stage).await).await);
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// What a stage knows of the targets.
async fn known(stage: &Stage) -> Value {
    let workers = stage.system.workers().await;
    let looked_through = ["", "skills", "others", "outside", "tmp"].map(|it| stage.path(it));
    json!({
        "root": stage.path("data"),
        "uid": stage.uid,
        "outside": stage.path("outside"),
        "other_skill": stage.path("others/other.py"),
        "worker_folder": stage.system.process.folder.path(),
        "binary": openskill_tests::binary(),
        "gateway_port": stage.system.address.port(),
        "worker_socket": workers[0].endpoint.trim_start_matches("unix:"),
        "processes": {"worker": stage.worker(), "gateway": stage.system.process.pid()},
        "looked_through": looked_through,
    })
}

/// The probes of one kind of call: what differs from the table, and what they left. The worker has the skills `probes_KIND` and
/// `neighbour_fork`. `script`: runs `targets.py` beside it, which is told what is `known`.
pub(super) async fn run(gateway: Gateway, place: Place, mut script: Command, mut known: Value) -> Vec<String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let own = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let neighbour = format!("neighbour-{own}");
    (known["marker"], known["neighbour"]) = (json!(format!("openskill-probe-{own}")), json!(neighbour));
    let call = InvokeRequest {
        call_id: neighbour.clone(),
        timeout_ms: 120_000,
        ..request("neighbour_fork", json!({"do": "stay", "tell": neighbour}))
    };
    let mut client = gateway.skills().await;
    let neighbour = tokio::spawn(async move { drop(client.invoke(call).await) });
    let targets = Targets::make(&mut script, &known).await;
    let result = gateway.value(&format!("probes_{}", place.kind.word()), targets.told.clone()).await;
    neighbour.abort();
    let outcomes: BTreeMap<String, String> = serde_json::from_value(result).unwrap();
    assert!(outcomes.len() > 300, "{outcomes:?}");
    record(&outcomes, place);
    let mut differences = Table::read().differences(&outcomes, place);
    differences.extend(targets.left().await.into_iter().map(|name| format!("{name} was left")));
    let there = format!("[{:?}, {}, {}]", place.level, place.worker.join(" "), place.kind.word());
    differences.into_iter().map(|it| format!("{there} {it}")).collect()
}

/// Writes all outcomes into the folder that this names.
const RECORD: &str = "OPENSKILL_TEST_OUTCOMES";

fn record(outcomes: &BTreeMap<String, String>, place: Place) {
    if let Some(folder) = std::env::var_os(RECORD) {
        let name = format!("{:?}-{}-{}.json", place.level, place.worker.join("-"), place.kind.word());
        std::fs::write(Path::new(&folder).join(name), serde_json::to_string_pretty(outcomes).unwrap()).unwrap();
    }
}

/// What is there before the worker starts.
fn furnish(scene: &Scene) {
    scene.write("above", "above the root");
    scene.write("others/other.py", "print(1)\n");
    scene.write("outside/public", "public");
}

super::for_each_worker! { probes_meet_their_walls }

#[test]
fn every_level_has_a_column() {
    assert!(LEVELS.iter().enumerate().all(|(column, (level, _))| column == *level as usize));
}
